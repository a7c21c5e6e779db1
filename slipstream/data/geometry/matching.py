"""Rows of two files matched by their coordinates, or checked to be in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEAR = 1e-6
"""Two places count as one if their distance is at most this share of the mesh's diagonal."""


@dataclass(frozen=True, eq=False)
class Matched:
    """An index for which the rows others[index] have the places of the points."""

    index: NDArray[np.intp]
    twins: NDArray[np.intp]
    """Pairs of rows of the others, (T, 2), that have the same place and cannot be told apart."""

    def check_twins(self, name: str, values: NDArray[Any]) -> None:
        """Raise where rows that share a place differ in their values."""
        table = values[:, None] if values.ndim == 1 else values
        first, second = table[self.twins[:, 0]], table[self.twins[:, 1]]
        differing = int(((first != second) & ~(np.isnan(first) & np.isnan(second))).any(1).sum())
        if differing:
            raise ValueError(
                f"{name} must have one value at each place to be matched by coordinates, got"
                f" {differing} pairs of rows at the same place with different values"
            )


def match_exactly(points: NDArray[Any], others: NDArray[Any]) -> Matched:
    """Which row of `others` has the coordinates of each point; ValueError where one has none.

    Coordinates must be equal to the last digit, or to float32 where one of the two is float32.
    """
    _check_counts(points, others)
    if points.dtype != others.dtype:
        points, others = points.astype(np.float32), others.astype(np.float32)
    if np.array_equal(points, others):
        return Matched(np.arange(len(points)), np.empty((0, 2), np.intp))
    mine, theirs = np.lexsort(points.T[::-1]), np.lexsort(others.T[::-1])
    differing = np.flatnonzero((points[mine] != others[theirs]).any(1))
    if len(differing):
        here, there = tuple(points[mine[differing[0]]]), tuple(others[theirs[differing[0]]])
        lacking = "have" if here < there else "not have"
        raise ValueError(f"must {lacking} a point at {_place(min(here, there))}")
    index = np.empty(len(points), np.intp)
    index[mine] = theirs
    same = np.flatnonzero((others[theirs[1:]] == others[theirs[:-1]]).all(1))
    return Matched(index, np.stack([theirs[same], theirs[same + 1]], 1))


def match_nearly(points: NDArray[Any], others: NDArray[Any]) -> Matched:
    """As `match_exactly`, for computed places, as centres of cells, that may differ by rounding."""
    _check_counts(points, others)
    from scipy.spatial import KDTree

    tree = KDTree(others)
    limit = NEAR * float(np.linalg.norm(np.ptp(points, axis=0)))
    far, index = tree.query(points)
    if not (far <= limit).all():
        raise ValueError(f"must have a row at {_place(points[np.argmax(far > limit)])}")
    if len(np.unique(index)) < len(index):
        raise ValueError("must have one row at each place, got several within rounding")
    return Matched(np.asarray(index, np.intp), np.empty((0, 2), np.intp))


def check_order(points: NDArray[Any], others: NDArray[Any]) -> None:
    """Raise unless every row of `others` lies, within rounding, where the point does."""
    _check_counts(points, others)
    limit = NEAR * float(np.linalg.norm(np.ptp(points, axis=0)))
    differing = np.flatnonzero((np.abs(points - others) > limit).any(1))
    if len(differing):
        row = int(differing[0])
        raise ValueError(
            f"must have row {row} at {_place(points[row])}, got {_place(others[row])}; `match:"
            " coordinates` finds the order"
        )


def _check_counts(points: NDArray[Any], others: NDArray[Any]) -> None:
    if len(points) != len(others):
        raise ValueError(f"must have {len(points):,} rows, got {len(others):,}")


def _place(point: Any) -> str:
    return f"({', '.join(f'{float(x):.9g}' for x in point)})"
