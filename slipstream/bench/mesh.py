"""How fast a volume mesh is ingested into a store, and how much memory that takes.

The mesh is written for the measurement, a cube of hexahedra in a .vtu with raw values, and is then
ingested as a user's mesh is: by a card, as a source.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import ingest

_CARD = """\
schema: 1
files: {volume: "{id}.vtu"}
targets:
  - {name: pressure, unit: Pa, from: {array: pressure}}
  - {name: velocity, unit: m/s, from: {array: velocity, components: 3}}
"""
_HEXAHEDRON = 12  # VTK's number for it
_CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))


def measure_mesh(folder: Path, *, points: int) -> dict[str, Any]:
    """Ingest a mesh of about this many points in a separate process; rate and peak memory of it.

    `uncompressed_bytes` counts points, cells and both arrays, `read_bytes` all but the cells, which
    rows at points do not need. `start_bytes` is the memory of the process before it begins.
    """
    check_whole("points of a mesh", points, 8)
    raw = folder / "raw"
    raw.mkdir(parents=True)
    grid = Grid(round(points ** (1 / 3)))
    write_vtu(raw / "cube.vtu", grid)
    (folder / "card.yaml").write_text(_CARD)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        figures = executor.submit(_ingest, folder).result()
    sizes = {array.name: array.bytes for array in grid.arrays()}
    cells = sum(sizes[name] for name in ("connectivity", "offsets", "types"))
    return {
        "points": grid.points,
        "cells": grid.cells,
        "uncompressed_bytes": sum(sizes.values()),
        "read_bytes": sum(sizes.values()) - cells,
        **figures,
        "points_per_second": grid.points / figures["seconds"],
    }


def _ingest(folder: Path) -> dict[str, Any]:
    start = _memory("VmRSS")
    started = time.perf_counter()
    ingest(MeshSource(folder / "raw", read_card(folder / "card.yaml")), folder / "store")
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "start_bytes": start, "peak_bytes": _memory("VmHWM")}


def _memory(key: str) -> int:
    """Memory of this process by Linux: VmRSS is what it holds now, VmHWM the most it ever held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return 1024 * int(line.split()[1])


@dataclass(frozen=True)
class _Array:
    name: str
    type: str
    components: int
    rows: int
    layer: Callable[[int], NDArray[Any]]
    """The values of one layer of points or cells."""
    layers: int

    @property
    def bytes(self) -> int:
        return self.rows * self.components * np.dtype(self.type.lower()).itemsize

    def header(self, offset: int) -> str:
        return (
            f'<DataArray type="{self.type}" Name="{self.name}" format="appended"'
            f' NumberOfComponents="{self.components}" offset="{offset}"/>'
        )

    def write(self, file: BinaryIO) -> None:
        file.write(np.uint64(self.bytes).tobytes())
        for k in range(self.layers):
            file.write(np.ascontiguousarray(self.layer(k), self.type.lower()).data)


@dataclass(frozen=True)
class Grid:
    """A unit cube of edge^3 points, computed layer by layer: it is never held as a whole."""

    edge: int

    @property
    def points(self) -> int:
        return self.edge**3

    @property
    def cells(self) -> int:
        return (self.edge - 1) ** 3

    def arrays(self) -> tuple[_Array, ...]:
        points, cells, n = self.points, self.cells, self.edge
        return (
            _Array("pressure", "Float32", 1, points, self._pressure, n),
            _Array("velocity", "Float32", 3, points, self._velocity, n),
            _Array("Points", "Float32", 3, points, self._places, n),
            _Array("connectivity", "Int64", 1, 8 * cells, self._corners, n - 1),
            _Array("offsets", "Int64", 1, cells, self._ends, n - 1),
            _Array("types", "UInt8", 1, cells, self._types, n - 1),
        )

    def _places(self, layer: int) -> NDArray[Any]:
        at = np.linspace(0, 1, self.edge, dtype=np.float32)
        y, x = np.meshgrid(at, at, indexing="ij")
        return np.stack((x, y, np.full_like(x, at[layer])), -1).reshape(-1, 3)

    def _velocity(self, layer: int) -> NDArray[Any]:
        return np.sin(7 * self._places(layer)[:, (1, 2, 0)])

    def _pressure(self, layer: int) -> NDArray[Any]:
        return 1 - np.square(self._velocity(layer)).sum(1)

    def _corners(self, layer: int) -> NDArray[Any]:
        n = self.edge
        steps = np.array([x + n * y + n * n * z for x, y, z in _CORNERS])
        inner = np.arange(n - 1)
        first = (inner[:, None] * n + inner).reshape(-1, 1) + n * n * layer
        return first + steps

    def _ends(self, layer: int) -> NDArray[Any]:
        count = (self.edge - 1) ** 2
        return 8 * (1 + count * layer + np.arange(count))

    def _types(self, layer: int) -> NDArray[Any]:
        return np.full((self.edge - 1) ** 2, _HEXAHEDRON)


def write_vtu(path: Path, grid: Grid) -> None:
    """Write the grid as a VTK XML file with raw values after the header."""
    arrays = grid.arrays()
    starts = np.cumsum([0, *(8 + array.bytes for array in arrays)]).tolist()
    pressure, velocity, places, *cells = (
        array.header(start) for array, start in zip(arrays, starts, strict=False)
    )
    head = (
        '<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0"'
        ' byte_order="LittleEndian" header_type="UInt64">\n<UnstructuredGrid>'
        f'<Piece NumberOfPoints="{grid.points}" NumberOfCells="{grid.cells}">\n'
        f"<PointData>{pressure}{velocity}</PointData>\n<Points>{places}</Points>\n"
        f"<Cells>{''.join(cells)}</Cells>\n</Piece></UnstructuredGrid>\n"
        '<AppendedData encoding="raw">\n_'
    )
    with path.open("wb") as file:
        file.write(head.encode())
        for array in arrays:
            array.write(file)
        file.write(b"\n</AppendedData>\n</VTKFile>\n")
