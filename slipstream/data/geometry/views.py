"""How often each side of a face is seen from outside, from many directions.

For each of the directions, parallel lines cross the surface. The first and the last face that a
line crosses are seen from outside, each on the side that looks along the line; all others are
hidden. A face of area A is crossed by as many lines as A has places on the average, so that the
counts of faces can be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.cuts import Cut, Grid
from slipstream.data.geometry.raster import Crossings, crossings

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

_FEWEST, _MOST = 1 << 14, 1 << 21
"""Bounds on the number of crossings that one direction should give."""
_WIDEST = 2048
"""The most lines along a side of the grid."""
_LONG = 4
"""A direction should give at most so many rows of triangles for each crossing."""
_TOUCHING = 1e-6
"""Crossings nearer to each other than this share of the extent are at the same depth."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The triangles that may hide one another."""

    points: Floats
    """(P, 3); those of triangles must be finite."""
    triangles: NDArray[Any]
    """(T, 3)."""
    face: Whole
    """The face that each triangle is cut from, (T,)."""
    asked: Mask
    """Triangles whose views are counted, (T,); the others only hide them."""
    cuts: Sequence[Cut] = ()
    """Openings that nothing is seen through."""


@dataclass(frozen=True, eq=False)
class Views:
    """For each of the faces: lines that cross it, and those that see its front and its back."""

    lines: Whole
    front: Whole
    back: Whole

    def __add__(self, other: Views) -> Views:
        return Views(self.lines + other.lines, self.front + other.front, self.back + other.back)

    def turned(self, faces: Mask) -> Views:
        """The views of the same faces, some of them turned."""
        front, back = (
            np.where(faces, x, y) for x, y in ((self.back, self.front), (self.front, self.back))
        )
        return Views(self.lines, front, back)


def directions(count: int) -> Floats:
    """Rotations (count, 3, 3) whose last columns are spread evenly, also those of the first few."""
    golden = 1.32471795724474602596  # the root of x^3 = x + 1: its powers are far from fractions
    turns = (0.5 + np.outer(np.arange(1, count + 1), 1 / golden ** np.arange(1, 4))) % 1
    height, angle, roll = turns[:, 0], *(2 * np.pi * turns[:, 1:].T)
    flat = np.sqrt(1 - height**2)
    axis = np.stack((flat * np.cos(angle), flat * np.sin(angle), height), 1)
    side = np.stack((-np.sin(angle), np.cos(angle), np.zeros(count)), 1)
    other = np.cross(axis, side)
    c, s = np.cos(roll)[:, None], np.sin(roll)[:, None]
    return np.stack((c * side + s * other, c * other - s * side, axis), 2)


class Viewer:
    """Looks at a scene from one direction after another."""

    def __init__(self, scene: Scene, faces: int) -> None:
        self.scene = scene
        self.faces = faces
        self.all_asked = bool(scene.asked.all())
        asked = scene.triangles[scene.asked]
        corners = [scene.points[asked[:, k]] for k in range(3)]
        low = np.min([x.min(0) for x in corners], 0)
        high = np.max([x.max(0) for x in corners], 0)
        self.diameter = float(np.linalg.norm(high - low))
        width = self._width(corners)
        self.grid = Grid((low + high) / 2, (width - 1) / self.diameter, width)
        # (3, P), with the distance of lines as the unit
        self.points = np.ascontiguousarray(((scene.points - self.grid.middle) * self.grid.scale).T)

    def _width(self, corners: list[Floats]) -> int:
        """Lines along a side of the grid, such that asked faces have a crossing or two each."""
        a, b, c = corners
        area = float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2
        long = float(np.linalg.norm([b - a, c - b, a - c], axis=2).max(0).sum())
        wanted = float(np.clip(1.5 * len(a), _FEWEST, _MOST))
        diameter = self.diameter
        # The mean of a face's shadow over all directions is half its area.
        by_area = diameter * np.sqrt(2 * wanted / max(area, 1e-12 * diameter**2))
        by_rows = 2 * _LONG * wanted * diameter / long
        return int(np.clip(min(by_area, by_rows), 16, _WIDEST))

    def look(self, rotation: Floats) -> Views:
        """The views along the last column of a rotation (3, 3), and from the other end."""
        scene, width = self.scene, self.grid.width
        places = rotation.T @ self.points
        places[:2] += (width - 1) / 2
        nearest = np.full(width * width, np.inf)
        farthest = np.full(width * width, -np.inf)
        held: list[Crossings] = []
        for found in crossings(places, scene.triangles, width):
            np.minimum.at(nearest, found.line, found.depth)
            np.maximum.at(farthest, found.line, found.depth)
            held.append(found if self.all_asked else found.some(scene.asked[found.triangle]))
        for cut in scene.cuts:
            line, depth = cut.depths(self.grid, rotation)
            nearest[line] = np.minimum(nearest[line], depth)
            farthest[line] = np.maximum(farthest[line], depth)
        return self._count(places, held, nearest, farthest)

    def _count(
        self, places: Floats, held: list[Crossings], nearest: Floats, farthest: Floats
    ) -> Views:
        scene = self.scene
        facing = _facing(places, scene.triangles)
        same = _TOUCHING * self.grid.width
        lines, front, back = (np.zeros(self.faces, np.int64) for _ in range(3))
        for found in held:
            face = scene.face[found.triangle]
            to_near = facing[found.triangle]  # whether the front looks to smaller depths
            first = found.depth <= nearest[found.line] + same
            last = found.depth >= farthest[found.line] - same
            lines += np.bincount(face, minlength=self.faces)
            front += np.bincount(face[np.where(to_near, first, last)], minlength=self.faces)
            back += np.bincount(face[np.where(to_near, last, first)], minlength=self.faces)
        return Views(lines, front, back)


def _facing(places: Floats, triangles: NDArray[Any]) -> Mask:
    """Whether the fronts of triangles look to smaller depths, (T,)."""
    a, b, c = (places[:2, triangles[:, k]] for k in range(3))
    (ux, uy), (vx, vy) = b - a, c - a
    facing: Mask = ux * vy < uy * vx
    return facing
