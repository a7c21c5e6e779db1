"""The numbers that decide claims: functions from the evidence of an experiment to `Measured`.

Ratios are of validation errors, as logarithms; on the test split they are measured besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from slipstream.models.variants import BASELINE, POINTWISE
from slipstream.reports.statistics.estimate import (
    Estimate,
    LogErrors,
    combine,
    log_ratio,
    share_of_gap,
    trend,
)
from slipstream.reports.study.evidence import (
    Evidence,
    Measured,
    at_the_longest,
    errors_of,
    length_text,
    ratio_on_test,
    scattering,
    seeds_text,
)
from slipstream.reports.study.settings import Group, Swept
from slipstream.reports.study.study_tables import GRID
from slipstream.runs.evaluation_file import LayerSlices

Measure = Callable[[Evidence], list[Measured]]
ATTENTION_FREE = "no-token-attention"
RISES = 1.1
"""A deeper model whose error is this many times that of a shallower one was not trained well."""
_LETTERS: dict[Swept, str] = {"slices": "G", "layers": "L", "steps": "steps"}


def ratio(
    group: Group, variant: str, base: str = BASELINE, usual: Sequence[Group] = ()
) -> Measured | None:
    """Errors of a variant over those of another."""
    samples = errors_of(group, (variant, base), usual)
    if samples is None:
        return None
    on_test = ratio_on_test(group, variant, base)
    return Measured(log_ratio(*samples), "", seeds_text(samples), on_test)


def ratio_of(variant: str, base: str = BASELINE) -> Measure:
    return at_the_longest(lambda group: ratio(group, variant, base))


def ratios_over(field: Swept, variant: str) -> Measure:
    """The ratio to the baseline in every group of a sweep of at least two."""

    def measure(evidence: Evidence) -> list[Measured]:
        groups = evidence.sweeps.get(field, ())
        if field == "layers":
            failed = untrained_depths(groups, variant)
            groups = [group for group in groups if group not in failed]
        usual = _usual(evidence, field)
        pairs = [(group, ratio(group, variant, usual=usual)) for group in groups]
        rows = [
            Measured(one.estimate, _place(group, field), one.seeds, one.on_test)
            for group, one in pairs
            if one is not None
        ]
        return rows if len(rows) > 1 else []

    return measure


def untrained_depths(groups: Sequence[Group], variant: str) -> list[Group]:
    """Groups of a sweep over depth in which a variant is much worse than with fewer layers.

    A deeper model can do all that a shallower one can, so that is a failure of the training and no
    limit of the variant: slice-once on Poisson has 0.33 with 2 layers and 0.59 with 8.
    """
    failed, best = [], math.inf
    for group in groups:
        row = group.row(variant)
        if row is None:
            continue
        if row.mean > RISES * best:
            failed.append(group)
        best = min(best, row.mean)
    return failed


def _usual(evidence: Evidence, field: Swept) -> list[Group]:
    """The groups of the sweep, that of the main group's size first; all are of one length."""
    groups = evidence.sweeps.get(field, ())
    return sorted(groups, key=lambda group: group.at(field) != evidence.main.at(field))


def _place(group: Group, field: Swept) -> str:
    return f"{_LETTERS[field]} = {group.at(field)}, {length_text(group)}"


@at_the_longest
def interaction(group: Group) -> Measured | None:
    """What removing the attention costs untied over what it costs tied.

    Zero, a ratio of 1, where the two changes have nothing to do with each other.
    """
    (tied, tied_free), (untied, untied_free) = GRID
    samples = errors_of(group, (untied_free, untied, tied_free, tied))
    if samples is None:
        return None
    factors = (1, -1, -1, 1)
    return Measured(combine(list(zip(factors, samples, strict=True))), "", seeds_text(samples))


@at_the_longest
def gap_closed_by_width(group: Group) -> Measured | None:
    """The share of the gap between mlp-only and the baseline that a wider mlp-only closes."""
    samples = errors_of(group, (POINTWISE, "mlp-only-wide", BASELINE))
    if samples is None or samples[0].mean <= samples[2].mean:
        return None
    return Measured(share_of_gap(*samples), "", seeds_text(samples))


@at_the_longest
def pressure_over_others(group: Group) -> Measured | None:
    """By which factor mlp-only is worse than the baseline in pressure, over that in another field.

    The two errors of one seed go up and down together, so their ratio is formed seed by seed.
    Errors of 0.4 and 0.4 without coupling, 0.1 and 0.2 with it: (0.4 / 0.4) / (0.1 / 0.2) = 2.
    """
    if group.failures().keys() & {POINTWISE, BASELINE}:
        return None
    errors = group.summaries("L1")
    names = [name for variant, name in errors if variant == BASELINE and name is not None]
    pressure = next((name for name in names if "pressure" in name), None)
    other = next((n for n in names if any(w in n for w in ("velocity", "shear", "traction"))), None)
    samples = []
    for variant in (POINTWISE, BASELINE):
        above, below = errors.get((variant, pressure)), errors.get((variant, other))
        if pressure is None or other is None or above is None or below is None:
            return None
        divisors = dict(zip(below.seeds, below.values, strict=True))
        pairs = zip(above.seeds, above.values, strict=True)
        quotients = [value / divisors[seed] for seed, value in pairs if divisors.get(seed)]
        if not quotients or min(quotients) <= 0:
            return None
        samples.append(LogErrors.of(quotients))
    samples = scattering([{BASELINE: samples[1], POINTWISE: samples[0]}], samples)
    return Measured(log_ratio(*samples), f"{pressure} over {other}", seeds_text(samples))


def trend_over_depth(variant: str) -> Measure:
    """The change of a variant's own error from the smallest depth to the largest."""

    def measure(evidence: Evidence) -> list[Measured]:
        points = [
            (group.at("layers"), error, group)
            for group in evidence.sweeps.get("layers", ())
            if variant not in group.failures() and (row := group.row(variant)) is not None
            for error in row.errors
        ]
        line = trend([math.log(one[0]) for one in points], [math.log(one[1]) for one in points])
        if line is None:
            return []
        depths = sorted({one[0] for one in points})
        where = f"L = {', '.join(map(str, depths))}, {length_text(points[0][2])}"
        return [Measured(line, where, f"{len(points)} runs")]

    return measure


def gap_closed_by_depth(evidence: Evidence) -> list[Measured]:
    """Frozen slices: the ratio to the baseline at the largest depth over that at the smallest."""
    usual = _usual(evidence, "layers")
    names = ("frozen-slice", BASELINE)
    groups = [
        (group, samples)
        for group in evidence.sweeps.get("layers", ())
        if (samples := errors_of(group, names, usual)) is not None
    ]
    if len(groups) < 2:
        return []
    (shallow, low), (deep, high) = groups[0], groups[-1]
    change = combine([(1, high[0]), (-1, high[1]), (-1, low[0]), (1, low[1])])
    depths = f"L = {deep.at('layers')} over {shallow.at('layers')}, {length_text(deep)}"
    return [Measured(change, depths, seeds_text([*high, *low]))]


def last_doubling(variant: str) -> Measure:
    """The error of a variant after the most steps over that after half of them.

    Both are trainings of their own, each with its own schedule.
    """

    def measure(evidence: Evidence) -> list[Measured]:
        groups = {group.steps: group for group in evidence.sweeps.get("steps", ())}
        for steps in sorted(groups, reverse=True):
            if steps % 2 or steps // 2 not in groups:
                continue
            after, before = groups[steps], groups[steps // 2]
            late = errors_of(after, (variant,), (before,))
            early = errors_of(before, (variant,), (after,))
            if late is None or early is None:
                continue
            other_data = after.data_hash != before.data_hash
            where = f"{steps:,} over {steps // 2:,} steps{', on other data' * other_data}"
            samples = [late[0], early[0]]
            return [Measured(log_ratio(*samples), where, seeds_text(samples))]
        return []

    return measure


@at_the_longest
def largest_noise(group: Group) -> Measured | None:
    """Largest relative standard deviation of the baseline's test errors over draws of points."""
    if BASELINE in group.failures():
        return None
    noises = [
        (number.relative_std, str(number.variable))
        for one in group.evaluations
        for number in one.numbers
        if (one.variant, number.measure) == (BASELINE, "L1") and number.relative_std is not None
    ]
    if not noises:
        return None
    largest, variable = max(noises)
    return Measured(Estimate(largest, 0.0), variable)


def first_layer_entropy(evidence: Evidence) -> list[Measured]:
    """Entropy of the baseline's first layer over ln G, the largest possible."""

    def of(layers: Sequence[LayerSlices]) -> float:
        return layers[0].mean("entropy") / layers[0].largest_entropy

    def measure(group: Group) -> Measured | None:
        shares = _of_slices(group, BASELINE, of)
        if shares is None:
            return None
        known = combine([(1, shares)])
        return Measured(known, "", seeds_text([shares]))

    return at_the_longest(measure)(evidence)


def last_layer(kind: str) -> Measure:
    """Slices in use, or a point's entropy, in the last layer: without attention over with it."""

    def of(layers: Sequence[LayerSlices]) -> float:
        return layers[-1].mean("effective" if kind == "effective" else "entropy")

    def measure(group: Group) -> Measured | None:
        pair = [_of_slices(group, variant, of) for variant in (ATTENTION_FREE, BASELINE)]
        samples = [one for one in pair if one is not None]
        if len(samples) < 2:
            return None
        return Measured(log_ratio(*samples), "", seeds_text(samples))

    return at_the_longest(measure)


def _of_slices(
    group: Group, variant: str, of: Callable[[Sequence[LayerSlices]], float]
) -> LogErrors | None:
    """A number of the slices of each seed; None where the variant failed or has no slices."""
    if variant in group.failures():
        return None
    evaluations = [one for one in group.evaluations if one.variant == variant and one.slices]
    values = [of(one.slices) for one in evaluations if one.slices[0].slices > 1]
    return LogErrors.of(values) if values and min(values) > 0 else None
