"""Trajectories read as pairs of states: a state, and the one some states later.

On disk a sample is a trajectory, coords | state 0 | state 1 | ...; batches hold pairs, coords |
state, lead time | later state, which would take many times the space on disk. The option "pairs"
marks a source of trajectories. With 3 states and the lags 1 and 2 a trajectory has three pairs:
states 0 and 1, 0 and 2, 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.core.schemas import parsed
from slipstream.data.store.fields import Field, Schema
from slipstream.data.store.statistics import Statistics, merge_statistics

PAIRS_OPTION = "pairs"
"""The option of a store's origin that holds a `Pairs` as JSON."""


@dataclass(frozen=True)
class Pairs:
    state: tuple[Field, ...]
    """The fields of one state."""
    states: int
    lags: tuple[int, ...]
    """How many states a pair may lie apart; every pair of a trajectory with such a lag is used."""
    step: float
    """Lead time from one state to the next."""
    unit: str
    """Unit of the lead time."""

    def __post_init__(self) -> None:
        check_whole("states", self.states, 2)
        if not isinstance(self.lags, tuple) or not self.lags:
            raise ValueError(f"lags must be a list of whole numbers, got {self.lags!r}")
        for lag in self.lags:
            check_whole("a lag", lag, 0)
        if not 1 <= max(self.lags) < self.states:
            raise ValueError(
                f"the largest lag must be from 1 to {self.states - 1}, got {max(self.lags)}"
            )

    @property
    def places(self) -> list[tuple[int, int]]:
        """First state and lag of every pair of a trajectory."""
        firsts = range(self.states)
        return [(i, lag) for i in firsts for lag in self.lags if i + lag < self.states]

    def stored(self, coords: tuple[Field, ...]) -> Schema:
        """The columns on disk."""
        states = (
            replace(field, name=f"{field.name}@{k}")
            for k in range(self.states)
            for field in self.state
        )
        return Schema(coords, (), tuple(states))

    def seen(self, coords: tuple[Field, ...]) -> Schema:
        """The columns of a pair."""
        later = (replace(field, name=f"later_{field.name}") for field in self.state)
        return Schema(coords, (*self.state, Field("lead_time", self.unit)), tuple(later))

    def names(self, trajectory: str) -> list[str]:
        """The ids of a trajectory's pairs."""
        return [f"{trajectory}-{first:02d}-{lag:02d}" for first, lag in self.places]

    def pick(self, rows: NDArray[Any], first: int, lag: int, out: NDArray[Any]) -> None:
        """Copy the rows of a pair, taken from those of its trajectory, into `out`."""
        width = sum(field.components for field in self.state)
        coords = out.shape[1] - 2 * width - 1
        now, later = (coords + width * k for k in (first, first + lag))
        out[:, :coords] = rows[:, :coords]
        out[:, coords : coords + width] = rows[:, now : now + width]
        out[:, coords + width] = lag * self.step
        out[:, coords + width + 1 :] = rows[:, later : later + width]

    def statistics(self, stored: Statistics, width: int) -> Statistics:
        """The statistics of all pairs, `width` columns each, from those of the trajectories."""

        def of_pair(first: int, lag: int) -> Statistics:
            parts = []
            for numbers in (stored.mean, stored.squares, stored.low, stored.high):
                row = np.empty((1, width))
                self.pick(np.array([numbers]), first, lag, row)
                parts.append(row[0])
            lead = width - sum(field.components for field in self.state) - 1
            parts[1][lead] = 0  # the lead time has no spread within a pair
            return Statistics(stored.count, *(tuple(part.tolist()) for part in parts))

        return merge_statistics(of_pair(*place) for place in self.places)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": [field.to_json() for field in self.state]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Pairs:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place=PAIRS_OPTION)
