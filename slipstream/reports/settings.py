"""Runs in groups that may be compared: one experiment, one size of model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slipstream.evaluation.compare import Row, compare
from slipstream.evaluation.summary import Summary, summarise
from slipstream.models.variants import BASELINE, Size
from slipstream.reports.gather import RunData
from slipstream.runs.evaluation_file import Evaluation, Locality


@dataclass(frozen=True)
class Group:
    """Runs that differ in variant and seed alone."""

    experiment: str
    size: Size
    runs: tuple[RunData, ...]

    def rows(self) -> list[Row]:
        """Best validation error of each variant at equal steps."""
        return compare([run.curve for run in self.runs])

    def row(self, variant: str) -> Row | None:
        return next((row for row in self.rows() if row.variant == variant), None)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.variant for run in self.runs))

    @property
    def evaluations(self) -> list[Evaluation]:
        return [run.evaluation for run in self.runs if run.evaluation]

    @property
    def locality(self) -> Locality | None:
        """What the physics says of a pointwise answer, if it does."""
        return next((one.locality for one in self.evaluations if one.locality), None)

    def summaries(self, measure: str) -> dict[tuple[str, str | None], Summary]:
        """By variant and variable."""
        found = [s for s in summarise(self.evaluations) if s.measure == measure]
        return {(s.variant, s.variable): s for s in found}

    def first_seeds(self) -> list[Evaluation]:
        """Of each variant, the evaluation of its first seed that has one."""
        found: dict[str, Evaluation] = {}
        for one in self.evaluations:
            found.setdefault(one.variant, one)
        return list(found.values())


def main_groups(runs: Iterable[RunData]) -> list[Group]:
    """One for each experiment: the size that most variants were trained at."""
    groups = _all_groups(runs)
    names = dict.fromkeys(group.experiment for group in groups)
    return [
        max(
            (g for g in groups if g.experiment == name),
            key=lambda g: (len(g.variants), len(g.runs)),
        )
        for name in names
    ]


def sweep(runs: Sequence[RunData], field: str) -> list[list[Group]]:
    """For each experiment, the groups that differ in one field of the size, ascending.

    Only where there are at least two, among those with a baseline.
    """
    found = []
    for main in main_groups(runs):
        own = [
            group
            for group in _all_groups(runs)
            if group.experiment == main.experiment
            and BASELINE in group.variants
            and replace(group.size, **{field: 1}) == replace(main.size, **{field: 1})
        ]
        if len(own) > 1:
            found.append(sorted(own, key=lambda group: getattr(group.size, field)))
    return found


def _all_groups(runs: Iterable[RunData]) -> list[Group]:
    found: dict[tuple[str, Size], list[RunData]] = {}
    for run in runs:
        found.setdefault((run.config.experiment, run.size), []).append(run)
    return [Group(name, size, tuple(own)) for (name, size), own in found.items()]
