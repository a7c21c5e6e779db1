"""Runs in groups that may be compared: one experiment, one value of every setting, one length.

A worked example. A study of `poisson` has these runs, all on the same data and settings:

    A   baseline and mlp-only, seeds 0 and 1    G = 32, L = 8     20,000 steps    4 runs
    B   baseline and mlp-only, seed 0           G = 8,  L = 8     20,000 steps    2 runs
    C   baseline, seeds 0 and 1                 G = 32, L = 8    100,000 steps    2 runs

A, B and C are one `Group` each. `main_groups` gives A (as many variants as B, more runs, and more
variants than C), `sweep(runs, "slices")` gives [B, A], and `longer_groups` gives [C], as it has as
many seeds of the baseline as A. Without seed 1 of C there would be none: a single baseline of
100,000 steps does not overrule two of 20,000.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstream.core.configs import overlay
from slipstream.evaluation.compare import Row, compare
from slipstream.evaluation.summary import Summary, summarise
from slipstream.models.variants import BASELINE, Size
from slipstream.reports.study.gather import SIZES, RunData
from slipstream.runs.evaluation_file import Evaluation, Locality
from slipstream.runs.sweep import depends_on, short_name

Swept = str
"""One of the names in `RunData.settings`, as "slices" or "optim.learning_rate"; or "steps"."""
STEPS = "steps"


@dataclass(frozen=True)
class Group:
    """Runs that differ in variant and seed only, of all that an error depends on.

    `RunData.settings` lists what must be equal. Runs of different lengths share a group only where
    no group of their own length is free for them; `rows` then compares all at equal steps.
    """

    experiment: str
    size: Size
    runs: tuple[RunData, ...]

    @property
    def steps(self) -> int:
        return self.runs[0].config.steps

    @property
    def data_hash(self) -> str | None:
        """None where no run recorded it."""
        return next((run.data_hash for run in self.runs if run.data_hash), None)

    def at(self, field: Swept) -> Any:
        """The group's value of what a sweep varies, as 32 for "slices"."""
        return self.steps if field == STEPS else self.runs[0].settings[field]

    @property
    def finished(self) -> bool:
        """Whether at least one of its runs has finished."""
        return any(run.curve.finished for run in self.runs)

    @property
    def compared(self) -> tuple[RunData, ...]:
        """Its finished runs; all of them where none has finished."""
        return tuple(run for run in self.runs if run.curve.finished) or self.runs

    @property
    def compared_until(self) -> int:
        """The step up to which its errors are compared; 0 where there are no errors."""
        return max((row.step for row in self.rows()), default=0)

    def rows(self) -> list[Row]:
        """Best validation error of each variant at equal steps, of the runs that are compared."""
        return compare([run.curve for run in self.runs])

    def failures(self) -> dict[str, str]:
        """How each variant failed of which a run diverged or learned nothing, by variant."""
        failures, some_finished = {}, self.finished
        for curve in (run.curve for run in self.runs):
            # A run that still trains beside finished ones may learn yet, but a divergence counts.
            still_training = some_finished and not curve.finished
            failure = curve.divergence if still_training else curve.failure
            if failure:
                failures[curve.variant] = failure
        return failures

    def row(self, variant: str) -> Row | None:
        return next((row for row in self.rows() if row.variant == variant), None)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.variant for run in self.runs))

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of the runs that are compared."""
        return [run.evaluation for run in self.compared if run.evaluation]

    @property
    def locality(self) -> Locality | None:
        """What the exact solution says about pointwise answers, where the problem has one."""
        return next((one.locality for one in self.evaluations if one.locality), None)

    def summaries(self, measure: str) -> dict[tuple[str, str | None], Summary]:
        """The summaries of one measure, by variant and variable."""
        summaries = [s for s in summarise(self.evaluations) if s.measure == measure]
        return {(s.variant, s.variable): s for s in summaries}

    def first_seeds(self) -> list[Evaluation]:
        """For each variant, the evaluation of its first seed that has one."""
        by_variant: dict[str, Evaluation] = {}
        for one in self.evaluations:
            by_variant.setdefault(one.variant, one)
        return list(by_variant.values())


def main_groups(runs: Iterable[RunData]) -> list[Group]:
    """One group for each experiment: the size and length at which most variants were trained."""
    groups = _all_groups(runs)
    names = dict.fromkeys(group.experiment for group in groups)
    return [
        max(
            (g for g in groups if g.experiment == name),
            # Finished variants count first, so that a longer study that has just begun, with all
            # its variants but none finished, does not displace one that is complete.
            key=lambda g: (_finished_variants(g), len(g.variants), len(g.runs), g.steps),
        )
        for name in names
    ]


def _finished_variants(group: Group) -> int:
    return len({run.variant for run in group.runs if run.curve.finished})


def longer_groups(runs: Iterable[RunData], main: Group) -> list[Group]:
    """Groups that differ from the main one by a longer training only, longest first.

    Each has at least one finished run and at least as many runs of the baseline as the main group.
    """
    seeds = _baselines(main)
    longer = [
        group
        for group in _all_groups(runs)
        if _differ_in("steps", group, main)
        and group.steps > main.steps
        and group.finished
        and _baselines(group) >= max(1, seeds)
    ]
    return sorted(longer, key=lambda group: group.steps, reverse=True)


def _baselines(group: Group) -> int:
    return sum(run.variant == BASELINE for run in group.compared)


def swept_settings(runs: Sequence[RunData]) -> list[Swept]:
    """What sweeps of these runs may be of: slices, layers, the fields of studies, steps."""
    of_studies = (short_name(field) for run in runs[:1] for field in run.swept_fields)
    return [name for name in dict.fromkeys((*SIZES, *of_studies)) if name != STEPS] + [STEPS]


def sweep(runs: Sequence[RunData], field: Swept) -> list[list[Group]]:
    """For each experiment, the groups that differ from the main one in `field` only, ascending.

    An experiment with fewer than two such groups is left out. A group needs a baseline, if any has
    one; groups without a finished run count only where no group has one. Sizes may have been swept
    at another length than the main group's, provided that the main group's size was trained for
    that length too: with a main group of G = 32 at 100,000 steps, G = 8, 32 and 64 at 20,000 steps
    are a sweep.
    """
    all_groups = [group for group in _all_groups(runs) if group.rows()]
    groups = [group for group in all_groups if group.row(BASELINE) is not None] or all_groups
    sweeps = []
    for main in main_groups(runs):
        alike = [group for group in groups if _differ_in(field, group, main)]
        alike = [group for group in alike if group.finished] or alike
        # Of two groups with the same value, the dictionaries below keep the last: the main group,
        # else the one with more variants, else the one with more runs.
        alike.sort(key=lambda group: (group == main, len(group.variants), len(group.runs)))
        if field == STEPS:
            by_value = [{group.steps: group for group in alike}]
        else:
            lengths = sorted({group.steps for group in alike}, reverse=True)
            by_value = [{g.at(field): g for g in alike if g.steps == steps} for steps in lengths]
            by_value = [groups_at for groups_at in by_value if main.at(field) in groups_at]
        # Lengths descend and `max` keeps the first: of two equally wide sweeps, the longer one.
        widest = max(by_value, key=len, default={})
        if len(widest) > 1:
            sweeps.append([widest[value] for value in sorted(widest, key=_ascending)])
    return sweeps


def further_sweeps(runs: Sequence[RunData], field: Swept) -> list[list[Group]]:
    """The sweeps of a field at other values of the other fields that studies sweep.

    Of a grid of layers 2, 4 and key_ratio 1, 4 with the main group at (2, 1), those of layers are
    the one at key_ratio 4; `sweep` has the one at key_ratio 1.
    """
    others = {short_name(f) for run in runs[:1] for f in run.swept_fields} - {field, STEPS}
    lines: dict[str, dict[Any, Group]] = {}
    for main in main_groups(runs):
        for group in _all_groups(runs):
            apart = {n for n, v in group.runs[0].settings.items() if v != main.at(n)} - {field}
            same_steps = field == STEPS or group.steps == main.steps
            if group.experiment == main.experiment and apart and apart <= others and same_steps:
                place = f"{main.experiment} {[(name, group.at(name)) for name in sorted(others)]}"
                lines.setdefault(place, {})[group.at(field)] = group
    return [
        [line[v] for v in sorted(line, key=_ascending)] for line in lines.values() if len(line) > 1
    ]


def _ascending(value: Any) -> tuple[int, float, str]:
    """The order of the values of a setting: null, numbers by size, then texts."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value))


def on_other_data(runs: Sequence[RunData], field: Swept) -> list[Group]:
    """Groups of a sweep with other data than the sweep's group of the main group's value."""
    mains = {main.experiment: main for main in main_groups(runs)}
    others = []
    for groups in sweep(runs, field):
        main = mains[groups[0].experiment]
        usual = next((g for g in groups if g.at(field) == main.at(field)), main).data_hash
        if usual is not None:
            others += [group for group in groups if group.data_hash not in (usual, None)]
    return others


def swept_variants(groups: Sequence[Group]) -> set[str]:
    """The variants with an error in more than one group of a sweep."""
    variants = [row.variant for group in groups for row in group.rows()]
    return {variant for variant in variants if variants.count(variant) > 1}


def _differ_in(field: Swept, group: Group, main: Group) -> bool:
    """Whether two groups are equal but for `field`; the steps may differ in any sweep."""
    one, other = (
        {name: value for name, value in g.runs[0].settings.items() if name != field}
        for g in (group, main)
    )
    return group.experiment == main.experiment and one == other


def _all_groups(runs: Iterable[RunData]) -> list[Group]:
    """Every run in exactly one group, in the order of the runs.

    A run joins a group of its experiment and size that has neither its variant and seed already nor
    other data or settings: one of its own length if there is one, else the first. So baselines of
    20,000 and of 100,000 steps, both of seed 0, open two groups, and an mlp-only of 100,000 steps
    joins the second.
    """
    by_size: dict[tuple[str, Size], list[list[RunData]]] = {}
    for run in _at_all_values(list(runs)):
        groups = by_size.setdefault((run.config.experiment, run.size), [])
        free = [members for members in groups if not any(_apart(run, other) for other in members)]
        if not free:
            groups.append([run])
            continue
        as_long = (members for members in free if members[0].config.steps == run.config.steps)
        next(as_long, free[0]).append(run)
    return [
        Group(name, size, tuple(members))
        for (name, size), groups in by_size.items()
        for members in groups
    ]


def _at_all_values(runs: Sequence[RunData]) -> list[RunData]:
    """The runs, and copies of some with other values of fields on which they do not depend.

    In a study of baseline and untied-ln with key_ratio 1 and 4, each baseline was trained once, and
    has both values: it is compared with untied-ln at each.
    """
    for field in (field for run in runs[:1] for field in run.swept_fields):
        values: dict[str, dict[Any, None]] = {}
        for run in runs:
            if depends_on(run.variant, field):
                values.setdefault(run.config.experiment, {})[_value(run, field)] = None
        runs = [
            one
            for run in runs
            for one in (
                [run]
                if depends_on(run.variant, field)
                else _copies(run, field, values.get(run.config.experiment, {}))
            )
        ]
    return list(runs)


def _value(run: RunData, field: str) -> Any:
    return run.config.steps if field == STEPS else run.settings[short_name(field)]


def _copies(run: RunData, field: str, values: Collection[Any]) -> list[RunData]:
    """The run with each of the values; as it is where there are none."""
    own = _value(run, field)
    return [
        run if value == own else replace(run, config=overlay(run.config, {field: value}))
        for value in values or (own,)
    ]


def _apart(one: RunData, other: RunData) -> bool:
    """Whether two runs cannot share a group: same variant and seed, other data or settings."""
    data_hashes = {run.data_hash for run in (one, other)} - {None}
    same_cell = (one.variant, one.config.seed) == (other.variant, other.config.seed)
    return same_cell or len(data_hashes) > 1 or one.settings != other.settings
