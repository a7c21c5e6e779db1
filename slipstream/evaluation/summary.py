"""Evaluations of several seeds as one: mean and spread of every number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from slipstream.runs.evaluation_file import Evaluation, Number, number_name


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
    """The mean over the repeats, of each seed."""
    noise: float | None
    """Largest relative standard deviation over the repeats of a seed; None without repeats."""
    draw_std: float | None
    """Standard deviation over the repeats, the mean over the seeds; None without repeats."""
    draw_relative_std: float | None
    """Standard deviation over the repeats by their mean; mean over the seeds, None without."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation over the seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def name(self) -> str:
        return number_name(self.measure, self.variable)


def summarise(evaluations: Iterable[Evaluation]) -> list[Summary]:
    """A summary of each experiment, variant and number, in the order they come.

    A number that a seed does not have, or that is not finite there, is left out for that seed. Of
    two evaluations of a seed the last counts.
    """
    numbers: dict[tuple[str, str, str, str | None], dict[int, Number]] = {}
    last = {(one.experiment, one.variant, one.seed): one for one in evaluations}
    for one in last.values():
        for number in one.numbers:
            if number.mean is not None:
                key = (one.experiment, one.variant, number.measure, number.variable)
                numbers.setdefault(key, {})[one.seed] = number
    return [
        Summary(
            *key,
            seeds=tuple(by_seed),
            values=tuple(n.mean for n in by_seed.values() if n.mean is not None),
            noise=max(_known(n.relative_std for n in by_seed.values()), default=None),
            draw_std=_mean(n.std for n in by_seed.values()),
            draw_relative_std=_mean(n.relative_std for n in by_seed.values()),
        )
        for key, by_seed in numbers.items()
    ]


def definition_of(evaluation: Evaluation, measure: str) -> str:
    """What the number of a seed is: a mean. Older records define mean and spread together."""
    text = evaluation.definitions.get(measure, "")
    return text.replace("mean and standard deviation over", "mean over")


def left_out_text(evaluation: Evaluation) -> list[str]:
    """A sentence for the numbers that leave samples out, because there is nothing to divide by."""
    numbers: dict[int, list[str]] = {}
    for name, count in evaluation.left_out.items():
        numbers.setdefault(count, []).append(name)
    total, sentences = len(evaluation.samples), []
    for count, names in numbers.items():
        means = "not measured" if count == total else f"mean over {total - count} samples only"
        normalised = any(name.startswith("composite") for name in names)
        once = " (for composite, once normalised)" if normalised else ""
        sentences.append(
            f"{', '.join(names)}: {means}; the truth is zero{once} at every point of {count} of"
            f" {total} samples."
        )
    return sentences


def spread_text(summaries: Iterable[Summary]) -> str:
    """What ± means, if a number has it; else nothing."""
    several = any(summary.std is not None for summary in summaries)
    return "±: standard deviation over the seeds." if several else ""


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return statistics.fmean(known) if known else None
