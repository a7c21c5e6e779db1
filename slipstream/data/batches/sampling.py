"""Which rows of a sample a step sees: a pure function of (seed, epoch, sample id).

A window is a sequence of consecutive rows at a random offset, which may wrap around the end. The
rows of a store are in random order, so it is a uniform random subset, read in one piece; but two
windows of one sample that overlap have consecutive rows in common. Exact draws are independent of
each other, and read row by row.

Where a sample's points are shared out to ranks, each has a part of the draw: neighbours in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.core.runtime import derive_seed

Sampling = Literal["window", "exact"]
Span = tuple[int, int]


def count_points(points: int | float | None, rows: int, sample: str) -> int:
    """How many rows to draw: a number, a fraction of the sample's rows, or all of them."""
    if points is None:
        return rows
    if isinstance(points, float):
        if not 0 < points <= 1:
            raise ValueError(f"points must be a number of rows or a fraction, got {points}")
        return max(1, round(points * rows))
    check_whole("points", points, 1)
    if points > rows:
        raise ValueError(f"points must be at most the {rows} rows of sample {sample}, got {points}")
    return points


def draw_window(seed: int, epoch: int, sample: str, *, rows: int, points: int) -> list[Span]:
    """One or two spans of rows, (first, end) each, with `points` rows together."""
    first = derive_seed(seed, "window", epoch, sample) % rows
    end = first + points
    return [(first, end)] if end <= rows else [(first, rows), (0, end - rows)]


class Part(NamedTuple):
    """Which part of every draw: that of this rank among so many."""

    rank: int = 0
    ranks: int = 1

    def of(self, points: int) -> Span:
        """The places in a draw of so many points, first up to end; the first ranks may have one
        more. Of 10 points three ranks have 0 to 4, 4 to 7 and 7 to 10."""
        each, more = divmod(points, self.ranks)
        first = self.rank * each + min(self.rank, more)
        return first, first + each + (self.rank < more)


WHOLE = Part()
"""All of every draw."""


def cut(spans: Sequence[Span], first: int, end: int) -> list[Span]:
    """The spans of the rows at these places in a draw."""
    kept, place = [], 0
    for begin, stop in spans:
        low, high = max(begin, begin + first - place), min(stop, begin + end - place)
        if low < high:
            kept.append((low, high))
        place += stop - begin
    return kept


def draw_exact(seed: int, epoch: int, sample: str, *, rows: int, points: int) -> NDArray[np.int64]:
    """`points` different rows, every subset equally likely, in ascending order."""
    stream = np.random.Philox(key=derive_seed(seed, "exact", epoch, sample))
    if points <= rows // 2:
        return np.sort(_distinct(stream, rows, points))
    kept = np.ones(rows, np.bool_)
    kept[_distinct(stream, rows, rows - points)] = False
    return np.flatnonzero(kept)


def _distinct(stream: np.random.Philox, rows: int, count: int) -> NDArray[np.int64]:
    """The first `count` different values, at most rows / 2, of a stream of uniform row numbers.

    They must be the first in the order of the stream: `np.unique` sorts by value, and cutting its
    result would favour small row numbers.
    """
    drawn = np.empty(0, np.int64)
    while True:
        fresh = stream.random_raw(count + count // 2 + 16) % np.uint64(rows)
        drawn = np.concatenate((drawn, fresh.astype(np.int64)))
        values, first = np.unique(drawn, return_index=True)
        if len(values) >= count:
            return drawn[np.sort(first)[:count]]
