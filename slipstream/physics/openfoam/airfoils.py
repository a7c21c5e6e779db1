"""Airfoils as curves: NACA's four- and five-digit families, with a sharp trailing edge.

An airfoil is a curve of one parameter t: the trailing edge at -1, along the lower side to the
leading edge at 0, along the upper side to the trailing edge at 1. The chord is from (0, 0) to
(1, 0). NACA's thickness ends in an open edge, 0.21 % of the chord on each side of a 20 % airfoil;
the last coefficient is changed, as is usual, so that both sides meet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_choice

Numbers = NDArray[np.float64]
Curve = NDArray[np.float64]
"""Points (N, 2) in the plane of the airfoil: along the chord, and upwards."""

THICKNESS = (0.2969, -0.1260, -0.3516, 0.2843, -0.1036)
"""Factors of sqrt(x), x, x^2, x^3 and x^4 in the half thickness of an airfoil 20 % thick."""
FOUR, FIVE = "4-digit", "5-digit"
_DENSE = 4001
"""Points along which arc lengths are summed: the shares of the length are exact to 1e-6."""


@runtime_checkable
class Airfoil(Protocol):
    """A closed curve."""

    def at(self, t: Numbers) -> Curve:
        """The points of parameters between -1 and 1."""
        ...


@dataclass(frozen=True)
class Naca:
    """An airfoil of a NACA family; all lengths are parts of the chord."""

    camber: float
    """The largest height of the mean line."""
    position: float
    """Where the mean line is highest."""
    thickness: float
    family: str = FOUR

    def __post_init__(self) -> None:
        check_choice("the family of a NACA airfoil", self.family, (FOUR, FIVE))
        _check_within("the thickness of a NACA airfoil", self.thickness, 0.01, 0.4)
        _check_within("the camber of a NACA airfoil", self.camber, 0.0, 0.1)
        low, high = (0.1, 0.9) if self.family == FOUR else (0.02, 0.3)
        _check_within(f"the position of the camber of a {self.family}", self.position, low, high)

    def at(self, t: Numbers) -> Curve:
        x, side = t * t, np.sign(t)
        height, slope = self._mean_line(x)
        half = side * self.half_thickness(x)
        turn = np.arctan(slope)
        return np.stack((x - half * np.sin(turn), height + half * np.cos(turn)), -1)

    def half_thickness(self, x: Numbers) -> Numbers:
        a, b, c, d, e = THICKNESS
        return 5 * self.thickness * (a * np.sqrt(x) + x * (b + x * (c + x * (d + x * e))))

    def _mean_line(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """Height and slope."""
        if self.family == FIVE:
            return self._five_digit_line(x)
        p, fore = self.position, x < self.position
        scale = self.camber / np.where(fore, p, 1 - p) ** 2
        height = scale * (np.where(fore, 0.0, 1 - 2 * p) + 2 * p * x - x * x)
        return height, 2 * scale * (p - x)

    def _five_digit_line(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """A cubic as far as r, where its curvature vanishes, and then a straight line; the highest
        point is at r (1 - sqrt(r / 3))."""
        r = self.position
        for _ in range(60):  # a contraction: r / 3 stays below 0.15
            r = self.position / (1 - math.sqrt(r / 3))
        p = self.position
        scale = self.camber / (p**3 - 3 * r * p**2 + r**2 * (3 - r) * p)
        fore = x < r
        front = x**3 - 3 * r * x**2 + r**2 * (3 - r) * x
        height = np.where(fore, front, r**3 * (1 - x))
        slope = np.where(fore, 3 * x**2 - 6 * r * x + r**2 * (3 - r), -(r**3))
        return scale * height, scale * slope


def naca(name: str) -> Naca:
    """An airfoil by its number, as "2412" or "23012"; ValueError for any other name."""
    digits = re.fullmatch(r"(?:naca)?[ -]?(\d{4}|\d{5})", name.strip().lower())
    if digits is None:
        raise ValueError(f"an airfoil must be four or five digits of NACA, got {name!r}")
    number = digits[1]
    thickness = int(number[-2:]) / 100
    if len(number) == 4:
        camber, position = int(number[0]) / 100, int(number[1]) / 10
        return Naca(camber, position if camber else 0.4, thickness)
    if number[2] != "0" or number[0] == "0" or number[1] == "0":
        raise ValueError(
            "a five-digit NACA airfoil must have a lift and a position other than 0 and no reflex"
            f" (third digit 0), got {name!r}"
        )
    position, lift = int(number[1]) / 20, 0.15 * int(number[0])
    plain = Naca(0.02, position, thickness, FIVE)
    return Naca(0.02 * lift / ideal_lift(plain), position, thickness, FIVE)


def ideal_lift(airfoil: Naca) -> float:
    """The lift of the mean line by thin airfoil theory at the incidence at which the flow meets the
    leading edge smoothly: the first digit of a five-digit name is two thirds of ten times it."""
    angle = (np.arange(20000) + 0.5) * (math.pi / 20000)
    _, slope = airfoil._mean_line((1 - np.cos(angle)) / 2)
    return float(2 * (slope * np.cos(angle)).mean() * math.pi)


def spread(airfoil: Airfoil, cells: int, *, leading: float, trailing: float) -> Numbers:
    """`cells` + 1 parameters from -1 to 1, with 0 among them, for spacings along the curve.

    `leading` and `trailing` are the lengths of the cells at the two edges, for a chord of 1; half
    of the cells are on each side.
    """
    dense = np.linspace(-1, 1, 2 * _DENSE - 1)
    steps = np.linalg.norm(np.diff(airfoil.at(dense), axis=0), axis=1)
    arc = np.concatenate(([0.0], np.cumsum(steps)))
    middle = arc[_DENSE - 1]
    sides = []
    for start, end, first, last in (
        (0.0, middle, trailing, leading),
        (middle, arc[-1], leading, trailing),
    ):
        share = two_sided(cells // 2, first / (end - start), last / (end - start))
        sides.append(np.interp(start + share * (end - start), arc, dense))
    sides[0][-1] = 0.0
    return np.concatenate((sides[0], sides[1][1:]))


def two_sided(cells: int, first: float, last: float) -> Numbers:
    """`cells` + 1 numbers from 0 to 1, whose first and last differences are near those given.

    By Vinokur's stretching with a hyperbolic sine, or a sine where the cells are too large.
    """
    ratio = math.sqrt(last / first)
    size = 1 / (cells * math.sqrt(first * last))
    share = np.linspace(0, 1, cells + 1)
    bent = _stretched(size, share)
    spaced = bent / (ratio + (1 - ratio) * bent)
    spaced[0], spaced[-1] = 0.0, 1.0
    return spaced


def _stretched(size: float, share: Numbers) -> Numbers:
    if abs(size - 1) < 1e-3:
        return share
    if size > 1:
        width = _solve(lambda d: math.sinh(d) / d - size, 1e-6, 50.0)
        return 0.5 * (1 + np.tanh(width * (share - 0.5)) / math.tanh(width / 2))
    width = _solve(lambda d: size - math.sin(d) / d, 1e-6, math.pi - 1e-6)
    return 0.5 * (1 + np.tan(width * (share - 0.5)) / math.tan(width / 2))


def _solve(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def enclosed_area(curve: Curve) -> float:
    """The area inside a closed curve that runs clockwise, as airfoils do."""
    x, y = curve.T
    return float((np.roll(x, -1) * y - x * np.roll(y, -1)).sum() / 2)


def _check_within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {value:g}")
