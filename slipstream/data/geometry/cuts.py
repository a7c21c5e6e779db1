"""Where a body is cut off by a plane: by the plane of its symmetry, or by the ground.

The body would be seen from its inside through such an opening, so the opening is closed. It is what
the open edges in the plane enclose, drawn as a picture of the plane; then neither the order nor the
direction of edges matters, nor do small gaps between them or bodies that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.raster import crossings

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_FLAT = 1e-4
"""Points nearer to a plane than this share of the diagonal lie in it."""
_LARGEST = 0.8
"""An opening larger than this share of the body's area is that of a sheet, not of a body."""
_SMALLEST = 5e-3
"""An opening smaller than this share of the body's area is a gap between faces, or none."""
_WIDTH = 512
"""Pixels along the longer side of a picture."""
_EDGE_ON = 0.02
"""Lines that meet a plane at a smaller sine run along it."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Parallel lines through a scene: `width` times `width`, around its middle."""

    middle: Floats
    scale: float
    """Lines in a unit of length."""
    width: int


@dataclass(frozen=True, eq=False)
class Cut:
    """An opening in the plane where the coordinate `axis` is `side`."""

    axis: int
    side: float
    low: Floats
    """The lowest corner of the picture, (2,)."""
    pixel: float
    """The size of a pixel."""
    picture: Mask
    """Whether a pixel is in the opening, (512, 512)."""

    @property
    def area(self) -> float:
        return int(self.picture.sum()) * self.pixel**2

    def depths(self, grid: Grid, rotation: Floats) -> tuple[Whole, Floats]:
        """The numbers of lines that go through the opening, and the depth of the plane there."""
        slope = rotation[self.axis]
        if abs(slope[2]) < _EDGE_ON:
            return np.zeros(0, np.int64), np.zeros(0)
        steps = np.arange(grid.width) - (grid.width - 1) / 2
        away = (self.side - grid.middle[self.axis]) * grid.scale
        depth = (away - slope[0] * steps[None, :] - slope[1] * steps[:, None]) / slope[2]
        inside = np.ones(depth.shape, bool)
        number = []
        for k, axis in enumerate(_others(self.axis)):
            to = rotation[axis]
            at = to[0] * steps[None, :] + to[1] * steps[:, None] + to[2] * depth
            at = (at / grid.scale + grid.middle[axis] - self.low[k]) / self.pixel
            inside &= (at >= 0) & (at < _WIDTH)
            number.append(np.where(inside, at, 0).astype(np.int64))
        inside &= self.picture[number[1], number[0]]
        line = np.flatnonzero(inside)
        return line, depth.ravel()[line]


def cuts_of(points: Floats, triangles: NDArray[Any], edges: Whole) -> list[Cut]:
    """The openings of bodies at the sides of their bounding box.

    `triangles` (T, 3) are those of the bodies, `edges` (E, 2) those with one face. Sides of an
    axis that are both open are no cuts: a duct has two ends.
    """
    if not len(edges):
        return []
    a, b, c = (points[triangles[:, k]] for k in range(3))
    low = np.min([x.min(0) for x in (a, b, c)], 0)
    high = np.max([x.max(0) for x in (a, b, c)], 0)
    near = _FLAT * float(np.linalg.norm(high - low))
    area = float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2
    cuts = []
    for axis in range(3):
        found = []
        for side in (float(low[axis]), float(high[axis])):
            flat = np.all([np.abs(x[:, axis] - side) <= near for x in (a, b, c)], axis=0)
            ends = points[edges[np.abs(points[edges, axis] - side).max(1) <= near]]
            if len(ends) >= 3:
                found.append(_cut(ends, points, triangles[flat], axis, side))
        found = [cut for cut in found if cut.area > _SMALLEST * area]
        if len(found) == 1 and found[0].area <= _LARGEST * area:
            cuts += found
    return cuts


def _cut(ends: Floats, points: Floats, flat: NDArray[Any], axis: int, side: float) -> Cut:
    """What edges with these ends (E, 2, 3) enclose, less the triangles `flat` in the plane."""
    others = _others(axis)
    ends = ends[..., others]
    low = ends.min((0, 1))
    pixel = float(np.ptp(ends, axis=(0, 1)).max()) / (_WIDTH - 3)
    low = low - pixel  # a margin of one pixel
    if not pixel > 0:
        return Cut(axis, side, low, 1.0, np.zeros((_WIDTH, _WIDTH), bool))
    picture = _drawn((ends - low) / pixel)
    from scipy.ndimage import binary_fill_holes

    picture = binary_fill_holes(picture)
    used, numbers = np.unique(flat, return_inverse=True)
    places = np.zeros((3, len(used)))
    places[:2] = ((points[used][:, others] - low) / pixel - 0.5).T
    for found in crossings(places, numbers.reshape(flat.shape), _WIDTH):
        picture.ravel()[found.line] = False
    return Cut(axis, side, low, pixel, picture)


def _drawn(ends: Floats) -> Mask:
    """A picture of edges from one place of it to another, (E, 2, 2)."""
    length = np.abs(ends[:, 1] - ends[:, 0]).max(1)
    count = np.ceil(2 * length).astype(np.int64) + 2
    edge = np.repeat(np.arange(len(ends)), count)
    step = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    share = step / (count[edge] - 1)
    place = ends[edge, 0] + share[:, None] * (ends[edge, 1] - ends[edge, 0])
    column, row = np.clip(place.astype(np.int64), 0, _WIDTH - 1).T
    picture = np.zeros((_WIDTH, _WIDTH), bool)
    picture[row, column] = True
    return picture


def _others(axis: int) -> Sequence[int]:
    return [other for other in range(3) if other != axis]
