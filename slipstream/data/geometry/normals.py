"""Normals of surfaces, distances to surfaces, and points inside a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.distance import CHUNK, NearestTriangle
from slipstream.data.meshes import Mesh, area_vectors

_CHUNK = 1 << 16

__all__ = [
    "NearestTriangle",
    "NoNormalError",
    "cell_normals",
    "distance_to_triangles",
    "in_box",
    "point_normals",
]


class NoNormalError(ValueError):
    """Points or cells have no normal."""


def point_normals(
    points: NDArray[Any], triangles: NDArray[Any], *, lenient: bool = False
) -> NDArray[np.float64]:
    """Unit normals at the points of a surface, (P, 3), by the order of the triangles' corners.

    A normal is the mean over the triangles at a point, weighted by their angles there, so that it
    does not depend on how a face is cut into triangles. NoNormalError (NaN if lenient) for a point
    without one: it belongs to no triangle, or only to triangles without area, or normals cancel.
    """
    total = np.zeros((len(points), 3))
    for first in range(0, len(triangles), _CHUNK):
        part = triangles[first : first + _CHUNK]
        corners = points[part].astype(np.float64)
        edges = np.roll(corners, -1, 1) - corners  # (T, 3, 3): from each corner to the next
        normal = np.cross(edges[:, 0], edges[:, 1])
        size = np.linalg.norm(normal, axis=1, keepdims=True)
        back = -np.roll(edges, 1, 1)
        angle = np.arctan2(size, (edges * back).sum(2))
        unit = np.divide(normal, size, out=np.zeros_like(normal), where=size > 0)
        weighted = (angle[:, :, None] * unit[:, None]).reshape(-1, 3)
        low, high = int(part.min()), int(part.max()) + 1  # a chunk's points are mostly near by
        for axis in range(3):
            here = np.bincount(part.ravel() - low, weighted[:, axis], high - low)
            total[low:high, axis] += here
    return _unit(total, "point", lenient)


def cell_normals(mesh: Mesh, *, lenient: bool = False) -> NDArray[np.float64]:
    """Unit normals of the polygons of a surface, (C, 3), by the order of their corners.

    NoNormalError where a cell has no area (NaN if lenient), ValueError where it is no polygon.
    """
    return _unit(area_vectors(mesh.cells(), mesh.points()), f"cell of {mesh.name}", lenient)


def _unit(vectors: NDArray[np.float64], what: str, lenient: bool) -> NDArray[np.float64]:
    size = np.linalg.norm(vectors, axis=1, keepdims=True)
    none = np.flatnonzero(size == 0)
    if len(none) and not lenient:
        raise NoNormalError(
            f"every {what} must have a normal, got {len(none)} of {len(vectors)} without, the"
            f" first at {none[0]}"
        )
    size[none] = np.nan
    vectors /= size
    return vectors


def in_box(points: NDArray[Any], low: Sequence[Any], high: Sequence[Any]) -> NDArray[np.bool_]:
    """Which points are in a box, its faces included, (N,)."""
    inside = np.ones(len(points), bool)
    for axis, (least, most) in enumerate(zip(low, high, strict=True)):
        inside &= (points[:, axis] >= least) & (points[:, axis] <= most)
    return inside


def distance_to_triangles(
    points: NDArray[Any], vertices: NDArray[Any], triangles: NDArray[Any], *, chunk: int = CHUNK
) -> NDArray[np.float64]:
    """Exact distance, never negative, of each point to the nearest triangle, (N,).

    `chunk` points are worked on at a time. To use a surface several times, keep a
    `NearestTriangle`, whose tree is built once.
    """
    return NearestTriangle(vertices, triangles).distance(points, chunk=chunk)
