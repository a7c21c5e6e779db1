"""What a mesh is made of, and what is wrong with it: kinds of cells, open edges, twin points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.data.edges import open_edges, places
from slipstream.data.geometry import cell_normals, point_normals
from slipstream.data.readers.vtk import Location, Mesh

LARGE = 5_000_000
"""Points from which on only counts and extents are looked at."""

Kind = Literal["points", "lines", "surface", "volume"]
_TINY = 1e-12  # of the median size: what a cell without extent has at most
_POINTS, _LINES = (1, 2), (3, 4, 21)
_FLAT = {5: "triangle", 6: "strip", 7: "polygon", 8: "pixel", 9: "quad", 22: "triangle6"}
_SOLID = {10: "tetrahedron", 11: "voxel", 12: "hexahedron", 13: "wedge", 14: "pyramid"}
_SOLID |= {24: "tetrahedron10", 25: "hexahedron20", 42: "polyhedron"}
_NAMES = {1: "vertex", 2: "vertices", 3: "line", 4: "polyline", 23: "quad8"} | _FLAT | _SOLID


@dataclass(frozen=True)
class Shape:
    """A mesh without its arrays. None stands for what was not looked at, or cannot be said."""

    kind: Kind
    points: int
    cells: int
    cell_kinds: dict[str, int]
    low: tuple[float, ...]
    high: tuple[float, ...]
    twins: int | None = None
    """Points at the same place as another."""
    unused: int | None = None
    """Points of no cell."""
    degenerate: int | None = None
    """Triangles of a surface without area, cells of a volume without volume."""
    open_edges: int | None = None
    """Edges of a surface with a face on one side only."""
    outward: bool | None = None
    """Whether the faces of a closed surface turn outward."""


def shape_of(mesh: Mesh) -> Shape:
    points = mesh.points()
    counts, used = _count_cells(mesh)
    shape = Shape(
        kind=_kind(counts),
        points=len(points),
        cells=sum(counts.values()),
        cell_kinds=_named(counts),
        low=tuple(float(x) for x in points.min(0)),
        high=tuple(float(x) for x in points.max(0)),
        unused=int((~used).sum()),
    )
    if len(points) > LARGE:
        return shape
    place = places(points)
    shape = replace(shape, twins=len(points) - (int(place.max()) + 1))
    if shape.kind == "surface" and set(_named(counts)) <= {"triangle", "quad", "polygon"}:
        return _surface(shape, mesh, place)
    if shape.kind == "volume":
        grid = need("pyvista", "mesh").wrap(mesh.data)
        sizes = grid.compute_cell_sizes(length=False, area=False, volume=True)["Volume"]
        return replace(shape, degenerate=_count_tiny(np.abs(sizes)))
    return shape


def share_outward(mesh: Mesh, location: Location, normals: NDArray[Any], outward: bool) -> float:
    """How many of the given normals lie within 90 degrees of the outward ones, 0 to 1."""
    if location == "cell":
        turned = cell_normals(mesh)
    else:
        turned = point_normals(*mesh.triangles())
    return float(((turned * normals).sum(1) * (1 if outward else -1) > 0).mean())


def _count_cells(mesh: Mesh) -> tuple[dict[tuple[int, int], int], NDArray[np.bool_]]:
    """Cells by VTK's type and number of corners, and which points are corners."""
    counts: dict[tuple[int, int], int] = {}
    used = np.zeros(len(mesh.points()), bool)
    for chunk in mesh.cells().checked():
        used[chunk.corners] = True
        keys = chunk.types.astype(np.int64) << 32 | chunk.sizes
        for key, count in zip(*np.unique(keys, return_counts=True), strict=True):
            kind = (int(key) >> 32, int(key) & 0xFFFFFFFF)
            counts[kind] = counts.get(kind, 0) + int(count)
    return counts, used


def _kind(counts: dict[tuple[int, int], int]) -> Kind:
    types = {kind for kind, _ in counts}
    if types - set(_POINTS) - set(_LINES) - set(_FLAT) - {23}:
        return "volume"
    if types & {*_FLAT, 23}:
        return "surface"
    return "lines" if types & set(_LINES) else "points"


def _named(counts: dict[tuple[int, int], int]) -> dict[str, int]:
    """Polygons with three and four corners are triangles and quads."""
    named: dict[str, int] = {}
    for (kind, size), count in counts.items():
        name = _NAMES.get(kind, f"VTK type {kind}")
        if kind == 7:
            name = {3: "triangle", 4: "quad"}.get(size, "polygon")
        named[name] = named.get(name, 0) + count
    return named


def _surface(shape: Shape, mesh: Mesh, place: NDArray[np.int64]) -> Shape:
    points, triangles = mesh.triangles()
    a, b, c = (points[triangles[:, k]].astype(np.float64) for k in range(3))
    vectors = np.cross(b - a, c - a) / 2
    flat = _count_tiny(np.linalg.norm(vectors, axis=1))
    edges = len(open_edges(place[triangles]))
    outward = None if edges else bool((a * vectors).sum() > 0)
    return replace(shape, degenerate=flat, open_edges=edges, outward=outward)


def _count_tiny(sizes: NDArray[Any]) -> int:
    return int((sizes <= _TINY * np.median(sizes)).sum())
