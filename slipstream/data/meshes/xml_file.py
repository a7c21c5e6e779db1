"""VTK XML files read without VTK: only the wanted arrays are held in memory, and no cells.

VTK's reader loads the cells together with the points, for a moment twice; in a volume they take 70
bytes a point. Here they are read some at a time, and only if cells are asked for.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes.arrays import ArrayInfo, MeshInfo
from slipstream.data.meshes.cells import CHUNK, POLYGON, Cells, Chunk
from slipstream.data.meshes.parts import open_parts
from slipstream.data.meshes.xml_header import Piece, XmlArray, XmlHeader
from slipstream.data.meshes.xml_values import Values, can_read

_SECTIONS = {"point": "PointData", "cell": "CellData"}


@dataclass(frozen=True, eq=False)
class XmlFile:
    """A file, or its byte parts, whose header has been read."""

    paths: tuple[Path, ...]
    header: XmlHeader

    @property
    def name(self) -> str:
        return self.header.file

    @cached_property
    def info(self) -> MeshInfo:
        return self.header.info()

    def readable(self, arrays: Sequence[ArrayInfo]) -> bool:
        """Whether points, cells and these arrays can be read here, and not only by VTK.

        Ascii values cannot, nor can PolyData with lines or strips, whose order VTK changes.
        """
        polygons = self.header.kind == "PolyData"
        if self.header.kind != "UnstructuredGrid" and not polygons:
            return False
        for piece in self.header.pieces:
            if polygons and piece.cells != piece.by_section["Polys"]:
                return False
            needed = [*self._corners(piece), piece.find("Points")]
            needed += [piece.find(_SECTIONS[a.location], a.name) for a in arrays]
            if piece.points and not all(a and can_read(self.header, a) for a in needed):
                return False
        return True

    def points(self) -> NDArray[Any]:
        with open_parts(self.paths) as file:
            parts = [(piece.find("Points"), piece.points) for piece in self.header.pieces]
            return self._read(file, parts, 3).reshape(-1, 3)

    def values(self, info: ArrayInfo) -> NDArray[Any]:
        rows = [p.points if info.location == "point" else p.cells for p in self.header.pieces]
        arrays = [p.find(_SECTIONS[info.location], info.name) for p in self.header.pieces]
        with open_parts(self.paths) as file:
            values = self._read(file, list(zip(arrays, rows, strict=True)), info.components)
        return values if info.components == 1 else values.reshape(-1, info.components)

    def cells(self) -> Cells:
        return Cells(self.name, self.info.cells, self.info.points, self._chunks)

    def _read(
        self, file: io.BufferedReader, parts: Sequence[tuple[XmlArray | None, int]], components: int
    ) -> NDArray[Any]:
        """The values of all pieces; ValueError unless there are as many as the header says."""
        taken = []
        for array, rows in parts:
            if array is None or not rows:
                continue
            values = Values(file, self.header, array)
            if values.total != rows * components:
                raise ValueError(
                    f"{array.label} of {self.name} must have {rows * components} values, as"
                    f" the header says, got {values.total}"
                )
            taken.append(values.take(values.total))
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _corners(self, piece: Piece) -> list[XmlArray | None]:
        if self.header.kind == "PolyData":
            return [piece.find("Polys", name) for name in ("offsets", "connectivity")]
        return [piece.find("Cells", name) for name in ("offsets", "connectivity", "types")]

    def _chunks(self) -> Iterator[Chunk]:
        with open_parts(self.paths) as file:
            before = 0
            for piece in self.header.pieces:
                if piece.cells:
                    streams = [Values(file, self.header, a) for a in self._corners(piece) if a]
                    yield from self._piece_chunks(piece, streams, before)
                before += piece.points

    def _piece_chunks(self, piece: Piece, streams: list[Values], before: int) -> Iterator[Chunk]:
        """`before` is the number of points in the pieces before this one."""
        offsets, corners, *types = streams
        last = 0
        for first in range(0, piece.cells, CHUNK):
            count = min(CHUNK, piece.cells - first)
            ends = offsets.take(count).astype(np.int64, copy=False)
            bounds = np.concatenate(([last], ends))
            if (np.diff(bounds) < 0).any() or bounds[-1] > corners.total:
                raise ValueError(f"the offsets of cells in {self.name} must rise, got a fall")
            here = corners.take(int(bounds[-1] - last))
            kinds = types[0].take(count) if types else np.full(count, POLYGON, np.uint8)
            yield Chunk(kinds, bounds[:-1] - last, here + before if before else here)
            last = int(bounds[-1])
        if last != corners.total:
            raise ValueError(
                f"the offsets of cells in {self.name} must end with {corners.total}, the number of"
                f" corners, got {last}"
            )
