"""Small flows with known values, written as the published data sets are.

The body is a box of quads; pressure and vector are functions of position, so that any row of any
store tells whether its values are those of its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyvista
from numpy.typing import NDArray

from slipstream.data.store import RowBlocks, Source

LOW, HIGH = np.array([0.0, -1.0, 0.0]), np.array([4.0, 1.0, 1.0])
"""Corners of the body."""


def pressure(x: NDArray[Any]) -> NDArray[Any]:
    return (10 * x[:, 0] - 3 * x[:, 1] + 7 * x[:, 2] - 5).astype(np.float32)


def vector(x: NDArray[Any]) -> NDArray[Any]:
    parts = (-1 - x[:, 0] * x[:, 1] ** 2, x[:, 1] * 2 + x[:, 2], x[:, 2] - x[:, 1])
    return np.stack(parts, 1).astype(np.float32)


def make_surface(*, inward: bool = False, triangles: bool = False) -> pyvista.PolyData:
    """The body; with inward corners as OpenFOAM orders them, which looks out of the fluid."""
    box = pyvista.Box((LOW[0], HIGH[0], LOW[1], HIGH[1], LOW[2], HIGH[2]), level=2).clean()
    box.points = box.points.astype(np.float32)
    box = box.compute_normals(auto_orient_normals=True, flip_normals=inward, split_vertices=False)
    box.clear_data()
    return box.triangulate() if triangles else box


def make_volume(*, half: bool = False) -> pyvista.UnstructuredGrid:
    """Cells around the body, in a domain larger than any crop; of one side of y = 0 if `half`."""
    x, z = np.linspace(-6, 10, 13), np.linspace(0, 5, 6)
    y = np.linspace(0, 4, 5) if half else np.linspace(-4, 4, 9)
    grid = pyvista.RectilinearGrid(*(a.astype(np.float32) for a in (x, y, z)))
    inside = ((grid.cell_centers().points > LOW) & (grid.cell_centers().points < HIGH)).all(1)
    return grid.cast_to_unstructured_grid().extract_cells(np.flatnonzero(~inside))


def distance(x: NDArray[Any]) -> NDArray[Any]:
    """To the body, from outside."""
    return np.linalg.norm(np.maximum(np.maximum(LOW - x, x - HIGH), 0), axis=1)


def add(mesh: Any, location: str, arrays: Mapping[str, Any]) -> Any:
    """Give a mesh arrays: functions of the places, or values."""
    places = mesh.points if location == "point" else mesh.cell_centers().points
    for name, array in arrays.items():
        values = array(places) if callable(array) else array
        (mesh.point_data if location == "point" else mesh.cell_data)[name] = values
    return mesh


def save(mesh: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    mesh.save(path, binary=True)
    return path


def save_parts(mesh: Any, path: Path, parts: int = 2) -> None:
    """A file cut into pieces, <name>.00.part and so on."""
    whole = save(mesh, path).read_bytes()
    size = -(-len(whole) // parts)
    for part in range(parts):
        path.with_name(f"{path.name}.{part:02d}.part").write_bytes(
            whole[part * size : (part + 1) * size]
        )
    path.unlink()


def rows_of(source: Source, sample: str) -> dict[str, NDArray[Any]]:
    """The columns of a sample by field."""
    read = source.read(sample)
    assert isinstance(read, RowBlocks)
    rows = np.concatenate(list(read.blocks()))
    assert rows.shape == (read.rows, source.schema.width)
    return {
        field.name: rows[:, source.schema.columns(field.name)] for field in source.schema.fields
    }
