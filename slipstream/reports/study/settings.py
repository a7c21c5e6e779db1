"""Runs in groups that may be compared: one experiment, one size of model, one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slipstream.evaluation.compare import Row, compare
from slipstream.evaluation.summary import Summary, summarise
from slipstream.models.variants import BASELINE, Size
from slipstream.reports.study.gather import RunData
from slipstream.runs.evaluation_file import Evaluation, Locality

Swept = Literal["slices", "layers", "steps"]


@dataclass(frozen=True)
class Group:
    """Runs that differ in variant and seed alone, or also in their steps where they had to.

    That is of all that a result follows from: see `RunData.settings`.
    """

    experiment: str
    size: Size
    runs: tuple[RunData, ...]

    @property
    def steps(self) -> int:
        return self.runs[0].config.steps

    @property
    def data_hash(self) -> str | None:
        """None where no run of it says."""
        return next((run.data_hash for run in self.runs if run.data_hash), None)

    def at(self, field: Swept) -> int:
        return self.steps if field == "steps" else getattr(self.size, field)

    @property
    def finished(self) -> bool:
        """Whether some of its runs are."""
        return any(run.curve.finished for run in self.runs)

    @property
    def compared(self) -> tuple[RunData, ...]:
        """Its finished runs; all of them where none is."""
        return tuple(run for run in self.runs if run.curve.finished) or self.runs

    @property
    def compared_until(self) -> int:
        """The step that its errors are of; 0 where there is none."""
        return max((row.step for row in self.rows()), default=0)

    def rows(self) -> list[Row]:
        """Best validation error of each variant at equal steps, of the runs that are compared."""
        return compare([run.curve for run in self.runs])

    def failures(self) -> dict[str, str]:
        """Variants a run of which diverged or learned nothing, and what it did.

        One that is not compared may learn yet.
        """
        curves, some = [run.curve for run in self.runs], self.finished
        told = [(c.variant, c.divergence if some and not c.finished else c.failure) for c in curves]
        return {variant: what for variant, what in told if what}

    def row(self, variant: str) -> Row | None:
        return next((row for row in self.rows() if row.variant == variant), None)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.variant for run in self.runs))

    @property
    def evaluations(self) -> list[Evaluation]:
        """Of the runs that are compared."""
        return [run.evaluation for run in self.compared if run.evaluation]

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
    """One for each experiment: size and length that most variants were trained at, or longest.

    Variants that finished count before those that have not.
    """
    groups = _all_groups(runs)
    names = dict.fromkeys(group.experiment for group in groups)
    return [
        max(
            (g for g in groups if g.experiment == name),
            key=lambda g: (_finished_variants(g), len(g.variants), len(g.runs), g.steps),
        )
        for name in names
    ]


def _finished_variants(group: Group) -> int:
    return len({run.variant for run in group.runs if run.curve.finished})


def longer_groups(runs: Iterable[RunData], main: Group) -> list[Group]:
    """Those like the main one that were trained for longer, of as many baselines; longest first.

    One that has not finished decides nothing yet.
    """
    seeds = _baselines(main)
    found = [
        group
        for group in _all_groups(runs)
        if _differ_in("steps", group, main)
        and group.steps > main.steps
        and group.finished
        and _baselines(group) >= max(1, seeds)
    ]
    return sorted(found, key=lambda group: group.steps, reverse=True)


def _baselines(group: Group) -> int:
    return sum(run.variant == BASELINE for run in group.compared)


def sweep(runs: Sequence[RunData], field: Swept) -> list[list[Group]]:
    """For each experiment, the groups that differ from the main one in this alone, ascending.

    Only where there are at least two, among those with a baseline and, where some are finished,
    among these. Sizes may have been swept at another length than the main one's, where that one's
    size has been trained for too.
    """
    groups = [group for group in _all_groups(runs) if group.row(BASELINE) is not None]
    found = []
    for main in main_groups(runs):
        alike = [group for group in groups if _differ_in(field, group, main)]
        alike = [group for group in alike if group.finished] or alike
        # Of two at one place the main one counts, or that of more variants: the last.
        alike.sort(key=lambda group: (group == main, len(group.variants), len(group.runs)))
        if field == "steps":
            swept = [{group.steps: group for group in alike}]
        else:
            lengths = sorted({group.steps for group in alike}, reverse=True)
            swept = [{g.at(field): g for g in alike if g.steps == steps} for steps in lengths]
            swept = [own for own in swept if main.at(field) in own]
        best = max(swept, key=len, default={})
        if len(best) > 1:
            found.append([best[value] for value in sorted(best)])
    return found


def on_other_data(runs: Sequence[RunData], field: Swept) -> list[Group]:
    """Groups of a sweep whose data are not those of the one at the main group's place."""
    mains = {main.experiment: main for main in main_groups(runs)}
    found = []
    for groups in sweep(runs, field):
        main = mains[groups[0].experiment]
        usual = next((g for g in groups if g.at(field) == main.at(field)), main).data_hash
        if usual is not None:
            found += [group for group in groups if group.data_hash not in (usual, None)]
    return found


def swept_variants(groups: Sequence[Group]) -> set[str]:
    """Those that were run at more than one value, and are compared there."""
    found = [row.variant for group in groups for row in group.rows()]
    return {variant for variant in found if found.count(variant) > 1}


def _differ_in(field: Swept, group: Group, main: Group) -> bool:
    if group.experiment != main.experiment or group.runs[0].settings != main.runs[0].settings:
        return False
    if field == "steps":
        return group.size == main.size
    return group.size == replace(main.size, **{field: group.at(field)})


def _all_groups(runs: Iterable[RunData]) -> list[Group]:
    """A second run of the same variant and seed belongs to another group: that of its length.

    Runs on other data or with other settings are never in one group.
    """
    found: dict[tuple[str, Size], list[list[RunData]]] = {}
    for run in runs:
        groups = found.setdefault((run.config.experiment, run.size), [])
        free = [own for own in groups if not any(_apart(run, other) for other in own)]
        if not free:
            groups.append([run])
            continue
        as_long = (own for own in free if own[0].config.steps == run.config.steps)
        next(as_long, free[0]).append(run)
    return [
        Group(name, size, tuple(own)) for (name, size), groups in found.items() for own in groups
    ]


def _apart(one: RunData, other: RunData) -> bool:
    """Whether two runs cannot be in one group: the same cell again, other data or settings."""
    known = {run.data_hash for run in (one, other)} - {None}
    same_cell = (one.variant, one.config.seed) == (other.variant, other.config.seed)
    return same_cell or len(known) > 1 or one.settings != other.settings
