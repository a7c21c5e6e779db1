"""The shape of a mesh and its faults: kinds of cells, open edges, coincident points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import (
    Winding,
    cell_normals,
    find_winding,
    places,
    point_normals,
    triangles_at_open_edges,
)
from slipstream.data.meshes import Location, Mesh, triangle_cells

LARGE = 5_000_000
"""Points; of a larger mesh only counts and extents are computed."""

Kind = Literal["points", "lines", "surface", "volume"]
_TINY = 1e-12  # a cell smaller than this share of the median size has no extent
_POINTS, _LINES = (1, 2), (3, 4, 21)
_FLAT = {5: "triangle", 6: "strip", 7: "polygon", 8: "pixel", 9: "quad", 22: "triangle6"}
_SOLID = {10: "tetrahedron", 11: "voxel", 12: "hexahedron", 13: "wedge", 14: "pyramid"}
_SOLID |= {24: "tetrahedron10", 25: "hexahedron20", 42: "polyhedron"}
_NAMES = {1: "vertex", 2: "vertices", 3: "line", 4: "polyline", 23: "quad8"} | _FLAT | _SOLID


@dataclass(frozen=True)
class Parts:
    """Some of the parts of a surface that share no edge with each other."""

    count: int
    triangles: int
    open_edges: int
    """Edges with a face on one side only."""


@dataclass(frozen=True)
class Shape:
    """A mesh without its arrays. None where something was not computed or is not defined."""

    kind: Kind
    points: int
    cells: int
    cell_kinds: dict[str, int]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Lowest and highest corner of the finite points; NaN where none is finite."""
    non_finite: int = 0
    """Points whose coordinates are NaN or infinite in float32; with any, all below is None."""
    merged: int | None = None
    """Points that coincide in float32, but not in the file."""
    twins: int | None = None
    """Points at the same place as another."""
    unused: int | None = None
    """Points that belong to no cell."""
    degenerate: int | None = None
    """Triangles of a surface without area, cells of a volume without volume."""
    open_edges: int | None = None
    """Edges of a surface with a face on one side only."""
    closed: Parts | None = None
    """Parts of a surface without open edges."""
    nearly_closed: Parts | None = None
    """Parts with holes of at most 5 % of their area, which count as closed."""
    open: Parts | None = None
    """All other parts: they have no inside."""
    outward: bool | None = None
    """Whether the faces of a closed surface face outward; None where only some do, or where it is
    not established which side that is."""
    turned: int | None = None
    """Triangles of closed and nearly closed parts that face inward; computed normals are corrected
    there."""
    turned_open: int | None = None
    """Triangles of open parts that face away from where they are seen; computed normals are
    corrected there."""
    around: int | None = None
    """Triangles of what is taken for a tunnel or far field; computed normals point inward there."""
    clashes: int | None = None
    """Edges at which neighbours face different sides; computed normals do so too."""
    undecided: float | None = None
    """The share of the area, 0 to 1, on which it is not established which side is out of the
    body."""


def shape_of(mesh: Mesh) -> Shape:
    points = mesh.points()
    counts, used = _count_cells(mesh)
    with np.errstate(over="ignore"):
        finite = np.isfinite(points.astype(np.float32, copy=False)).all(1)
    low, high = _extent(points[finite] if not finite.all() else points)
    shape = Shape(
        kind=_kind(counts),
        points=len(points),
        cells=sum(counts.values()),
        cell_kinds=_named(counts),
        low=low,
        high=high,
        non_finite=int((~finite).sum()),
        unused=int((~used).sum()),
    )
    if len(points) > LARGE or shape.non_finite:
        return shape
    place = places(points)
    twins = len(points) - (int(place.max()) + 1)
    shape = replace(shape, twins=twins, merged=_twins_in_float32(points, twins) - twins)
    if shape.kind == "surface" and set(_named(counts)) <= {"triangle", "quad", "polygon"}:
        return _surface(shape, mesh, place)
    if shape.kind == "volume":
        return replace(shape, degenerate=_count_tiny(np.abs(mesh.volumes())))
    return shape


def faults_of(shape: Shape) -> list[str]:
    """What is wrong with the points and with the sides of the faces, a sentence each."""
    sentences = []
    if shape.non_finite:
        sentences.append(f"{shape.non_finite:,} points have NaN or infinite coordinates in float32")
    if shape.merged:
        middle = ", ".join(
            f"{(a + b) / 2:.10g}" for a, b in zip(shape.low, shape.high, strict=True)
        )
        sentences.append(
            f"{shape.merged:,} points fall together in float32, which stores hold: `subtract:"
            f" [{middle}]` in the card's `coords` moves them to the origin"
        )
    if shape.outward is False:
        sentences.append(
            "the faces of the closed surface turn inward; computed normals are turned outward"
        )
    elif shape.turned:
        among = sum(parts.triangles for parts in (shape.closed, shape.nearly_closed) if parts)
        sentences.append(
            f"{shape.turned:,} of the {among:,} triangles of the closed parts turn inward; computed"
            " normals are turned outward there"
        )
    if shape.turned_open and shape.open:
        sentences.append(
            f"{shape.turned_open:,} of the {shape.open.triangles:,} triangles of the open parts"
            " turn away from the side that is seen from outside; computed normals are turned to it"
        )
    if shape.around:
        sentences.append(
            f"{shape.around:,} triangles around all others are taken for a tunnel or far field:"
            " computed normals point inward there, to the fluid"
        )
    if shape.clashes:
        sentences.append(
            f"neighbouring faces turn to different sides at {shape.clashes:,} edges of a surface"
            " that is seen from both sides, hidden or one-sided, and so do computed normals"
        )
    if shape.undecided:
        sentences.append(
            f"which side is out of the body is not established for {percent(shape.undecided)} of"
            " the area (sheets that are seen from both sides, hidden parts, bodies in one another,"
            " tunnels, the ground): computed normals may point into the body there"
        )
    return sentences


def percent(share: float) -> str:
    """A share, 0 to 1, in percent, never rounded to none or all: 0.00004 is "<0.1 %"."""
    if 0 < share < 0.001:
        return "<0.1 %"
    digits = 1 if share < 0.1 else 0
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.{digits}f} %"


def share_outward(mesh: Mesh, location: Location, normals: NDArray[Any], outward: bool) -> float:
    """The share, 0 to 1, of the given normals that lie within 90 degrees of the outward ones."""
    if location == "cell":
        turned = cell_normals(mesh, lenient=True)
    else:
        turned = point_normals(*mesh.triangles(), lenient=True)
    with np.errstate(invalid="ignore", over="ignore"):  # normals of a file may be anything
        along = (turned * normals).sum(1) * (1 if outward else -1)
    known = ~np.isnan(turned[:, 0])
    return float((along[known] > 0).mean()) if known.any() else 1.0


def _extent(points: NDArray[Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not len(points):
        return (np.nan,) * 3, (np.nan,) * 3
    return tuple(float(x) for x in points.min(0)), tuple(float(x) for x in points.max(0))


def _twins_in_float32(points: NDArray[Any], twins: int) -> int:
    if points.dtype != np.float64:
        return twins
    with np.errstate(over="ignore"):
        return len(points) - (int(places(points.astype(np.float32)).max()) + 1)


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
    """Cells by name; polygons with three and four corners count as triangles and quads."""
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
    at_open = triangles_at_open_edges(place[triangles])
    edges = len(at_open)
    winding = find_winding(points, triangles, triangle_cells(mesh.cells()))
    closed, nearly, open_parts = _parts(place[triangles], at_open, winding)
    unsaid = edges or winding.mixed or winding.clashes or winding.undecided
    unsaid = unsaid or winding.around is not None
    outward = None if unsaid else not winding.turned.any()
    has_edges = np.bincount(winding.body[at_open], minlength=len(winding.closed)) > 0
    of_open = (has_edges & ~winding.closed)[winding.body]
    around = np.zeros(len(triangles), bool) if winding.around is None else winding.around
    return replace(
        shape,
        degenerate=flat,
        open_edges=edges,
        closed=closed,
        nearly_closed=nearly,
        open=open_parts,
        outward=outward,
        turned=int(winding.turned[~of_open & ~around].sum()),
        turned_open=int(winding.turned[of_open & ~around].sum()),
        around=int(around.sum()),
        clashes=winding.clashes,
        undecided=winding.undecided,
    )


def _parts(
    corners: NDArray[Any], at_open: NDArray[np.int64], winding: Winding
) -> tuple[Parts, Parts, Parts]:
    """The parts of a surface that are closed, nearly closed and open.

    `at_open` is the triangle at each open edge. Parts of triangles without area do not count.
    """
    bodies = len(winding.closed)
    triangles = np.bincount(winding.body, minlength=bodies)
    edges = np.bincount(winding.body[at_open], minlength=bodies)
    real = np.zeros(bodies, bool)
    real[winding.body[(corners != np.roll(corners, 1, axis=1)).all(1)]] = True
    kinds = (edges == 0, (edges > 0) & winding.closed, (edges > 0) & ~winding.closed)
    closed, nearly, rest = (
        Parts(int(k.sum()), int(triangles[k].sum()), int(edges[k].sum()))
        for k in (kind & real for kind in kinds)
    )
    return closed, nearly, rest


def _count_tiny(sizes: NDArray[Any]) -> int:
    return int((sizes <= _TINY * np.median(sizes)).sum())
