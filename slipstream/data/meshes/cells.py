"""The corners of cells, and from them centres, area vectors and triangles of surfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 15
"""Cells worked on at a time."""
# Types of cells, by VTK's numbers.
_THIN = (1, 2, 3, 4)  # vertices and lines
STRIP, PIXEL, POLYGON = 6, 8, 7
_FLAT = (5, POLYGON, 9)  # triangle, polygon, quadrangle
_CORNERS = np.zeros(256, np.int64)
_CORNERS[[1, 3, 5, PIXEL, 9, 10, 11, 12, 13, 14]] = 1, 2, 3, 4, 4, 4, 8, 8, 6, 5
"""How many corners a cell of each type has; 0 where that may be any number, or is not known."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive cells: cell i has the corners from `begins[i]` up to `begins[i + 1]`."""

    types: NDArray[Any]
    begins: NDArray[Any]
    corners: NDArray[Any]
    """Numbers of points."""

    @property
    def sizes(self) -> NDArray[Any]:
        return np.diff(self.begins, append=len(self.corners))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a mesh, some at a time, however it is stored."""

    file: str
    """The name of the file, for errors."""
    count: int
    points: int
    chunks: Callable[[], Iterator[Chunk]]

    def checked(self) -> Iterator[Chunk]:
        """The chunks; ValueError for a cell without corners, or with one that is no point."""
        for chunk in self.chunks():
            low, high = (chunk.corners.min(), chunk.corners.max()) if len(chunk.corners) else (0, 0)
            if (chunk.sizes < 1).any():
                raise ValueError(f"every cell of {self.file} must have corners, got some without")
            needed = _CORNERS[np.clip(chunk.types, 0, 255)]
            if (wrong := (needed > 0) & (needed != chunk.sizes)).any():
                at = int(wrong.argmax())
                raise ValueError(
                    f"cells of VTK's type {chunk.types[at]} in {self.file} must have {needed[at]}"
                    f" corners, got {chunk.sizes[at]}"
                )
            if low < 0 or high >= self.points:
                raise ValueError(
                    f"the cells of {self.file} must have corners among its {self.points} points,"
                    f" got numbers from {low} to {high}"
                )
            yield chunk


def centres(cells: Cells, points: NDArray[Any]) -> NDArray[Any]:
    """The mean of each cell's corners, (C, 3), of the points' dtype.

    For triangles, quadrangles, tetrahedra, hexahedra and wedges VTK's centre is the same; for other
    cells VTK's depends on the order of the corners.
    """
    middle = np.empty((cells.count, 3), points.dtype)
    start = 0
    for chunk in cells.checked():
        sizes = chunk.sizes
        corners = points[chunk.corners].astype(np.float64, copy=False)
        if (sizes == sizes[0]).all():
            total = corners.reshape(len(sizes), -1, 3).sum(1)
        else:
            total = np.add.reduceat(corners, chunk.begins)
        middle[start : start + len(sizes)] = total / sizes[:, None]
        start += len(sizes)
    return middle


def area_vectors(cells: Cells, points: NDArray[Any]) -> NDArray[np.float64]:
    """Normal times area of each cell of a surface, by the order of its corners, (C, 3).

    It is 1/2 sum (x_i - c) x (x_(i+1) - c) over the corners x_i, the same for every c and however a
    polygon that is not flat is cut into triangles.
    """
    vectors = np.empty((cells.count, 3))
    start = 0
    for chunk in cells.checked():
        _check_types(cells.file, chunk, _FLAT)
        sizes = chunk.sizes
        corners = points[chunk.corners].astype(np.float64)
        corners -= np.repeat(corners[chunk.begins], sizes, 0)
        edges = np.cross(corners, np.roll(corners, -1, 0))  # 0 to the next cell's first corner
        vectors[start : start + len(sizes)] = np.add.reduceat(edges, chunk.begins) / 2
        start += len(sizes)
    return vectors


def face_centres(cells: Cells, points: NDArray[Any]) -> NDArray[np.float64]:
    """The centre of area of each cell of a surface, (C, 3).

    A polygon is cut into triangles at the mean of its corners, and each triangle counts by its area
    along the polygon's area vector; a cell without area has the mean of its corners.
    """
    middle = np.empty((cells.count, 3))
    start = 0
    for chunk in cells.checked():
        _check_types(cells.file, chunk, _FLAT)
        begins, sizes = chunk.begins, chunk.sizes
        corners = points[chunk.corners].astype(np.float64)
        mean = np.add.reduceat(corners, begins) / sizes[:, None]
        corners -= np.repeat(mean, sizes, 0)
        following = np.arange(1, len(corners) + 1)
        following[begins + sizes - 1] = begins
        pieces = np.cross(corners, corners[following])
        vectors = np.add.reduceat(pieces, begins)
        areas = (pieces * np.repeat(vectors, sizes, 0)).sum(1)
        moment = np.add.reduceat(areas[:, None] * (corners + corners[following]), begins) / 3
        total = (vectors * vectors).sum(1, keepdims=True)
        mean += np.divide(moment, total, out=np.zeros_like(moment), where=total > 0)
        middle[start : start + len(sizes)] = mean
        start += len(sizes)
    return middle


def triangles(cells: Cells) -> NDArray[np.int64]:
    """The corners of triangles that cover a surface, (T, 3): each polygon is cut into a fan."""
    return np.concatenate(
        [np.empty((0, 3), np.int64), *(_fans(cells.file, chunk) for chunk in cells.checked())]
    )


def triangle_cells(cells: Cells) -> NDArray[np.int64]:
    """The cell from which each triangle of `triangles` is cut, (T,)."""
    counts = [np.empty(0, np.int64), *(_fan_counts(chunk) for chunk in cells.checked())]
    each = np.concatenate(counts)
    return np.repeat(np.arange(len(each)), each)


def _fan_counts(chunk: Chunk) -> NDArray[Any]:
    return np.where(np.isin(chunk.types, _THIN), 0, np.maximum(chunk.sizes - 2, 0))


def _fans(file: str, chunk: Chunk) -> NDArray[np.int64]:
    _check_types(file, chunk, (*_FLAT, STRIP, PIXEL, *_THIN))
    corners = chunk.corners.astype(np.int64, copy=False)
    sizes = chunk.sizes
    if np.isin(chunk.types, _FLAT).all() and (sizes == 3).all():
        return corners.reshape(-1, 3)
    pixel, strip = chunk.types == PIXEL, chunk.types == STRIP
    if pixel.any():  # the corners of a pixel go row by row, not around it
        corners = corners.copy()
        third = chunk.begins[pixel] + 2
        corners[third], corners[third + 1] = corners[third + 1], corners[third]
    counts = _fan_counts(chunk)
    cell = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = chunk.begins[cell]
    first = np.where(strip[cell], begin + step, begin)
    turned = strip[cell] & (step % 2 == 1)
    second, third = begin + step + 1 + turned, begin + step + 2 - turned
    return np.stack((corners[first], corners[second], corners[third]), 1)


def _check_types(file: str, chunk: Chunk, allowed: tuple[int, ...]) -> None:
    if not np.isin(chunk.types, allowed).all():
        got = sorted({int(kind) for kind in np.unique(chunk.types)} - set(allowed))
        raise ValueError(
            f"{file} must be a surface of polygons, got cells of VTK's types"
            f" {', '.join(map(str, got))}"
        )
