"""Surfaces around the fluid, which bodies are seen through: tunnels, far fields, the ground.

Their inner side is wet. Bodies are looked at as if such a surface were not there.

* The far field is a closed convex surface around all others, which are much smaller than it.
* Walls are flat and cover sides of the bounding box of all bodies, far beyond the bodies between
  them. Four or more make a tunnel, with or without ends; fewer are a ground, which flow may be on
  both sides of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_SMALL = 0.4
"""Bodies in a far field have at most this share of its diagonal."""
_FLAT = 1e-4
"""Points nearer to a plane than this share of the diagonal lie on it."""
_BEYOND = 1e-3
"""Points of a convex body lie at most this share of its diagonal outside of a face's plane."""
_CONVEX = 0.98
"""The least share of the area whose planes have all points of a convex body on one side."""
_SAMPLES = 1000
"""Faces, and points, that a body is tested for convexity with."""
_COVERED = 0.7
"""The least share of a side of the bounding box that a wall covers."""
_FOOTPRINT = 0.6
"""The largest share of a wall that the box of all bodies has."""
_TUNNEL = 4
"""Walls that make a tunnel."""


@dataclass(frozen=True, eq=False)
class Walls:
    """Triangles of walls, (T,) each."""

    wall: Mask
    inward: Mask
    """Those of walls whose corners turn to the side of the bodies."""
    tunnel: bool
    """Whether the walls make a tunnel."""


def is_convex(corners: Floats) -> bool:
    """Whether a closed surface is convex; corners (T, 3, 3) of triangles that face outward."""
    vectors = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sizes = np.linalg.norm(vectors, axis=1)
    some = np.unique(np.linspace(0, len(corners) - 1, _SAMPLES).astype(np.int64))
    points = np.concatenate((corners[some].reshape(-1, 3), *_extremes(corners)))
    some = some[sizes[some] > 0]
    normals = vectors[some] / sizes[some, None]
    beyond = (normals @ points.T).max(1) - (normals * corners[some, 0]).sum(1)
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    inside = beyond <= _BEYOND * size
    return bool((sizes[some] * inside).sum() >= _CONVEX * sizes[some].sum())


def far_field(boxes: Floats, area: Floats, closed: Mask, corners_of: Any) -> int | None:
    """The closed body that is the far field of all others, if there is one.

    `boxes` (2, count, 3) are lowest and highest corners, `area` (count,); `corners_of(body)` gives
    the corners (T, 3, 3) of a body's triangles, turned outward.
    """
    real = np.flatnonzero(area > 0)
    if len(real) < 2:
        return None
    size = np.linalg.norm(boxes[1, real] - boxes[0, real], axis=1)
    outer = int(real[np.argmax(size)])
    if not closed[outer]:
        return None
    rest = real[real != outer]
    low, high = boxes[0, rest].min(0), boxes[1, rest].max(0)
    diagonal = float(size.max())
    near = _BEYOND * diagonal
    contained = (low >= boxes[0, outer] - near) & (high <= boxes[1, outer] + near)
    if not contained.all() or np.linalg.norm(high - low) > _SMALL * diagonal:
        return None
    corners = corners_of(outer)
    if not is_convex(corners):
        return None
    ends = np.stack((low, high))
    box = np.stack([ends[[i, j, k], [0, 1, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    vectors = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    heights = vectors @ box.T - (vectors * corners[:, 0]).sum(1)[:, None]
    within = heights.max(1) <= near * np.linalg.norm(vectors, axis=1)
    return outer if within.all() else None


def find_walls(
    points: NDArray[Any], triangles: NDArray[Any], body: Whole, may_be: Mask, area: Floats
) -> Walls:
    """The walls among bodies that `may_be` walls, (count,); `area` is that of each body."""
    none = np.zeros(len(triangles), bool)
    if not (may_be & (area > 0)).any():
        return Walls(none, none, False)
    rows = np.flatnonzero((area > 0)[body])
    corners = points[triangles[rows]].astype(np.float64)
    low, high = corners.min((0, 1)), corners.max((0, 1))
    near = _FLAT * float(np.linalg.norm(high - low))
    vectors = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    sizes = np.linalg.norm(vectors, axis=1)
    sides = np.concatenate(((corners <= low + near).all(1), (corners >= high - near).all(1)), 1).T
    of = body[rows]
    flat = may_be & (np.bincount(of, ~sides.any(0) * sizes, len(area)) <= _FLAT * area)
    rest = corners[~flat[of]]
    if not len(rest) or not flat.any():
        return Walls(none, none, False)
    print_low, print_high = rest.min((0, 1)), rest.max((0, 1))
    good = np.zeros(6, bool)
    for side in range(6):
        others = [axis for axis in range(3) if axis != side % 3]
        whole = float(np.prod((high - low)[others]))
        taken = float(np.prod((print_high - print_low)[others]))
        covered = float(sizes[sides[side] & flat[of]].sum())
        good[side] = bool(covered >= _COVERED * whole > 0 and taken <= _FOOTPRINT * whole)
    on_wall = sides[good].any(0) & flat[of]
    flat &= np.bincount(of, ~on_wall * sizes, len(area)) <= _FLAT * area
    wall, inward = none.copy(), none.copy()
    wall[rows] = flat[of]
    for side in np.flatnonzero(good).tolist():
        upward = vectors[:, side % 3] > 0
        inward[rows] |= sides[side] & (upward if side < 3 else ~upward)
    return Walls(wall, inward & wall, bool(good.sum() >= _TUNNEL and flat.any()))


def _extremes(corners: Floats) -> list[Floats]:
    """The points with the least and the most of each coordinate."""
    points = corners.reshape(-1, 3)
    return [points[f(0)] for f in (points.argmin, points.argmax)]
