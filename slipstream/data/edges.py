"""Where a surface is open: edges with a face on one side only, and the area that they leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need


def places(points: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each point that is the same for points at the same place."""
    order = np.lexsort(points.T)
    new = np.ones(len(points), bool)
    new[1:] = (points[order[1:]] != points[order[:-1]]).any(1)
    numbers = np.empty(len(points), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers


def open_edges(corners: NDArray[Any]) -> NDArray[np.int64]:
    """Edges that only one triangle has, of triangles with three different corners, (E, 2)."""
    whole = corners[(corners != np.roll(corners, 1, axis=1)).all(1)]
    size = int(corners.max(initial=0)) + 1
    keys = np.empty(3 * len(whole), np.int64)
    for k in range(3):
        a, b = whole[:, k], whole[:, (k + 1) % 3]
        part = keys[k * len(whole) : (k + 1) * len(whole)]
        np.multiply(np.minimum(a, b), size, out=part, dtype=np.int64)
        part += np.maximum(a, b)
    edges, counts = np.unique(keys, return_counts=True)
    return np.stack(np.divmod(edges[counts == 1], size), 1)


def open_area(points: NDArray[Any], triangles: NDArray[Any]) -> float:
    """The area of all holes of a surface, each closed by triangles from its edges to its middle.

    Points at the same place count as one. A gap without width has no area.
    """
    if not len(open_edges(triangles)):
        return 0.0
    place = places(points)
    edges = open_edges(place[triangles])
    used, ends = np.unique(edges, return_inverse=True)
    ends = ends.reshape(-1, 2)
    if not len(used):
        return 0.0
    numbers, first = np.unique(place, return_index=True)
    at = points[first[np.searchsorted(numbers, used)]].astype(np.float64)
    pairs = (np.ones(len(ends), bool), (ends[:, 0], ends[:, 1]))
    graph = need("scipy.sparse", "mesh").coo_array(pairs, shape=(len(used), len(used)))
    hole = need("scipy.sparse.csgraph", "mesh").connected_components(graph, directed=False)[1]
    count = np.bincount(hole)
    middle = np.stack([np.bincount(hole, at[:, axis]) / count for axis in range(3)], 1)
    a, b = (at[ends[:, k]] - middle[hole[ends[:, 0]]] for k in range(2))
    return float(np.linalg.norm(np.cross(a, b), axis=1).sum() / 2)
