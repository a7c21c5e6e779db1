"""Count, mean, spread and range of every column, streaming, accumulated in fp64.

The statistics of two sets of points are merged by Chan's formula. Rows are taken in chunks of a
fixed size and samples in a fixed order, so the result is the same to the bit whatever the blocks,
the workers and the order in which they finish.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from slipstream.core.schemas import Positive, parsed
from slipstream.data.store.cloud import Rows, rechunked

_CHUNK_ROWS = 16384  # fits the cache; changing it changes the last bits of every manifest


@dataclass(frozen=True)
class Statistics:
    """Statistics of `count` rows, one number for each column."""

    count: Positive
    mean: tuple[float, ...]
    squares: tuple[float, ...]
    """Sums of squared distances from the mean."""
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in ("mean", "squares", "low", "high")}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"statistics must have as many numbers of each kind, got {sizes}")
        if any(number < 0 for number in self.squares):
            raise ValueError(f"squares of statistics must be at least 0, got {min(self.squares):g}")

    @property
    def std(self) -> tuple[float, ...]:
        """Population standard deviation.

        For equal values it is exactly 0: a sum of up to 2^29 equal float32 is exact in fp64.
        """
        return tuple(math.sqrt(squares / self.count) for squares in self.squares)

    def merged(self, other: Statistics) -> Statistics:
        """The statistics of the rows of both.

        One row of 0 and three of 4: mean 0 + 4 * 3 / 4 = 3, squares 0 + 0 + 4^2 * 1 * 3 / 4 = 12,
        which is 3^2 + 3 * 1^2.
        """
        count = self.count + other.count
        mean, mean_other = np.array(self.mean), np.array(other.mean)
        step = mean_other - mean
        squares = (
            np.array(self.squares)
            + np.array(other.squares)
            + step * step * (self.count * other.count / count)
        )
        return Statistics(
            count,
            tuple((mean + step * (other.count / count)).tolist()),
            tuple(squares.tolist()),
            tuple(map(min, self.low, other.low)),
            tuple(map(max, self.high, other.high)),
        )

    def differing(self, other: Statistics) -> list[int]:
        """The columns in which the two differ by more than rounding."""
        columns = range(len(self.mean))
        if self.count != other.count or len(self.mean) != len(other.mean):
            return list(columns)
        return [i for i in columns if not self._agrees(other, i)]

    def _agrees(self, other: Statistics, i: int) -> bool:
        size = max(abs(self.low[i]), abs(self.high[i]))
        return (
            (self.low[i], self.high[i]) == (other.low[i], other.high[i])
            and abs(self.mean[i] - other.mean[i]) <= 1e-9 * size
            and abs(self.std[i] - other.std[i]) <= 1e-9 * size
        )

    def to_json(self) -> dict[str, Any]:
        parts = {name: list(getattr(self, name)) for name in ("mean", "squares", "low", "high")}
        return {"count": self.count, **parts}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Statistics:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place="statistics")


def merge_statistics(parts: Iterable[Statistics]) -> Statistics:
    """The statistics of all parts, merged from first to last: the last bits depend on the order."""
    return reduce(Statistics.merged, parts)


class StreamingStatistics:
    """Statistics of rows that come in blocks of any size."""

    def __init__(self) -> None:
        self._total: Statistics | None = None

    def pass_through(self, blocks: Iterable[Rows]) -> Iterator[Rows]:
        """The blocks, rechunked, each counted on its way."""
        for chunk in rechunked(blocks, _CHUNK_ROWS):
            part = _of_chunk(chunk)
            self._total = part if self._total is None else self._total.merged(part)
            yield chunk

    def total(self) -> Statistics:
        if self._total is None:
            raise ValueError("statistics must be of at least one row, got none")
        return self._total


def statistics_of(blocks: Iterable[Rows]) -> Statistics:
    """Statistics of all rows of the blocks."""
    streaming = StreamingStatistics()
    for _ in streaming.pass_through(blocks):
        pass
    return streaming.total()


def _of_chunk(chunk: Rows) -> Statistics:
    # Column after column in memory: 2.9 GB/s against 0.46 for reductions down the rows.
    columns = np.ascontiguousarray(chunk.T)
    low, high = columns.min(1), columns.max(1)
    wide = columns.astype(np.float64)
    mean = wide.mean(1)
    wide -= mean[:, None]
    wide *= wide
    parts = (mean, wide.sum(1), low, high)
    return Statistics(len(chunk), *(tuple(map(float, part)) for part in parts))
