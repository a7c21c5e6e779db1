"""Coordinate files of airfoils, in the two layouts that are in use, as smooth curves.

Selig      a title, then points from the trailing edge along the upper side to the leading edge and
           back along the lower side
Lednicer   a title, the numbers of points of the two sides, then the upper and the lower side, each
           from the leading edge
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from slipstream.core.files import check_regular, naming_file
from slipstream.physics.openfoam.airfoils import Curve, Numbers

_FEWEST = 10
"""Points of an airfoil."""
_LARGEST_GAP = 0.05
"""Between the sides at the trailing edge, in chords."""


@dataclass(frozen=True, eq=False)
class DrawnAirfoil:
    """An airfoil through given points, as cubic splines along the lower and the upper side."""

    points: Curve
    """From the trailing edge along the lower side, by the leading edge, to the trailing edge; the
    chord is from (0, 0) to (1, 0), and the first and last point are the same."""

    def at(self, t: Numbers) -> Curve:
        # t^2 is a place along the chord for NACA's airfoils, and here nearly so.
        arc, nose = self._arc, self._arc[self._nose]
        side = np.where(t < 0, nose, arc[-1] - nose)
        place = nose + np.sign(t) * side * np.abs(t) ** 1.5
        return np.stack([_spline(arc, self.points[:, k], place) for k in range(2)], -1)

    @cached_property
    def _arc(self) -> Numbers:
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        return np.concatenate(([0.0], np.cumsum(steps)))

    @property
    def _nose(self) -> int:
        return int((self.points**2).sum(1).argmin())


def read_airfoil(path: Path) -> DrawnAirfoil:
    """The airfoil of a coordinate file, scaled to a chord of 1 and turned so that it is level.

    An open trailing edge is closed: both sides are moved to its middle in proportion to the
    distance from the leading edge. ValueError names the file and what is wrong with it.
    """
    check_regular(path)
    with naming_file(path):
        try:
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except FileNotFoundError:
            raise ValueError("an airfoil must be a file of coordinates, got none") from None
        rows = _rows(text)
        counted = (rows[0] >= 3).all() and (rows[0] % 1 == 0).all()
        points = _lednicer(rows) if counted else rows
        return DrawnAirfoil(_normalised(points))


def _rows(text: str) -> Curve:
    """All lines of two numbers; a title may come first."""
    rows = []
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        words = line.replace(",", " ").split()
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) == 2 and all(map(math.isfinite, values)):
            rows.append(values)
        elif number > 0:
            raise ValueError(f"every line below the title must be two numbers, got {line!r:.60}")
    if len(rows) < _FEWEST:
        raise ValueError(f"an airfoil must have at least {_FEWEST} points, got {len(rows)}")
    return np.array(rows)


def _lednicer(rows: Curve) -> Curve:
    """From the two sides to one curve in Selig's order."""
    upper, lower = (int(count) for count in rows[0])
    if upper < 3 or lower < 3 or upper + lower != len(rows) - 1:
        raise ValueError(
            f"the sides must have the {upper} and {lower} points that the first line says, got"
            f" {len(rows) - 1} in all"
        )
    above, below = rows[1 : upper + 1], rows[upper + 1 :]
    return np.concatenate((above[::-1], below[1:] if (above[0] == below[0]).all() else below))


def _normalised(points: Curve) -> Curve:
    """From Selig's order to ours, with the chord from (0, 0) to (1, 0)."""
    points = points[np.r_[True, (np.diff(points, axis=0) != 0).any(1)]]
    edge = (points[0] + points[-1]) / 2
    nose = int(((points - edge) ** 2).sum(1).argmax())
    chord = points[nose] - edge
    length = float(np.linalg.norm(chord))
    if not 2 <= nose <= len(points) - 3 or length == 0:
        raise ValueError(
            "points must run from the trailing edge round the leading edge and back, got the point"
            f" farthest from the first at number {nose + 1} of {len(points)}"
        )
    along = -chord / length
    level = (
        (points - points[nose]) @ np.array(((along[0], -along[1]), (along[1], along[0]))) / length
    )
    gap = float(np.linalg.norm(level[0] - level[-1]))
    if gap > _LARGEST_GAP:
        raise ValueError(
            f"the trailing edge must be open by at most {_LARGEST_GAP:g} chords, got {gap:.3g}"
        )
    upper, lower = level[: nose + 1][::-1], level[nose:]
    if upper[:, 1].mean() < lower[:, 1].mean():
        upper, lower = lower, upper
    sides = [
        side + np.outer(side[:, 0] / side[-1, 0], (1.0, 0.0) - side[-1]) for side in (lower, upper)
    ]
    return np.concatenate((sides[0][::-1], sides[1][1:]))


def _spline(knots: Numbers, values: Numbers, at: Numbers) -> Numbers:
    """The natural cubic spline through values at rising knots."""
    gaps, slopes = np.diff(knots), np.diff(values) / np.diff(knots)
    count = len(knots)
    bend = np.zeros(count)
    factor = np.zeros(count)
    for i in range(1, count - 1):  # elimination in the tridiagonal system of second derivatives
        pivot = 2 * (gaps[i - 1] + gaps[i]) - gaps[i - 1] * factor[i - 1]
        factor[i] = gaps[i] / pivot
        bend[i] = (6 * (slopes[i] - slopes[i - 1]) - gaps[i - 1] * bend[i - 1]) / pivot
    for i in range(count - 2, 0, -1):
        bend[i] -= factor[i] * bend[i + 1]
    k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, count - 2)
    left, gap = at - knots[k], gaps[k]
    right = gap - left
    cubic = (bend[k] * right**3 + bend[k + 1] * left**3) / (6 * gap)
    line = (values[k] / gap - bend[k] * gap / 6) * right
    return cubic + line + (values[k + 1] / gap - bend[k + 1] * gap / 6) * left
