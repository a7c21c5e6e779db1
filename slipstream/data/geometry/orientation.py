"""Which faces of a surface must be turned so that closed bodies face outward.

1. Two faces at an edge agree if they run along it in opposite directions.
2. A piece is a set of faces connected by edges of exactly two faces. Faces of a piece that
   disagree with the others are turned.
3. A body is a set of pieces that touch at other edges, which have one face, or three or more.
4. A closed body is turned as a whole if it encloses a negative volume.

Every body faces out of itself, also one inside another: the wall of a cavity faces away from the
cavity, into the material around it. An open body has no outside and stays as it is.

That a body faces out of the material is established where it is closed, all its faces agree, it
neither surrounds another body nor lies in one, and it is no tunnel (`nesting`). The share of the
area for which it is not is `Winding.undecided`.
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
from slipstream.data.geometry.nesting import boxes_of, faces_out, like_tunnels, nested

_CHUNK = 1 << 18
_OPEN = 0.05
"""A body whose holes have at most this share of its area counts as closed."""

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Winding:
    """Which faces of a surface to turn, and what cannot be mended by turning."""

    turned: Mask
    """Triangles to turn, (T,): none of an open body, all of one that is inside out."""
    clashes: int
    """Edges at which two faces disagree even then: in open bodies, and in Moebius strips."""
    undecided: float
    """The share of the area, 0 to 1, of bodies that are not known to face out of the material."""
    body: Whole
    """The body of each triangle, (T,)."""
    closed: Mask
    """Which bodies count as closed: their holes have at most 5 % of their area."""

    @property
    def mixed(self) -> bool:
        """Whether some triangles must be turned and some not."""
        return bool(self.turned.any() and not self.turned.all())


@dataclass(frozen=True, eq=False)
class _Meetings:
    """The E edges of exactly two faces, and the L others, which have one face, or three or more."""

    one: Whole
    other: Whole
    """The two faces at each of the E edges."""
    clash: Mask
    """Whether both faces run along the edge in the same direction, (E,)."""
    left: Whole
    """The triangle of each of the L edges."""
    ends: Whole
    """The ends of each of the L edges, as numbers of places, (L, 2)."""
    single: Mask
    """Whether the edge has one face only, (L,)."""
    place: Whole | None
    """The number of each point's place; None if all edges have two faces."""


def find_winding(
    points: NDArray[Any], triangles: NDArray[Any], faces: NDArray[Any] | None = None
) -> Winding:
    """Which triangles to turn so that all faces of closed bodies face outward.

    `faces` are the numbers of the polygons that the triangles are cut from, (T,); a polygon is
    turned as a whole. Points at the same place count as one point where a surface would otherwise
    have an open edge. A body whose holes have at most 5 % of its area counts as closed. Faces that
    meet at an edge of three or more keep their orientation relative to each other, and so do the
    faces of a one-sided surface.
    """
    face = np.arange(len(triangles)) if faces is None else faces
    count = int(face.max(initial=-1)) + 1
    meet = _meetings(points, triangles, face)
    piece, flip = _pieces(meet, count)
    body = _bodies(piece, meet, triangles, face)
    with np.errstate(invalid="ignore", over="ignore"):  # a body that is not finite is not closed
        bodies = int(body.max(initial=-1)) + 1
        volume, area = _volumes(points, triangles, body[face], flip[face], bodies)
        holes = _holes(points, body[face], meet, bodies)
        closed = (holes <= _OPEN * area) & (volume != 0)
    turned = closed[body] & (flip ^ (volume < 0)[body])
    with_area = (area != 0)[body]
    if turned.any():  # bodies without area are turned if all others are
        turned[~with_area] = turned[with_area].all()
    clashes = meet.clash ^ turned[meet.one] ^ turned[meet.other]
    surface = _Surface(points, triangles, body[face], turned[face], volume, area, holes)
    established = closed & (np.bincount(body[meet.one[clashes]], minlength=bodies) == 0)
    established &= _agree(surface, piece[face], established)
    undecided = _undecided(surface, established)
    return Winding(
        turned[face], int(clashes.sum()), undecided=undecided, body=body[face], closed=closed
    )


@dataclass(frozen=True, eq=False)
class _Surface:
    """Triangles with the body of each, and the bodies' sizes."""

    points: NDArray[Any]
    triangles: NDArray[Any]
    body: Whole
    turned: Mask
    """Triangles that are turned, (T,)."""
    volume: NDArray[np.float64]
    area: NDArray[np.float64]
    holes: NDArray[np.float64]


def _meetings(points: NDArray[Any], triangles: NDArray[Any], face: NDArray[Any]) -> _Meetings:
    """The edges, matched by the numbers of their points, and those left over by their places."""
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
    """The piece of each face, and which faces to turn so that those of a piece agree.

    Of the two ways to make a piece agree, the one that turns fewer faces is taken. Every face is
    two nodes of a graph: as it is, and turned. An edge joins the nodes of its two faces that agree.
    If a component holds both nodes of a face, its piece is one-sided and nothing is turned.
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
    mostly = 2 * np.bincount(piece, flip) > np.bincount(piece)
    return piece, flip ^ mostly[piece]


def _bodies(piece: Whole, meet: _Meetings, triangles: NDArray[Any], face: NDArray[Any]) -> Whole:
    """The body of each face; pieces that share a place at an edge left over are one body."""
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
    points: NDArray[Any], triangles: NDArray[Any], body: Whole, flip: Mask, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Six times the volume of each body, with the triangles of `flip` turned, and its area."""
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


def _agree(surface: _Surface, piece: Whole, asked: Mask) -> Mask:
    """Bodies of one piece, and those among `asked` whose pieces agree with each other, (count,)."""
    first = np.unique(piece, return_index=True)[1]
    pieces = np.bincount(surface.body[first], minlength=len(surface.area))
    agree: Mask = pieces == 1
    for one in np.flatnonzero(asked & (pieces > 1)):
        rows = np.flatnonzero(surface.body == one)
        corners = surface.points[surface.triangles[rows]].astype(np.float64)
        corners[surface.turned[rows]] = corners[surface.turned[rows], ::-1]
        agree[one] = faces_out(corners, piece[rows])
    return agree


def _undecided(surface: _Surface, established: Mask) -> float:
    """The share of the area of bodies that are not established to face out of the material."""
    points, triangles, body, area = surface.points, surface.triangles, surface.body, surface.area
    total = float(area.sum())
    if not established.any() or not 0 < total < np.inf:
        return 1.0 if len(triangles) else 0.0
    boxes = boxes_of(points, triangles, body, len(area))
    reach = np.linalg.norm(boxes[1] - boxes[0], axis=1)
    # A hole adds at most (area * distance / 3) to the volume, whose sign must not depend on it.
    established = established & (np.abs(surface.volume) > 2 * surface.holes * reach)
    unclear = like_tunnels(points, triangles, body, boxes, area)
    unclear |= nested(points, triangles, body, established)
    return float(area[~established | unclear].sum()) / total
