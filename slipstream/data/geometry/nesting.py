"""Closed bodies whose outer side may be the wrong one: tunnels, bodies inside one another, pieces.

A closed surface has an outside, but not every closed surface bounds a body. The wall of a wind
tunnel bounds the fluid, and of two surfaces one inside the other either the outer one is a tunnel
or the inner one a cavity: their shapes alone do not say which.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_MOST = 1000
"""Bodies that are tested for lying inside another one; smaller ones count as inside."""
_PROBES = 3
"""Points of a body by which it is tested."""
_PIECES = 200
"""The most pieces of a body that are asked one by one."""
_COVERED = 0.95
"""A surface that covers this share of its bounding box may be a tunnel with a body on its floor."""
_FLAT = 1e-4
"""Points nearer to the bounding box than this share of its diagonal lie on it."""
_BESIDE = 1e-3
"""The least share of a tunnel's area that is its body's."""


def boxes_of(points: NDArray[Any], triangles: NDArray[Any], body: Whole, count: int) -> Floats:
    """Lowest and highest corner of each body, (2, count, 3); 0 for one without triangles."""
    boxes = np.empty((2, count, 3))
    boxes[0], boxes[1] = np.inf, -np.inf
    for axis in range(3):
        for corner in range(3):
            values = points[triangles[:, corner], axis].astype(np.float64)
            if count == 1 and len(values):
                boxes[0, 0, axis] = min(boxes[0, 0, axis], values.min())
                boxes[1, 0, axis] = max(boxes[1, 0, axis], values.max())
            else:
                np.minimum.at(boxes[0, :, axis], body, values)
                np.maximum.at(boxes[1, :, axis], body, values)
    boxes[:, np.bincount(body, minlength=count) == 0] = 0
    return boxes


def like_tunnels(
    points: NDArray[Any], triangles: NDArray[Any], body: Whole, boxes: Floats, area: Floats
) -> Mask:
    """Bodies that cover their bounding box and have a part besides, as a tunnel with a body that
    stands on its floor, (count,); `area` is that of each body."""
    low, high = boxes
    size = high - low
    sides = 2 * (size[:, 0] * size[:, 1] + size[:, 1] * size[:, 2] + size[:, 2] * size[:, 0])
    large = (area >= _COVERED * sides) & (area > 0)
    rows = np.flatnonzero(large[body])
    if not len(rows):
        return large
    body, corners = body[rows], points[triangles[rows]].astype(np.float64)
    near = (_FLAT * np.linalg.norm(size[body], axis=1))[:, None, None]
    below = (corners <= low[body][:, None] + near).all(1)  # (T, 3): by axis
    above = (corners >= high[body][:, None] - near).all(1)
    on_box = (below | above).any(1)
    edges = corners[:, 1:] - corners[:, :1]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    covered = np.bincount(body, on_box * areas, len(low))
    return large & (covered >= _COVERED * sides) & (area - covered > _BESIDE * area)


def nested(
    points: NDArray[Any], triangles: NDArray[Any], body: Whole, closed: Mask
) -> tuple[Mask, Mask]:
    """Closed bodies that surround another body, and the bodies inside them, (count,) each.

    A body is inside if most lines through some of its points cross the surface of the other one an
    odd number of times on either side.
    """
    count = len(closed)
    around, within = np.zeros(count, bool), np.zeros(count, bool)
    if count < 2 or not closed.any():
        return around, within
    points = np.asarray(points, np.float64) @ _skew()
    low, high = boxes_of(points, triangles, body, count)
    order = np.argsort(body, kind="stable")
    starts = np.searchsorted(body[order], np.arange(count + 1))
    sizes = np.diff(starts)
    for outer in np.flatnonzero(closed & (sizes > 0)):
        fits = (low >= low[outer]).all(1) & (high <= high[outer]).all(1) & (sizes > 0)
        fits[outer] = False
        inner = np.flatnonzero(fits)
        if not len(inner):
            continue
        inner = inner[np.argsort(-sizes[inner], kind="stable")]
        wall = _Wall(points[triangles[order[starts[outer] : starts[outer + 1]]]])
        inside = np.ones(len(inner), bool)
        for k, one in enumerate(inner[:_MOST]):
            some = np.linspace(starts[one], starts[one + 1] - 1, _PROBES).astype(np.int64)
            inside[k] = wall.surrounds(points[triangles[order[some]]].mean(1))
        within[inner[inside]] = True
        around[outer] |= inside[:_MOST].any()
    return around, within


def faces_out(corners: Floats, piece: Whole) -> bool:
    """Whether all pieces of a closed surface face its outside; corners (T, 3, 3), piece (T,).

    From the front of a face that does, a line crosses the surface as often inward as outward. The
    largest face of each piece is asked; False, as it is not known, where there are too many pieces.
    """
    numbers, own = np.unique(piece, return_inverse=True)
    if len(numbers) > _PIECES:
        return False
    skewed = corners @ _skew()
    normals = np.cross(skewed[:, 1] - skewed[:, 0], skewed[:, 2] - skewed[:, 0])
    sizes = np.linalg.norm(normals, axis=1)
    wall = _Wall(skewed)
    for number in range(len(numbers)):
        rows = np.flatnonzero(own == number)
        face = rows[np.argmax(sizes[rows])]
        heights, signs = wall.crossings(skewed[face].mean(0))
        side = 1 if normals[face, 2] > 0 else -1
        beyond = side * heights > _FLAT * np.sqrt(sizes[face])
        if signs[beyond].sum():
            return False
    return True


class _Wall:
    """A surface and the lines through points along the third axis; its corners are (T, 3, 3)."""

    def __init__(self, corners: Floats) -> None:
        self.corners = corners
        self.low, self.high = (
            [np.ascontiguousarray(end(corners[..., axis], axis=1)) for axis in range(2)]
            for end in (np.min, np.max)
        )

    def crossings(self, point: Floats) -> tuple[Floats, Whole]:
        """How far above the point the line crosses the surface, (K,), and whether from behind the
        face (1) or from its front (-1)."""
        near = np.flatnonzero((self.low[0] <= point[0]) & (self.high[0] >= point[0]))
        near = near[(self.low[1][near] <= point[1]) & (self.high[1][near] >= point[1])]
        a, b, c = (self.corners[near, k] - point for k in range(3))
        parts = np.stack([_cross(b, c), _cross(c, a), _cross(a, b)])  # (3, K): weights of corners
        hit = (parts > 0).all(0) | (parts < 0).all(0)
        parts = parts[:, hit]
        heights = np.stack([a[hit, 2], b[hit, 2], c[hit, 2]])
        return (parts * heights).sum(0) / parts.sum(0), np.sign(parts[0]).astype(np.int64)

    def surrounds(self, probes: Floats) -> bool:
        """Whether most half-lines from the points cross the surface an odd number of times."""
        odd = 0
        for probe in probes:
            heights, _ = self.crossings(probe)
            odd += int((heights > 0).sum() % 2) + int((heights < 0).sum() % 2)
        return odd > len(probes)


def _skew() -> Floats:
    """A fixed rotation after which lines along an axis miss the edges and corners of a box."""
    return np.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0])


def _cross(one: Floats, other: Floats) -> Floats:
    """The third component of the cross product."""
    return np.asarray(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0])
