"""Which faces of a surface must be turned so that bodies face outward.

1. The faces of a piece, which are connected by edges of two faces, are turned to agree (`pieces`).
2. A closed body is turned as a whole if it encloses a negative volume. It is then *established*
   that it faces out of the material, if all its faces agree and it is no tunnel (`nesting`).
3. All others are turned to the side that is seen from outside (`views`, `votes`), through walls of
   tunnels and the ground (`tunnels`) and with openings closed where a plane cuts a body (`cuts`).

A body inside another one cannot be seen. Closed, it faces out of itself: the wall of a cavity faces
away from the cavity, into the material around it. Open, it stays as it is. The share of the area
for which the outer side is not known is `Winding.undecided`. Where all bodies are established
nothing is looked at: that takes most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.cuts import cuts_of
from slipstream.data.geometry.edges import hole_areas
from slipstream.data.geometry.nesting import boxes_of, faces_out, like_tunnels, nested
from slipstream.data.geometry.pieces import Meetings, bodies_of, meetings, pieces_of
from slipstream.data.geometry.tunnels import far_field, find_walls, is_convex
from slipstream.data.geometry.views import Scene, Viewer, Views, directions
from slipstream.data.geometry.votes import Ballot, Votes

_CHUNK = 1 << 18
_OPEN = 0.05
"""A body whose holes have at most this share of its area counts as closed."""

_FIRST, _STEP, _MOST = 8, 4, 24
"""Directions that a surface is looked at from at first, more of them at a time, and at most."""
_UNSURE = 0.001
"""The share of the area to be decided for which no further directions are taken."""

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Winding:
    """Which faces of a surface to turn, and what cannot be mended by turning."""

    turned: Mask
    """Triangles to turn, (T,); none of an open body that is not decided."""
    clashes: int
    """Edges at which two faces disagree even then: in undecided sheets, and in Moebius strips."""
    undecided: float
    """The share of the area, 0 to 1, of faces that are not known to face out of the material."""
    body: Whole
    """The body of each triangle, (T,)."""
    closed: Mask
    """Which bodies count as closed: their holes have at most 5 % of their area."""
    directions: int = 0
    """From how many axes the surface was looked at, from both ends of each."""
    around: Mask | None = None
    """Triangles of a tunnel or far field, (T,), which face inward; None where there is none."""

    @property
    def mixed(self) -> bool:
        """Whether some triangles must be turned and some not."""
        return bool(self.turned.any() and not self.turned.all())


@dataclass(frozen=True, eq=False)
class _Surface:
    """Triangles with the body of each, and the bodies' sizes."""

    points: NDArray[Any]
    triangles: NDArray[Any]
    face: Whole
    """The face that each triangle is cut from, (T,)."""
    body: Whole
    """The body of each triangle, (T,)."""
    turned: Mask
    """Triangles that are turned, (T,)."""
    volume: NDArray[np.float64]
    area: NDArray[np.float64]
    holes: NDArray[np.float64]

    def corners_of(self, body: int) -> NDArray[np.float64]:
        """The corners of a body's triangles, some of them turned, (T, 3, 3)."""
        return self.corners(np.flatnonzero(self.body == body))

    def corners(self, rows: Whole) -> NDArray[np.float64]:
        corners = self.points[self.triangles[rows]].astype(np.float64)
        corners[self.turned[rows]] = corners[self.turned[rows], ::-1]
        return corners


@dataclass(frozen=True, eq=False)
class _Roles:
    """What bodies are taken for, by triangle, (T,) each."""

    clear: Mask
    """Triangles whose outer side is known without looking."""
    asked: Mask
    """Triangles that must be looked at."""
    hopeless: Mask
    """Triangles of bodies whose outer side is not known, whatever is seen of them."""
    transparent: Mask
    """Triangles of walls, far fields and what may be one, which bodies are seen through."""
    turned: Mask
    """Triangles to turn, as far as that is known without looking."""
    around: Mask
    """Triangles of a tunnel or far field."""


def find_winding(
    points: NDArray[Any], triangles: NDArray[Any], faces: NDArray[Any] | None = None
) -> Winding:
    """Which triangles to turn so that all faces of bodies face outward.

    `faces` are the numbers of the polygons that the triangles are cut from, (T,); a polygon is
    turned as a whole. Points at the same place count as one point where a surface would otherwise
    have an open edge. A body whose holes have at most 5 % of its area counts as closed. Of faces
    that are not decided, those of open bodies and of one-sided surfaces keep their orientation.
    """
    face = np.arange(len(triangles)) if faces is None else faces
    count = int(face.max(initial=-1)) + 1
    meet = meetings(points, triangles, face)
    pieces = pieces_of(meet.one, meet.other, meet.clash, count)
    flip = pieces.flip
    body = bodies_of(pieces.piece, meet, triangles, face)
    with np.errstate(invalid="ignore", over="ignore"):  # a body that is not finite is not closed
        bodies = int(body.max(initial=-1)) + 1
        volume, area = _volumes(points, triangles, body[face], flip[face], bodies)
        holes = _holes(points, body[face], meet, bodies)
        closed = (holes <= _OPEN * area) & (volume != 0) & (area < np.inf)
    turned = closed[body] & (flip ^ (volume < 0)[body])
    surface = _Surface(points, triangles, face, body[face], turned[face], volume, area, holes)
    clashes = meet.clash ^ turned[meet.one] ^ turned[meet.other]
    established = closed & (np.bincount(body[meet.one[clashes]], minlength=bodies) == 0)
    established &= _agree(surface, pieces.piece[face], established)
    undecided, looks, around = float(len(triangles) > 0), 0, None
    if 0 < float(area.sum()) < np.inf:
        roles = _roles(surface, established)
        turned[face] = roles.turned
        around = roles.around if roles.around.any() else None
        undecided = float(area[~_by_body(roles.clear, surface)].sum()) / float(area.sum())
        if roles.asked.any():
            votes, looks = _look(
                surface, roles, meet, Ballot(meet, pieces, _normals(surface, count))
            )
            turned = np.where(votes.decided, votes.turned, turned)
            known = roles.clear | (votes.decided[face] & ~roles.hopeless)
            undecided = _share(surface, ~known)
    with_area = (area != 0)[body]
    if turned.any():  # bodies without area are turned if all others are
        turned[~with_area] = turned[with_area].all()
    clashes = meet.clash ^ turned[meet.one] ^ turned[meet.other]
    return Winding(turned[face], int(clashes.sum()), undecided, body[face], closed, looks, around)


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


def _holes(points: NDArray[Any], body: Whole, meet: Meetings, count: int) -> NDArray[np.float64]:
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
        agree[one] = faces_out(surface.corners(rows), piece[rows])
    return agree


def _roles(surface: _Surface, established: Mask) -> _Roles:
    """What is known without looking, of bodies of which some are closed and agree."""
    points, triangles, body, area = surface.points, surface.triangles, surface.body, surface.area
    boxes = boxes_of(points, triangles, body, len(area))
    reach = np.linalg.norm(boxes[1] - boxes[0], axis=1)
    # A hole adds at most (area * distance / 3) to the volume, whose sign must not depend on it.
    established = established & (np.abs(surface.volume) > 2 * surface.holes * reach)
    far = np.zeros(len(area), bool)
    outer = far_field(boxes, area, established, surface.corners_of)
    if outer is not None:
        far[outer] = True
    walls = find_walls(points, triangles, body, ~established, np.where(far, 0, area))
    unclear = like_tunnels(points, triangles, body, boxes, area) & ~far
    solid = (area > 0)[body]  # a triangle without area, as across a body, is not inside of it
    around, within = nested(points, triangles[solid], body[solid], established & ~far)
    for one in np.flatnonzero(around):
        around[one] = is_convex(surface.corners_of(int(one)))
    unclear |= around
    wall = walls.wall
    clear = (established & ~unclear & ~within)[body] | (wall & walls.tunnel)
    turned = surface.turned ^ far[body]
    if walls.tunnel:
        turned = np.where(wall, ~walls.inward, turned)
    return _Roles(
        clear=clear,
        asked=(~established & (area > 0))[body] & ~wall,
        hopeless=(unclear | within)[body],
        transparent=(far | unclear)[body] | wall,
        turned=turned,
        around=far[body] | (wall & walls.tunnel),
    )


def _look(surface: _Surface, roles: _Roles, meet: Meetings, ballot: Ballot) -> tuple[Votes, int]:
    """The votes of all faces, and the number of directions that they took."""
    shown = np.flatnonzero((roles.asked | ~roles.transparent) & (surface.area > 0)[surface.body])
    points = np.asarray(surface.points, np.float64)
    if not np.isfinite(points).all():  # of no triangle
        points = np.where(np.isfinite(points), points, 0)
    asked = roles.asked[shown]
    scene = Scene(
        points=points,
        triangles=surface.triangles[shown],
        face=surface.face[shown],
        asked=asked,
        cuts=cuts_of(points, surface.triangles[roles.asked], _open_edges(roles, meet)),
    )
    faces = len(ballot.pieces.piece)
    wanted = np.zeros(faces, bool)
    wanted[surface.face[roles.asked]] = True
    area = np.linalg.norm(ballot.normals, axis=1) * wanted
    viewer = Viewer(scene, faces)
    none = np.zeros(faces, np.int64)
    views = Views(none, none, none)
    for number, rotation in enumerate(directions(_MOST), 1):
        views += viewer.look(rotation)
        if number >= _FIRST and (number - _FIRST) % _STEP == 0:
            votes = ballot.count(views)
            if area[votes.open].sum() <= _UNSURE * area.sum():
                break
    return Votes(votes.turned & wanted, votes.decided & wanted, votes.open), number


def _open_edges(roles: _Roles, meet: Meetings) -> Whole:
    """The ends of the open edges of triangles that are asked, as numbers of points, (E, 2)."""
    ends = meet.ends[meet.single & roles.asked[meet.left]]
    if meet.place is None:
        return ends
    point = np.zeros(len(meet.place), np.int64)
    point[meet.place] = np.arange(len(meet.place))
    return point[ends]


def _normals(surface: _Surface, count: int) -> NDArray[np.float64]:
    """Area vectors of the faces, as they turn in the file, (count, 3)."""
    vectors = _vectors(surface)
    sums = [np.bincount(surface.face, vectors[:, axis], count) for axis in range(3)]
    return np.stack(sums, 1)


def _vectors(surface: _Surface) -> NDArray[np.float64]:
    """Area vectors of the triangles, as they turn in the file, (T, 3)."""
    a, b, c = (surface.points[surface.triangles[:, k]].astype(np.float64) for k in range(3))
    return np.asarray(np.cross(b - a, c - a) / 2)


def _by_body(triangles: Mask, surface: _Surface) -> Mask:
    """Bodies all of whose triangles are among the given ones, (count,)."""
    return np.bincount(surface.body, ~triangles, len(surface.area)) == 0


def _share(surface: _Surface, triangles: Mask) -> float:
    """The share of the area that these triangles have."""
    areas = np.linalg.norm(_vectors(surface), axis=1)
    return float(areas[triangles].sum() / areas.sum())
