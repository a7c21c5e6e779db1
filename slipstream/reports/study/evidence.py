"""The groups of runs that can decide a claim, and the errors of a variant in them.

A comparison takes place inside one group: same data and settings, and runs of one length. A single
seed says nothing of its scatter. It is taken to scatter like the variant of the same group whose
seeds scatter most, and whatever follows from that is marked as assumed; where no variant of the
group has several seeds, the scatter is unknown and so is every verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstream.models.variants import BASELINE, variant_or_default
from slipstream.reports.statistics.bootstrap import paired_interval
from slipstream.reports.statistics.estimate import Estimate, LogErrors
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, Swept, longer_groups, main_groups, sweep

Samples = Mapping[int, LogErrors]


@dataclass(frozen=True)
class Evidence:
    """The groups of runs of one experiment that can decide a claim."""

    main: Group
    longer: Sequence[Group]
    """Groups trained for longer than the main one, longest first. They may lack variants."""
    sweeps: Mapping[Swept, Sequence[Group]]
    """Groups that differ from the main one in a single size or in the steps, ascending."""
    other_lengths: Sequence[RunData] = ()
    """Runs of the main group that take no part, as their training was shorter or longer."""

    @property
    def experiment(self) -> str:
        return self.main.experiment


@dataclass(frozen=True)
class Measured:
    """A number that decides a claim, and where it comes from."""

    estimate: Estimate
    where: str = ""
    """Which runs, as "G = 8, 4,000 steps"."""
    seeds: str = ""
    """As "3 and 1 seeds"."""
    on_test: tuple[float, float, float] | None = None
    """The same ratio on the test split, and the interval of its bootstrap."""


def evidence_of(runs: Sequence[RunData]) -> list[Evidence]:
    """One for each experiment."""
    fields: tuple[Swept, ...] = ("slices", "layers", "steps")
    swept = {field: {g[0].experiment: g for g in sweep(runs, field)} for field in fields}
    return [
        Evidence(
            alike := of_one_length(main),
            [of_one_length(group) for group in longer_groups(runs, main)],
            {
                field: [of_one_length(group) for group in swept[field].get(main.experiment, [])]
                for field in fields
            },
            [run for run in main.compared if run.config.steps != alike.steps],
        )
        for main in main_groups(runs)
    ]


def of_one_length(group: Group) -> Group:
    """Its runs of the length that most runs of the baseline have; of all, where it has none.

    A schedule that ends later is in another place at equal steps, so lengths are never mixed.
    """
    baselines = [run for run in group.compared if run.variant == BASELINE] or group.compared
    counts = Counter(run.config.steps for run in baselines)
    steps = max(counts, key=lambda length: (counts[length], length))
    return replace(group, runs=tuple(run for run in group.runs if run.config.steps == steps))


def length_text(group: Group) -> str:
    return f"{group.compared_until:,} steps"


def errors_of(
    group: Group, variants: Iterable[str], usual: Sequence[Group] = ()
) -> list[LogErrors] | None:
    """The validation errors of each variant at equal steps.

    None where one was not run or failed to train, or a variant with coupling learned nothing. A
    single seed scatters like the variant of the group whose seeds scatter most; where there is none
    with several seeds, like that of the first of the `usual` groups that has one.
    """
    names, failures = list(variants), group.failures()
    rows = [group.row(name) for name in names]
    if failures.keys() & set(names) or any(row is None for row in rows):
        return None
    known = [row for row in rows if row is not None]
    if any(not row.learned for row in known if _couples(row.variant)):
        return None
    if any(min(row.errors) <= 0 for row in known):
        return None
    samples = [LogErrors.of(row.errors) for row in known]
    return scattering([_all_errors(one) for one in (group, *usual)], samples)


def scattering(
    usual: Sequence[Mapping[str, LogErrors]], samples: Sequence[LogErrors]
) -> list[LogErrors]:
    """The samples; a single error scatters like the one that scatters most in the first of `usual`
    that has several seeds of anything."""
    for errors in usual:
        several = {name: one for name, one in errors.items() if one.scatter is not None}
        if several:
            name = max(several, key=lambda one: several[one].scatter or 0.0)
            text = f"{name}'s ({100 * (several[name].scatter or 0.0):.2g} %)"
            return [
                one if one.scatter is not None else one.scattering_like(several[name], text)
                for one in samples
            ]
    return list(samples)


def _all_errors(group: Group) -> dict[str, LogErrors]:
    failures = group.failures()
    return {
        row.variant: LogErrors.of(row.errors)
        for row in group.rows()
        if row.variant not in failures and min(row.errors) > 0
    }


def _couples(variant: str) -> bool:
    return variant_or_default(variant).stream != "pointwise"


def seeds_text(samples: Sequence[LogErrors]) -> str:
    """As "3 seeds each", or "3 and 1 seeds"."""
    counts = [one.count for one in samples]
    if len(set(counts)) == 1:
        return f"{counts[0]} seed{'' if counts[0] == 1 else 's'} each"
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} seeds"


def ratio_on_test(group: Group, variant: str, base: str) -> tuple[float, float, float] | None:
    """The ratio of composite errors on the test split, over seeds and paired samples.

    None unless all were measured on the same samples with errors above zero.
    """
    tables = [_sample_errors(group, name) for name in (variant, base)]
    if not all(tables):
        return None
    names = set.intersection(*(set(errors) for table in tables for errors in table))
    shared = sorted(names)
    above, below = (
        np.array([[errors[name] for name in shared] for errors in table]) for table in tables
    )
    if not shared or not (above > 0).all() or not (below > 0).all():
        return None
    return paired_interval(above, below)


def _sample_errors(group: Group, variant: str) -> list[dict[str, float]]:
    """The composite error by sample, of each seed."""
    tables = []
    for one in group.evaluations:
        errors = {name: numbers.get("composite") for name, numbers in one.samples.items()}
        if one.variant == variant and errors:
            tables.append({name: error for name, error in errors.items() if error is not None})
    return tables


def at_the_longest(
    measure: Callable[[Group], Measured | None],
) -> Callable[[Evidence], list[Measured]]:
    """The number of the longest training that has one.

    With groups of 100,000, 50,000 and 20,000 steps (the main one), in this order.
    """

    def longest(evidence: Evidence) -> list[Measured]:
        for group in (*evidence.longer, evidence.main):
            measured = measure(group)
            if measured is not None:
                places = [measured.where, length_text(group)]
                return [replace(measured, where=", ".join(place for place in places if place))]
        return []

    return longest
