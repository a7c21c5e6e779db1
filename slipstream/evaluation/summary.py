"""Evaluations of several seeds as one: mean and spread of every number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """One number of a variant over its seeds."""

    experiment: str
    variant: str
    measure: str
    variable: str | None
    """None for the mean over groups."""
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    """Of each seed, the mean over its repeats."""
    noise: float | None
    """Largest relative standard deviation over the repeats of a seed; None without repeats."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Over the seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def name(self) -> str:
        return self.measure if self.variable is None else f"{self.measure} {self.variable}"


def summarise(evaluations: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """A summary of each experiment, variant and number, in the order they come.

    A number that a seed does not have, or that is not finite there, is left out for that seed.
    """
    found: dict[tuple[str, str, str, str | None], dict[int, Mapping[str, Any]]] = {}
    for row in evaluations:
        for number in row["numbers"]:
            if number["mean"] is not None:
                key = (row["experiment"], row["variant"], number["measure"], number["variable"])
                found.setdefault(key, {})[row["seed"]] = number
    return [
        Summary(
            *key,
            seeds=tuple(by_seed),
            values=tuple(number["mean"] for number in by_seed.values()),
            noise=_noise(by_seed.values()),
        )
        for key, by_seed in found.items()
    ]


def _noise(numbers: Iterable[Mapping[str, Any]]) -> float | None:
    known = [n["std"] / n["mean"] for n in numbers if n["std"] is not None and n["mean"]]
    return max(known, default=None)
