"""How the faces of a surface hang together: edges of two faces, pieces, bodies.

1. Two faces at an edge agree if they run along it in opposite directions.
2. A piece is a set of faces connected by edges of exactly two faces.
3. A body is a set of pieces that touch at other edges, which have one face, or three or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.edges import components, edges_between, pair_up, places, whole

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Meetings:
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


@dataclass(frozen=True, eq=False)
class Pieces:
    """For each face, (F,)."""

    piece: Whole
    flip: Mask
    """Faces to turn so that those of a piece agree: the fewer of the two choices."""
    one_sided: Mask
    """Faces of pieces that cannot agree, of which none is to be turned."""


def meetings(points: NDArray[Any], triangles: NDArray[Any], face: NDArray[Any]) -> Meetings:
    """The edges, matched by the numbers of their points, and those left over by their places."""
    triangle, ends = edges_between(triangles, face)
    pairs, left, alone = pair_up(ends)
    one, other = (face[triangle[side]] for side in pairs.T)
    clash = ends[pairs[:, 0], 0] == ends[pairs[:, 1], 0]
    if not len(left):
        return Meetings(one, other, clash, left, ends[left], alone, None)
    place = places(points)
    left = left[whole(place[triangles[triangle[left]]])]
    triangle, ends = triangle[left], place[ends[left]]
    pairs, left, alone = pair_up(ends)
    one, other = (
        np.concatenate((before, face[triangle[side]]))
        for before, side in zip((one, other), pairs.T, strict=True)
    )
    clash = np.concatenate((clash, ends[pairs[:, 0], 0] == ends[pairs[:, 1], 0]))
    return Meetings(one, other, clash, triangle[left], ends[left], alone, place)


def pieces_of(one: Whole, other: Whole, clash: Mask, count: int) -> Pieces:
    """The pieces of `count` faces, of which `one` meets `other` and agrees with it or clashes.

    Every face is two nodes of a graph: as it is, and turned. An edge joins the nodes of its two
    faces that agree. If a component holds both nodes of a face, its piece is one-sided.
    """
    if not clash.any():
        none = np.zeros(count, bool)
        return Pieces(components(one, other, count), none, none)
    partner = other + count * clash
    mirrored = other + count * ~clash
    label = components(np.append(one, one + count), np.append(partner, mirrored), 2 * count)
    as_is, turned = label[:count], label[count:]
    piece = np.unique(np.minimum(as_is, turned), return_inverse=True)[1]
    flip = as_is > turned
    mostly = 2 * np.bincount(piece, flip) > np.bincount(piece)
    return Pieces(piece, flip ^ mostly[piece], as_is == turned)


def bodies_of(piece: Whole, meet: Meetings, triangles: NDArray[Any], face: NDArray[Any]) -> Whole:
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
