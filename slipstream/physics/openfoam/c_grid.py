"""A structured C-grid round an airfoil and its wake.

    i = 0        along the lower side of the wake from the outlet to the trailing edge, round the
                 airfoil, and along the upper side of the wake to the outlet
    j = 0        wall and wake; the two sides of the wake are the same points

Every point of the wall and the wake is joined by a line with one of the outer boundary, which has
points at even distances on a half circle and two straight lines. A line begins along the normal,
which is smoothed near the trailing edge, where the curve has a corner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_at_least, check_whole
from slipstream.physics.openfoam.airfoils import Airfoil, Curve, Numbers, spread

_CORNER = 0.04
"""Within about this length, in chords, of the trailing edge normals are smoothed."""
_CENTRE = 0.5
"""Of the outer half circle."""
_STRAIGHT = 1.0
"""The distance, in chords, at which a line has turned from the normal to its last direction."""
_BEND = 0.5
"""Within this length, in chords, the wake turns from the trailing edge to the stream."""


@dataclass(frozen=True, kw_only=True)
class GridShape:
    """How many cells a grid has, and how large they are; lengths are in chords."""

    around: int = 128
    """Cells on the airfoil, half of them on each side."""
    wake: int = 36
    """Cells along the wake."""
    first: float = 4e-4
    """Height of the cells at the wall."""
    growth: float = 1.2
    """How much higher each layer is than the one below it."""
    far: float = 100.0
    """Distance of the outer boundary."""
    leading: float = 0.002
    """Length of the cells at the leading edge."""
    trailing: float = 0.003
    """Length of the cells at the trailing edge."""

    def __post_init__(self) -> None:
        check_whole("around", self.around, 20)
        check_whole("wake", self.wake, 8)
        if self.around % 2:
            raise ValueError(f"around must be even, half for each side, got {self.around}")
        for name, low in (("first", 1e-7), ("far", 2.0), ("leading", 1e-5), ("trailing", 1e-5)):
            check_at_least(name, getattr(self, name), low)
        if not 1.02 <= self.growth <= 2:
            raise ValueError(f"growth must be from 1.02 to 2, got {self.growth}")

    @property
    def layers(self) -> int:
        return math.ceil(
            math.log1p(self.far * (self.growth - 1) / self.first) / math.log(self.growth)
        )


@dataclass(frozen=True, eq=False)
class CGrid:
    points: NDArray[np.float64]
    """(I + 1, J + 1, 2)"""
    wake: int
    """Cells along the wake: the wall is at j = 0 from i = wake to I - wake."""


def make_grid(airfoil: Airfoil, shape: GridShape, *, incidence: float = 0.0) -> CGrid:
    """The grid in axes in which the stream is along the first one.

    The airfoil is turned by the incidence, in degrees, nose up, about a quarter of its chord.
    Points have the digits of float32, so that readers that keep no more lose none. ValueError where
    cells overlap, which names the first.
    """
    t = spread(airfoil, shape.around, leading=shape.leading, trailing=shape.trailing)
    wall = turned(airfoil.at(t), incidence)
    wall[-1] = wall[0] = (wall[0] + wall[-1]) / 2
    wake = _wake(wall, shape)
    inner = np.concatenate((wake[::-1], wall[1:-1], wake))
    points = _lines(inner, _outer(len(inner), wall[0, 0] + shape.far, shape.far), shape)
    grid = CGrid(points.astype(np.float32).astype(np.float64), shape.wake)
    areas = cell_areas(grid.points)
    if not (areas > 0).all():
        i, j = np.argwhere(areas <= 0)[0]
        raise ValueError(
            "the cells of the grid must have a positive area, got"
            f" {int((areas <= 0).sum())} that overlap, the first at cell {i} along the airfoil and"
            f" wake in layer {j}: is the airfoil too concave?"
        )
    return grid


def turned(points: Curve, incidence: float) -> Curve:
    """Points turned about (0.25, 0), nose up, by degrees."""
    cosine, sine = math.cos(math.radians(incidence)), math.sin(math.radians(incidence))
    x, y = (points - (0.25, 0.0)).T
    return np.stack((x * cosine + y * sine + 0.25, y * cosine - x * sine), -1)


def cell_areas(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(I, J): positive where i and j turn counter-clockwise, as in a grid without folds."""
    a, b = points[1:, 1:] - points[:-1, :-1], points[:-1, 1:] - points[1:, :-1]
    return (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]) / 2


def _wake(wall: Curve, shape: GridShape) -> Curve:
    """From the trailing edge downstream, at first along the bisector of the edge."""
    edge = wall[0]
    back = _unit(_unit(edge - wall[1]) + _unit(edge - wall[-2]))
    x = edge[0] + shape.far * _growing(shape.wake, shape.trailing / shape.far)
    slope = back[1] / back[0]
    y = edge[1] + slope * _BEND * -np.expm1(-(x - edge[0]) / _BEND)
    return np.stack((x, y), -1)


def _growing(cells: int, first: float) -> Numbers:
    """`cells` + 1 numbers from 0 to 1 in a geometric series that begins with `first`."""
    powers = np.arange(cells + 1)
    ratio = float(ratios(np.array([first]), cells, 1.0)[0])
    return np.asarray((ratio**powers - 1) / (ratio**cells - 1))


def ratios(first: Numbers, cells: int, total: float) -> Numbers:
    """The ratios of geometric series with these first terms that sum to `total`, by bisection."""
    low, high = np.full_like(first, 1 + 1e-9), np.full_like(first, 4.0)
    for _ in range(100):
        middle = (low + high) / 2
        short = first * np.expm1(cells * np.log(middle)) / (middle - 1) < total
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return (low + high) / 2


def _outer(count: int, outlet: float, radius: float) -> Curve:
    """The outer boundary, clockwise from the lower to the upper end of the outlet."""
    straight = outlet - _CENTRE
    arc = np.linspace(0, 2 * straight + math.pi * radius, count) - straight
    angle = np.clip(arc / radius, 0, math.pi)
    beyond = arc - np.clip(arc, 0, math.pi * radius)
    x = _CENTRE - radius * np.sin(angle) + np.abs(beyond)
    return np.stack((x, -radius * np.cos(angle)), -1)


def _lines(inner: Curve, outer: Curve, shape: GridShape) -> NDArray[np.float64]:
    normals = _normals(inner)
    corner = np.linalg.norm(inner - inner[shape.wake], axis=1)
    normals = _smoothed(normals, inner, _CORNER * np.exp(-corner / (2 * _CORNER)))
    reach = np.linalg.norm(outer - inner, axis=1)
    last = (outer - inner) / reach[:, None]
    behind = np.maximum(inner[:, 0] - inner[shape.wake, 0], 0.0)
    behind[shape.wake : len(inner) - shape.wake] = 0.0
    # Cells of the wake become higher downstream: four chords behind the edge twice as high.
    first = shape.first * (1 + (behind / 4) ** 2)
    ratio = ratios(first / reach, shape.layers, 1.0)
    layer = np.arange(shape.layers + 1)
    share = (ratio[:, None] ** layer - 1) / (ratio[:, None] ** shape.layers - 1)
    distance = (reach[:, None] * share)[..., None]
    turned = -np.expm1(-distance / _STRAIGHT)
    bent = (1 - turned) * normals[:, None] + turned * last[:, None]
    return inner[:, None] + distance * bent


def _normals(curve: Curve) -> Curve:
    """To the left of the curve; at its ends, which lie in the outlet, straight down and up."""
    along = np.empty_like(curve)
    ahead, behind = curve[2:] - curve[1:-1], curve[1:-1] - curve[:-2]
    along[1:-1] = _unit(ahead) + _unit(behind)
    along[0], along[-1] = (-1.0, 0.0), (1.0, 0.0)
    return _unit(np.stack((-along[:, 1], along[:, 0]), -1))


def _smoothed(normals: Curve, curve: Curve, length: Numbers) -> Curve:
    """n - (length^2 n')' = normals along the curve, the ends kept, by elimination."""
    gaps = np.linalg.norm(np.diff(curve, axis=0), axis=1)
    squared = ((length[1:] + length[:-1]) / 2) ** 2 / gaps
    volume = (gaps[1:] + gaps[:-1]) / 2
    lower, upper = squared[:-1] / volume, squared[1:] / volume
    below, above = lower.tolist(), upper.tolist()
    x, y = normals.T.tolist()
    factor, count = [0.0] * len(x), len(x)
    for i in range(1, count - 1):
        pivot = 1 + below[i - 1] + above[i - 1] - below[i - 1] * factor[i - 1]
        factor[i] = above[i - 1] / pivot
        x[i] = (x[i] + below[i - 1] * x[i - 1]) / pivot
        y[i] = (y[i] + below[i - 1] * y[i - 1]) / pivot
    for i in range(count - 2, 0, -1):
        x[i] += factor[i] * x[i + 1]
        y[i] += factor[i] * y[i + 1]
    return _unit(np.stack((x, y), -1))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
