"""Which faces to turn, by how often their two sides are seen from outside.

1. The faces of a piece are turned to agree, and the piece as a whole to the side that is seen much
   more than the other. Its faces count by the lines that cross them, that is, by their areas.
2. Where a piece is seen clearly, but to different sides (parts of several bodies that happen to
   share an edge), it is divided at its folds, and parts that are seen from one side only are turned
   to that side. The others stay with the piece: of an open shell some inner sides are seen too.
3. A piece with one side only is divided at its folds, and parts of it, if they still have one side
   only, into their faces.

A sheet that is seen from both sides, and what is hidden, is not decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
_UNANIMOUS = 0.9
"""The share of the area of a part that must be seen clearly from one side to leave its piece."""
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

    def replaced(self, other: Votes, faces: Mask) -> Votes:
        """These votes, with others for some of the faces."""
        return Votes(
            np.where(faces, other.turned, self.turned),
            np.where(faces, other.decided, self.decided),
            np.where(faces, other.open, self.open),
        )


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
        whole = _Tally(views, self.pieces)
        votes = whole.votes()
        divided = whole.contradictory()
        if not divided.any():
            return votes
        parts = _Tally(views, self.parts)
        divided &= whole.one_sided | parts.unanimous()
        votes = votes.replaced(parts.votes(), divided)
        divided &= parts.one_sided & parts.contradictory()
        if divided.any():
            votes = votes.replaced(_Tally(views, _single(len(divided))).votes(), divided)
        return votes


class _Tally:
    """The views of pieces. All results are for faces, (F,)."""

    def __init__(self, views: Views, pieces: Pieces) -> None:
        self.piece, self.flip = pieces.piece, pieces.flip
        seen = views.turned(pieces.flip)
        self.front, self.back, self.lines = map(self._sum, (seen.front, seen.back, seen.lines))
        self.inward = self.back > self.front
        sides = ((seen.front, seen.back), (seen.back, seen.front))
        clearly = [(a >= _CLEARLY * b) & (a - b >= _VIEWS) for a, b in sides]
        self.for_front, self.for_back = (self._sum(faces * seen.lines) for faces in clearly)
        self.visible = self._sum(((seen.front + seen.back) > 0) * seen.lines)
        self.one_sided = pieces.one_sided
        self.divisible = (self._sum(pieces.one_sided) > 0) & (self._sum(seen.lines >= 0) > 1)

    def _sum(self, values: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(self.piece, values), np.float64)

    def votes(self) -> Votes:
        more, less = np.maximum(self.front, self.back), np.minimum(self.front, self.back)
        decided = (more >= _MUCH * less) & (more - less >= _VIEWS) & (more >= _SHARE * self.lines)
        decided &= ~self.divisible
        known = decided | ((self.lines >= _ENOUGH) & (less >= _VIEWS))
        turned = decided[self.piece] & (self.flip ^ self.inward[self.piece])
        return Votes(turned, decided[self.piece], ~known[self.piece])

    def contradictory(self) -> Mask:
        """Faces of pieces that are seen clearly, but to different sides, or that have one side."""
        clear = self.for_front + self.for_back
        against = np.where(self.inward, self.for_front, self.for_back)
        divided = (clear >= _CLEAR * self.visible) & (self.visible > 0)
        divided &= self.divisible | (against > _AGAINST * clear)
        return np.asarray(divided[self.piece])

    def unanimous(self) -> Mask:
        """Faces of pieces that are seen clearly, on nearly all of their area to the same side."""
        clear = np.maximum(self.for_front, self.for_back)
        enough = (clear >= _UNANIMOUS * self.visible) & (self.visible >= _CLEAR * self.lines)
        return np.asarray((enough & (self.visible > 0))[self.piece])


def _single(count: int) -> Pieces:
    """Every face for itself."""
    none = np.zeros(count, bool)
    return Pieces(np.arange(count), none, none)
