"""The edges of surfaces: which faces they join, which are open, and the area of holes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


def places(points: NDArray[Any]) -> Whole:
    """A number for each point that is the same for points at the same place."""
    order = np.lexsort(points.T)
    new = np.ones(len(points), bool)
    new[1:] = (points[order[1:]] != points[order[:-1]]).any(1)
    numbers = np.empty(len(points), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers


def whole(corners: NDArray[Any]) -> NDArray[np.bool_]:
    """Which triangles have three different corners, (T,)."""
    return (corners != np.roll(corners, 1, axis=1)).all(1)


def edges_between(triangles: NDArray[Any], face: NDArray[Any] | None = None) -> tuple[Whole, Whole]:
    """The edges of triangles with three different corners: which triangle (E,), ends (E, 2).

    The ends are in the order of the triangle's corners. Edges inside a face that is cut into
    several triangles are left out.
    """
    rows = np.flatnonzero(whole(triangles))
    corners = triangles[rows]
    ends: Whole = np.empty((3 * len(rows), 2), np.int64)
    for k in range(3):
        here = ends[k * len(rows) : (k + 1) * len(rows)]
        here[:, 0], here[:, 1] = corners[:, k], corners[:, (k + 1) % 3]
    triangle = np.tile(rows, 3)
    if face is not None and (face[1:] == face[:-1]).any():
        outer = _outer(ends, face[triangle])
        triangle, ends = triangle[outer], ends[outer]
    return triangle, ends


def pair_up(ends: Whole) -> tuple[Whole, Whole, NDArray[np.bool_]]:
    """Edges of two faces as pairs (P, 2), the others (L,), and which of these have one face."""
    key = _keys(ends)
    order = np.argsort(key, kind="stable")
    key = key[order]
    new = np.ones(len(key), bool)
    new[1:] = key[1:] != key[:-1]
    first = np.flatnonzero(new)
    count = np.diff(first, append=len(key))
    two = first[count == 2]
    each = np.repeat(count, count)
    return np.stack((order[two], order[two + 1]), 1), order[each != 2], each[each != 2] == 1


def open_edges(corners: NDArray[Any]) -> Whole:
    """Edges that only one triangle has, of triangles with three different corners, (E, 2)."""
    edges = edges_between(corners)[1]
    _, left, single = pair_up(edges)
    return edges[left[single]]


def triangles_at_open_edges(corners: NDArray[Any]) -> Whole:
    """The triangle at each of the edges that `open_edges` lists, (E,)."""
    triangle, edges = edges_between(corners)
    _, left, single = pair_up(edges)
    return triangle[left[single]]


def components(one: NDArray[Any], other: NDArray[Any], count: int) -> Whole:
    """For each of `count` nodes the number of its component, where `one` is joined to `other`."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(one), bool), (one, other)), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def hole_areas(points: NDArray[Any], place: Whole, ends: Whole) -> NDArray[np.float64]:
    """The area of the triangle from each open edge to the middle of its hole, (E,).

    The ends of edges are numbers of places (`places`). A hole is a set of open edges that hang
    together, and the sum over its edges is its area; that of a slit without width is 0.
    """
    if not len(ends):
        return np.zeros(0)
    used, ends = np.unique(ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    numbers, first = np.unique(place, return_index=True)
    at = points[first[np.searchsorted(numbers, used)]].astype(np.float64)
    hole = components(ends[:, 0], ends[:, 1], len(used))
    count = np.bincount(hole)
    middle = np.stack([np.bincount(hole, at[:, axis]) / count for axis in range(3)], 1)
    a, b = (at[ends[:, k]] - middle[hole[ends[:, 0]]] for k in range(2))
    return np.linalg.norm(np.cross(a, b), axis=1) / 2


def _keys(ends: Whole) -> Whole:
    """A number for each edge that does not depend on its direction."""
    a, b = ends.T
    return np.minimum(a, b) * (int(ends.max(initial=0)) + 1) + np.maximum(a, b)


def _outer(ends: Whole, face: NDArray[Any]) -> NDArray[np.bool_]:
    """Which edges occur once in their face; those that occur twice are inside it."""
    key = _keys(ends)
    order = np.lexsort((face, key))
    same = (np.diff(key[order]) == 0) & (np.diff(face[order]) == 0)
    outer = np.ones(len(ends), bool)
    outer[order[1:][same]] = outer[order[:-1][same]] = False
    return outer
