"""Where a body is cut off by a plane: by the plane of its symmetry, or by the ground.

The body would be seen from its inside through such an opening, so the opening is closed. It is the
area enclosed by the open edges in the plane: a point is in it if an odd number of triangles, from
a point of the plane to each of a body's edges, holds it. Then neither the order nor the direction
of edges matters, and a hole in the section stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.raster import crossings

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_FLAT = 1e-4
"""Points nearer to a plane than this share of the diagonal lie in it."""
_LARGEST = 0.8
"""An opening larger than this share of the body's area is that of a sheet, not of a body."""
_SMALLEST = 1e-3
"""An opening smaller than this share of the body's area is a gap between faces, or none."""
_PIXELS = 256
"""Lines along a side of the grid by which the area of an opening is measured."""


@dataclass(frozen=True, eq=False)
class OpenEdges:
    """Edges of one face, (E, ...) each."""

    ends: Whole
    """Numbers of points, (E, 2)."""
    place: Whole
    """Numbers of the points' places, (E, 2)."""
    body: Whole

    def some(self, chosen: NDArray[np.bool_]) -> OpenEdges:
        return OpenEdges(self.ends[chosen], self.place[chosen], self.body[chosen])


@dataclass(frozen=True, eq=False)
class Cut:
    """Triangles from a point of the plane, the first of `ends`, to each of the open edges."""

    ends: Floats
    """(1 + 2 E, 3)."""
    loops: Whole
    """Edges of the same number enclose a part of the opening together, (E,)."""

    @property
    def triangles(self) -> Whole:
        first = np.arange(1, len(self.ends), 2)
        return np.stack((np.zeros_like(first), first, first + 1), 1)

    def lines(self, places: Floats, width: int) -> tuple[Whole, Floats]:
        """The lines that go through the opening, and the depth of its plane there.

        `places` (3, 1 + 2 E) are the ends on a grid of lines.
        """
        depth = np.zeros(width * width)
        keys = []
        for found in crossings(places, self.triangles, width):
            depth[found.line] = found.depth
            keys.append(self.loops[found.triangle] * width * width + found.line)
        key, count = np.unique(np.concatenate([*keys, self.loops[:0]]), return_counts=True)
        line = np.unique(key[count % 2 == 1] % (width * width))
        return line, depth[line]


def cuts_of(points: Floats, triangles: NDArray[Any], edges: OpenEdges) -> list[Cut]:
    """The openings of bodies at the sides of their bounding box.

    `triangles` (T, 3) are those of the bodies. Sides of an axis that are both open are no cuts: a
    duct has two ends.
    """
    if not len(edges.ends):
        return []
    corners = points[triangles]
    low, high = corners.min((0, 1)), corners.max((0, 1))
    near = _FLAT * float(np.linalg.norm(high - low))
    edge = corners[:, 1:] - corners[:, :1]
    area = float(np.linalg.norm(np.cross(edge[:, 0], edge[:, 1]), axis=1).sum()) / 2
    cuts = []
    for axis in range(3):
        found = []
        for side in (low[axis], high[axis]):
            on_plane = np.abs(points[edges.ends, axis] - side).max(1) <= near
            if on_plane.sum() >= 3:
                found.append(_cut(points, edges.some(on_plane), axis, float(side)))
        sizes = [_opening(cut, axis) for cut in found]
        found = [cut for cut, size in zip(found, sizes, strict=True) if size > _SMALLEST * area]
        if len(found) == 1 and max(sizes) <= _LARGEST * area:
            cuts += found
    return cuts


def _cut(points: Floats, edges: OpenEdges, axis: int, side: float) -> Cut:
    ends = points[edges.ends.ravel()]
    ends = np.concatenate((ends.mean(0, keepdims=True), ends))
    ends[:, axis] = side
    return Cut(ends, _loops(edges))


def _loops(edges: OpenEdges) -> Whole:
    """The number of the body that each edge belongs to, and 0 for all bodies whose edges make no
    closed loops: loose triangles enclose an opening together."""
    bodies, body = np.unique(edges.body, return_inverse=True)
    pairs = np.stack((np.repeat(body, 2), edges.place.ravel()))
    (owner, _), count = np.unique(pairs, axis=1, return_counts=True)
    loose = np.bincount(owner, count % 2, len(bodies)) > 0
    return np.where(loose[body], 0, body + 1)


def _opening(cut: Cut, axis: int) -> float:
    """The area of the opening."""
    flat = np.delete(cut.ends, axis, axis=1)
    low, size = flat.min(0), float(np.ptp(flat, axis=0).max())
    if not size > 0:
        return 0.0
    places = np.zeros((3, len(flat)))
    places[:2] = ((flat - low) / size * (_PIXELS - 1)).T
    line, _ = cut.lines(places, _PIXELS)
    return len(line) * (size / (_PIXELS - 1)) ** 2
