"""Which faces to turn, by how often their two sides are seen from outside.

1. The faces of a piece are turned to agree, and the piece as a whole to the side that is seen much
   more than the other. Its faces count by the lines that cross them, that is, by their areas.
2. A piece whose faces are seen clearly, but not on the side that they agree on (parts of different
   bodies that happen to share an edge, or a piece with one side only), is divided at its folds.
3. A part that is still contradictory is divided into its faces.

A sheet that is seen from both sides, and what is hidden, is not decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.pieces import Meetings, Pieces, pieces_of
from slipstream.data.geometry.views import Views

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_MUCH = 1.5
"""A side that is seen so many times as often as the other one is the outer side."""
_CLEARLY = 3
"""A face of which one side is seen so many times as often speaks against a piece that differs."""
_AGAINST = 0.1
"""The share of such faces, by area, at which a piece is divided."""
_CLEAR = 0.5
"""The share of its area on which a piece must be seen clearly to be divided."""
_VIEWS = 3
"""The fewest views that decide."""
_SHARE = 0.005
"""The least share of lines that see the outer side: fewer slip through cracks."""
_ENOUGH = 100
"""Lines after which a piece that is seen on both sides, or hidden, is known to be so."""
_FOLD = 0.5
"""Faces whose normals have a smaller cosine meet at a fold."""


@dataclass(frozen=True, eq=False)
class Votes:
    """For each face, (F,)."""

    turned: Mask
    decided: Mask
    """Faces whose outer side is known."""
    open: Mask
    """Faces that may be decided by more views: crossed by few lines, or not seen at all."""


class Ballot:
    """Pieces, and parts of them, of which the outer sides are asked for."""

    def __init__(self, meet: Meetings, pieces: Pieces, normals: Floats) -> None:
        """`normals` (F, 3) of the faces, of any length."""
        self.meet, self.pieces, self.normals = meet, pieces, normals
        self._parts: Pieces | None = None

    @property
    def parts(self) -> Pieces:
        """The parts of pieces between folds."""
        if self._parts is None:
            one, other, clash = self.meet.one, self.meet.other, self.meet.clash
            a, b = self.normals[one], self.normals[other]
            along = (a * b).sum(1) * np.where(clash, -1, 1)
            size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
            smooth = along > _FOLD * size
            self._parts = pieces_of(one[smooth], other[smooth], clash[smooth], len(self.normals))
        return self._parts

    def count(self, views: Views) -> Votes:
        """Decide by the views of the faces as they turn in the file."""
        votes, divided = _decide(views, self.pieces)
        if divided.any():
            votes, divided = _replaced(votes, *_decide(views, self.parts), divided)
        if divided.any():
            each = np.arange(len(divided))
            none = np.zeros(len(divided), bool)
            votes, _ = _replaced(votes, *_decide(views, Pieces(each, none, none)), divided)
        return votes


def _replaced(old: Votes, new: Votes, again: Mask, rows: Mask) -> tuple[Votes, Mask]:
    """The old votes with the new ones in some rows, and which of these are to be divided again."""
    turned, decided, unsure = (
        np.where(rows, a, b)
        for a, b in (
            (new.turned, old.turned),
            (new.decided, old.decided),
            (new.open, old.open),
        )
    )
    return Votes(turned, decided, unsure), again & rows


def _decide(views: Views, pieces: Pieces) -> tuple[Votes, Mask]:
    """The votes by pieces, and the faces of pieces to be divided."""
    piece, flip = pieces.piece, pieces.flip
    seen = views.turned(flip)
    front, back, lines = (np.bincount(piece, x) for x in (seen.front, seen.back, seen.lines))
    more, less = np.maximum(front, back), np.minimum(front, back)
    decided = (more >= _MUCH * less) & (more - less >= _VIEWS) & (more >= _SHARE * lines)
    inward = back > front
    for_front = _clearly(seen.front, seen.back)
    for_back = _clearly(seen.back, seen.front)
    clear = np.bincount(piece, (for_front | for_back) * seen.lines)
    against = np.where(inward[piece], for_front, for_back)
    against = np.bincount(piece, against * seen.lines)
    one_sided = np.bincount(piece, pieces.one_sided) > 0
    several = np.bincount(piece) > 1
    visible = np.bincount(piece, ((seen.front + seen.back) > 0) * seen.lines)
    divided = several & (clear >= _CLEAR * visible) & (visible > 0)
    divided &= one_sided | (against > _AGAINST * clear)
    decided &= ~(one_sided & several)
    known = decided | ((lines >= _ENOUGH) & (less >= _VIEWS))
    rows = piece
    turned = decided[rows] & (flip ^ inward[rows])
    return Votes(turned, decided[rows], ~known[rows]), divided[rows]


def _clearly(one: Whole, other: Whole) -> Mask:
    """Faces of which `one` side is seen much more often."""
    return (one >= _CLEARLY * other) & (one - other >= _VIEWS)
