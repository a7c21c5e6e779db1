"""Triangles on a grid of parallel lines: which lines cross them, and at which depth.

A line goes through each whole number (i, j) of a plane, for 0 <= i, j < width; a triangle is
crossed by those inside its projection, its outline included. Two triangles at an edge compute the
outline there by the same operations, so that no line slips between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_ROWS = 1 << 19
"""Rows of triangles, and triangles, that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class Crossings:
    """Where lines cross triangles, (K,) each."""

    triangle: Whole
    line: Whole
    """The number of the line: j * width + i."""
    depth: Floats

    def some(self, chosen: NDArray[np.bool_]) -> Crossings:
        return Crossings(self.triangle[chosen], self.line[chosen], self.depth[chosen])


def crossings(places: Floats, triangles: NDArray[Any], width: int) -> Iterator[Crossings]:
    """The crossings of triangles (T, 3) between finite places (3, P): across, along and depth.

    At most 2^19 triangles, and rows of triangles, are held at a time.
    """
    for first in range(0, len(triangles), _ROWS):
        part = triangles[first : first + _ROWS]
        corners = places[:, part]  # (3, T, 3): coordinate, triangle, corner
        low, high = _rows(corners[1], width)
        rows = high - low + 1
        wanted = np.flatnonzero(rows > 0)
        if not len(wanted):
            continue
        before = np.cumsum(rows[wanted])
        begin = 0
        while begin < len(wanted):
            done = before[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(before, done + _ROWS, "right")))
            some = wanted[begin:end]
            found = _spans(corners[:, some], low[some], rows[some], width)
            yield Crossings(first + some[found.triangle], found.line, found.depth)
            begin = end


def _rows(along: Floats, width: int) -> tuple[Whole, Whole]:
    """The first and the last line along that a triangle may cross, (T,) each."""
    a, b, c = along.T
    lowest, highest = (np.clip(f(f(a, b), c), -1, width) for f in (np.minimum, np.maximum))
    low = np.maximum(np.ceil(lowest).astype(np.int64), 0)
    high = np.minimum(np.floor(highest).astype(np.int64), width - 1)
    return low, high


def _spans(corners: Floats, low: Whole, rows: Whole, width: int) -> Crossings:
    """The crossings of triangles whose rows are known."""
    edges = _edges(corners)
    count = len(low)
    triangle = np.repeat(np.arange(count), rows)
    row = np.arange(len(triangle)) - np.repeat(np.cumsum(rows) - rows - low, rows)
    shorter = triangle + count * (1 + (row > edges[1, 2 * count + triangle]))
    left, left_depth = _at_row(edges, triangle, row)
    right, right_depth = _at_row(edges, shorter, row)
    swap = left > right
    left, right = np.minimum(left, right), np.maximum(left, right)
    start = np.ceil(np.maximum(left, 0)).astype(np.int64)
    stop = np.floor(np.minimum(right, width - 1)).astype(np.int64)
    kept = np.flatnonzero(stop >= start)
    triangle, row, start = triangle[kept], row[kept], start[kept]
    left, swap = left[kept], swap[kept]
    counts = stop[kept] - start + 1
    fall = (right_depth[kept] - left_depth[kept]) * np.where(swap, -1, 1)
    run = right[kept] - left
    slope = np.divide(fall, run, where=run > 0, out=np.zeros_like(run))
    begin = np.where(swap, right_depth[kept], left_depth[kept]) + (start - left) * slope
    span = np.repeat(np.arange(len(kept)), counts)
    step = np.arange(len(span)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Crossings(
        triangle[span], (row * width + start)[span] + step, begin[span] + step * slope[span]
    )


def _edges(corners: Floats) -> Floats:
    """The edges from lower to upper end, (5, 3 T): all longest in rows, all below and all above the
    middle corner; their lower ends (across, along, depth), and how across and depth change."""
    along = corners[1]
    lowest, highest = along.argmin(1), along.argmax(1)
    highest[lowest == highest] = 2  # all three are equal, and the lowest is the first
    order = np.stack((lowest, 3 - lowest - highest, highest))
    each = np.arange(len(along))
    low, middle, high = (corners[:, each, which] for which in order)
    begin = np.concatenate((low, low, middle), 1)
    change = np.concatenate((high, middle, high), 1) - begin
    rise = change[1]
    slopes = [np.divide(x, rise, where=rise > 0, out=np.zeros_like(x)) for x in change[::2]]
    return np.concatenate((begin, slopes))


def _at_row(edges: Floats, edge: Whole, row: Whole) -> tuple[Floats, Floats]:
    """Where the edges cross the rows, and the depth there."""
    up = row - edges[1, edge]
    return edges[0, edge] + up * edges[3, edge], edges[2, edge] + up * edges[4, edge]
