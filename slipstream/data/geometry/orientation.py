"""Which faces of a surface must be turned round for all of a closed one to face outward.

    edges    two faces at an edge agree where they run along it in opposite directions
    pieces   faces that hang together by edges of two faces: those that disagree are turned
    bodies   pieces that touch at the edges left, which have one face or three and more
    outward  a body that is closed is turned as a whole if it encloses a negative volume

Each body faces out of itself, one inside another too: so does the wall of a cavity, which then
turns into what is round it. A body that is open has no outside and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.edges import (
    components,
    edges_between,
    hole_areas,
    pair_up,
    places,
    whole,
)

_CHUNK = 1 << 18
_OPEN = 0.05
"""Holes, in parts of a body's area, with which it still counts as closed."""

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Winding:
    """How the faces of a surface turn."""

    turned: Mask
    """Triangles to turn round, (T,): none of an open body, all of one that is inside out."""
    clashes: int
    """Edges at which two faces still disagree then: of open bodies, and of Moebius strips."""

    @property
    def mixed(self) -> bool:
        """Whether some triangles must be turned and some not."""
        return bool(self.turned.any() and not self.turned.all())


@dataclass(frozen=True, eq=False)
class _Meetings:
    """Where faces meet: edges of two faces, and the others."""

    one: Whole
    other: Whole
    """The two faces, (E,)."""
    clash: Mask
    """Whether both run along the edge in the same direction."""
    left: Whole
    """Triangles with an edge that has one face, or three and more, (L,)."""
    ends: Whole
    """Its ends as numbers of places, (L, 2)."""
    single: Mask
    """Whether it has one face only, (L,)."""
    place: Whole | None
    """Of the points; None where no edge is left."""


def find_winding(
    points: NDArray[Any], triangles: NDArray[Any], faces: NDArray[Any] | None = None
) -> Winding:
    """Which triangles to turn round, so that all of a closed body face outward.

    `faces` are the numbers of the polygons that the triangles are cut from, (T,), which turn as a
    whole. Points at the same place count as one where a surface would have an open edge otherwise.
    A body whose holes have at most 5 % of its area counts as closed. Faces at edges of three and
    more keep how they turn relative to each other, and so does a surface with one side.
    """
    face = np.arange(len(triangles)) if faces is None else faces
    count = int(face.max(initial=-1)) + 1
    meet = _meetings(points, triangles, face)
    piece, flip = _pieces(meet, count)
    body = _bodies(piece, meet, triangles, face)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is not closed
        volume, area = _volumes(points, triangles, body[face], flip[face])
        holes = _holes(points, body[face], meet, len(area))
        closed = (holes <= _OPEN * area) & (volume != 0)
    turned = closed[body] & (flip ^ (volume < 0)[body])
    with_area = (area != 0)[body]
    if turned.any():  # what has no area goes with the others, if these are of one mind
        turned[~with_area] = turned[with_area].all()
    clashes = meet.clash ^ turned[meet.one] ^ turned[meet.other]
    return Winding(turned[face], int(clashes.sum()))


def _meetings(points: NDArray[Any], triangles: NDArray[Any], face: NDArray[Any]) -> _Meetings:
    """Edges are matched by the numbers of points, and what is left by their places."""
    triangle, ends = edges_between(triangles, face)
    pairs, left, alone = pair_up(ends)
    one, other = (face[triangle[side]] for side in pairs.T)
    clash = ends[pairs[:, 0], 0] == ends[pairs[:, 1], 0]
    if not len(left):
        return _Meetings(one, other, clash, left, ends[left], alone, None)
    place = places(points)
    left = left[whole(place[triangles[triangle[left]]])]
    triangle, ends = triangle[left], place[ends[left]]
    pairs, left, alone = pair_up(ends)
    one, other = (
        np.concatenate((before, face[triangle[side]]))
        for before, side in zip((one, other), pairs.T, strict=True)
    )
    clash = np.concatenate((clash, ends[pairs[:, 0], 0] == ends[pairs[:, 1], 0]))
    return _Meetings(one, other, clash, triangle[left], ends[left], alone, place)


def _pieces(meet: _Meetings, count: int) -> tuple[Whole, Mask]:
    """The piece of each face, and which ones to turn for all of a piece to agree: the fewer.

    Every face is two nodes of a graph, as it is and turned; faces that agree join as they are, and
    those that do not join one turned. A piece with both nodes of a face has one side only.
    """
    one, other, clash = meet.one, meet.other, meet.clash
    if not clash.any():
        return components(one, other, count), np.zeros(count, bool)
    partner = other + count * clash
    mirrored = other + count * ~clash
    label = components(np.append(one, one + count), np.append(partner, mirrored), 2 * count)
    as_is, turned = label[:count], label[count:]
    piece = np.unique(np.minimum(as_is, turned), return_inverse=True)[1]
    flip = as_is > turned
    most = 2 * np.bincount(piece, flip) > np.bincount(piece)
    return piece, flip ^ most[piece]


def _bodies(piece: Whole, meet: _Meetings, triangles: NDArray[Any], face: NDArray[Any]) -> Whole:
    """The body of each face: pieces that have a place in common where an edge is left over."""
    if meet.place is None:
        return piece
    touching = np.zeros(len(meet.place), bool)
    touching[meet.ends] = True
    corners = meet.place[triangles]
    triangle, corner = np.nonzero(touching[corners])
    at = corners[triangle, corner]
    count = int(piece.max(initial=-1)) + 1
    label = components(piece[face[triangle]], count + at, count + len(touching))
    return np.unique(label[:count], return_inverse=True)[1][piece]


def _volumes(
    points: NDArray[Any], triangles: NDArray[Any], body: Whole, flip: Mask
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Six times the volume of each body, with some triangles turned, and its area."""
    count = int(body.max(initial=-1)) + 1
    corners = np.maximum(np.bincount(body, minlength=count), 1)
    sums = [np.bincount(body, points[triangles[:, 0], k], count) for k in range(3)]
    middle = np.stack(sums, 1) / corners[:, None]
    volume, area = np.zeros(count), np.zeros(count)
    for first in range(0, len(triangles), _CHUNK):
        here = slice(first, first + _CHUNK)
        a, b, c = (points[triangles[here, k]] - middle[body[here]] for k in range(3))
        vectors = np.cross(b - a, c - a)
        vectors[flip[here]] *= -1
        volume += np.bincount(body[here], (a * vectors).sum(1), count)
        area += np.bincount(body[here], np.linalg.norm(vectors, axis=1) / 2, count)
    return volume, area


def _holes(points: NDArray[Any], body: Whole, meet: _Meetings, count: int) -> NDArray[np.float64]:
    """The area of the holes of each body."""
    if meet.place is None or not meet.single.any():
        return np.zeros(count)
    area = hole_areas(points, meet.place, meet.ends[meet.single])
    of_body: NDArray[Any] = np.bincount(body[meet.left[meet.single]], area, count)
    return of_body
