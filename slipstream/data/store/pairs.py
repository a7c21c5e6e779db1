"""Trajectories read as pairs of states: a state, and the one some states later.

On disk a sample is a trajectory, coords | parameters | state 0 | state 1 | ...; batches hold pairs,
coords | state, lead time, parameters | later state, which would take many times the space on disk.
Parameters, such as a viscosity, belong to the trajectory and need not be there. The option "pairs"
marks a source of trajectories. With 3 states and the lags 1 and 2 a trajectory has three pairs:
states 0 and 1, 0 and 2, 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.core.schemas import YOUNGER, parsed
from slipstream.data.store.fields import Field, Schema
from slipstream.data.store.statistics import Statistics, merge_statistics

PAIRS_OPTION = "pairs"
"""The option of a store's origin that holds a `Pairs` as JSON."""
LATER = "later_"
"""What the name of a target begins with; the rest is the name of the state's field."""
LEAD_TIME = "lead_time"
"""The feature that says how much later."""


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
    parameters: tuple[Field, ...] = field(default=(), metadata=YOUNGER)
    """What a trajectory keeps from its first state to its last; older stores have none."""

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
            replace(one, name=f"{one.name}@{k}") for k in range(self.states) for one in self.state
        )
        return Schema(coords, self.parameters, tuple(states))

    def seen(self, coords: tuple[Field, ...]) -> Schema:
        """The columns of a pair."""
        later = (replace(one, name=f"{LATER}{one.name}") for one in self.state)
        features = (*self.state, Field(LEAD_TIME, self.unit), *self.parameters)
        return Schema(coords, features, tuple(later))

    def names(self, trajectory: str) -> list[str]:
        """The ids of a trajectory's pairs."""
        return [f"{trajectory}-{first:02d}-{lag:02d}" for first, lag in self.places]

    def pick(self, rows: NDArray[Any], first: int, lag: int, out: NDArray[Any]) -> None:
        """Copy the rows of a pair, taken from those of its trajectory, into `out`."""
        width, parameters = self._width, sum(one.components for one in self.parameters)
        lead = self._lead(out.shape[1])
        coords = lead - width
        now, later = (coords + parameters + width * k for k in (first, first + lag))
        out[:, :coords] = rows[:, :coords]
        out[:, coords:lead] = rows[:, now : now + width]
        out[:, lead] = lag * self.step
        out[:, lead + 1 : -width] = rows[:, coords : coords + parameters]
        out[:, -width:] = rows[:, later : later + width]

    @property
    def _width(self) -> int:
        """Columns of a state."""
        return sum(one.components for one in self.state)

    def _lead(self, width: int) -> int:
        """The column of the lead time among the `width` columns of a pair."""
        return width - self._width - sum(one.components for one in self.parameters) - 1

    def statistics(self, stored: Statistics, width: int) -> Statistics:
        """The statistics of all pairs, `width` columns each, from those of the trajectories."""

        def of_pair(first: int, lag: int) -> Statistics:
            parts = []
            for numbers in (stored.mean, stored.squares, stored.low, stored.high):
                row = np.empty((1, width))
                self.pick(np.array([numbers]), first, lag, row)
                parts.append(row[0])
            parts[1][self._lead(width)] = 0  # the lead time has no spread within a pair
            return Statistics(stored.count, *(tuple(part.tolist()) for part in parts))

        return merge_statistics(of_pair(*place) for place in self.places)

    def to_json(self) -> dict[str, Any]:
        """As JSON; `parameters` are absent where there are none, as in older stores."""
        value = asdict(self) | {"state": [one.to_json() for one in self.state]}
        del value["parameters"]
        names = [one.to_json() for one in self.parameters]
        return value | ({"parameters": names} if names else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Pairs:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place=PAIRS_OPTION)
