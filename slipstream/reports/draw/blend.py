"""Colours that run on from face to face, where each face has one value of its own.

Such faces have corners of their own, three at each. A corner is drawn with the mean of the corners
at the same place, without those of faces that are turned by more than 60 degrees: neither colour
nor light runs round a sharp edge, or through a thin plate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.reports.draw.raster import Floats, Whole

_SAME_SIDE = 0.5  # least cosine between the normals of two faces
_MOST = 16  # corners looked at from one corner on in the order of the places


@dataclass(frozen=True, eq=False)
class Blend:
    corners: Whole
    """Corners, each as often as it has others at its place."""
    others: Whole

    def mean(self, values: Floats) -> Floats:
        """The mean of each corner and its others, of those that are finite."""
        known = np.isfinite(values)
        finite = np.where(known, values, 0.0)
        weights = known[self.others].astype(np.float64)
        sums = finite + np.bincount(self.corners, finite[self.others], len(values))
        counts = known + np.bincount(self.corners, weights, len(values))
        return np.where(known, sums / np.maximum(counts, 1), values)


def blend_of(points: Floats, triangles: NDArray[np.int32]) -> Blend | None:
    """Which corners share their colours; None where faces have their corners in common."""
    if len(points) != triangles.size:
        return None
    corners = points[triangles]
    normals = unit(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    facing = np.empty((len(points), 3))
    facing[triangles.ravel()] = np.repeat(normals, 3, axis=0)
    _, place = np.unique(points.astype(np.float32), axis=0, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    pairs = []
    for step in range(1, min(_MOST, len(order) - 1) + 1):
        one, other = order[:-step], order[step:]
        same = place.ravel()[one] == place.ravel()[other]
        if not same.any():
            break
        same &= (facing[one] * facing[other]).sum(1) > _SAME_SIDE
        pairs += [np.stack([one[same], other[same]]), np.stack([other[same], one[same]])]
    if not pairs:
        return None
    first, second = np.concatenate(pairs, 1)
    return Blend(first, second)


def unit(vectors: Floats) -> Floats:
    """The vectors at length one; zero and what is not finite become zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.nan_to_num(vectors / np.where(length > 0, length, 1))
