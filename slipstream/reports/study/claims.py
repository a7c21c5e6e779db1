"""The paper's claims, each with the estimate that decides it, its error bar and a verdict.

A claim holds where the estimate lies on its side of the bound by two standard deviations, does not
hold where it lies on the other side by as much, and is undecided in between. A single seed is taken
to scatter like the baseline's seeds; where the baseline has one seed too, like those of the same
sweep; where there are none, the scatter is unknown and the claim undecided. Where some variants
were trained for longer than most, with as many seeds of the baseline, the longer runs decide.

A worked example. Two seeds of the baseline have the validation errors 0.0099 and 0.0101, two of
no-token-attention 0.0101 and 0.0103. Means 0.0100 and 0.0102, standard deviations 1.4 % of each:

    ratio     0.0102 / 0.0100          = 1.02
    its std   1.02 * hypot(1.4 %, 1.4 %) = 0.02
    verdict   at most 1.08, and 1.02 + 2 * 0.02 = 1.06 <= 1.08: holds

One seed of slice-once at 0.0106 borrows the baseline's 1.4 %: 1.06 +- 0.02, which must be at least
1.05. Neither 1.06 - 0.04 >= 1.05 nor 1.06 + 0.04 < 1.05: undecided.

To add a claim, write a function from `Evidence` to `Estimate | None` and an entry in `CLAIMS`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slipstream.evaluation.compare import Row
from slipstream.evaluation.summary import Summary
from slipstream.models.variants import BASELINE, POINTWISE
from slipstream.reports.content import Cell, Table
from slipstream.reports.study.cells import text_cell
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, Swept, longer_groups, main_groups, sweep
from slipstream.runs.evaluation_file import Evaluation

ATTENTION_FREE = "no-token-attention"
COSTS_LITTLE = 1.08
"""Largest ratio that the paper found without token attention."""
FROZEN_COSTS = 1.17
"""Largest ratio that the paper found with the slices of the first layer."""
COSTS_MUCH = 1.05
"""Smallest ratio that counts as a real loss. It is ours: the paper sets no such bound."""


@dataclass(frozen=True)
class Estimate:
    """A number that decides a claim, with its error bar."""

    value: float
    std: float | None = 0.0
    """0 where the number is not drawn at random, as within one run; None where it is unknown."""
    where: str = ""
    """Which runs it comes from, as "G = 8, 400 steps"; empty for the main group."""


@dataclass(frozen=True)
class Evidence:
    """The groups of runs of one experiment that can decide a claim."""

    main: Group
    longer: Sequence[Group]
    """Groups trained for longer than the main one, longest first. They may lack variants."""
    sweeps: dict[Swept, list[Group]]
    """Groups that differ from the main one in a single size or in the steps, ascending."""


def evidence_of(runs: Sequence[RunData]) -> list[Evidence]:
    """One for each experiment."""
    fields: tuple[Swept, ...] = ("slices", "layers", "steps")
    swept = {field: {g[0].experiment: g for g in sweep(runs, field)} for field in fields}
    return [
        Evidence(
            main,
            longer_groups(runs, main),
            {field: swept[field].get(main.experiment, []) for field in fields},
        )
        for main in main_groups(runs)
    ]


@dataclass(frozen=True)
class Claim:
    text: str
    what: str
    """What is estimated, in the words of the table's last column."""
    measure: Callable[[Evidence], Estimate | None]
    side: Literal["at most", "at least"]
    bound: float
    kind: Literal["ratio", "error"] = "ratio"

    def verdict(self, estimate: Estimate) -> str:
        if estimate.std is None:
            return "undecided"
        # The excess is negative on the claim's own side. "at least 1.05" with 1.30 +- 0.03: the
        # excess is -(1.30 - 1.05) = -0.25, and -0.25 + 2 * 0.03 = -0.19 <= 0: the claim holds.
        sign = 1 if self.side == "at most" else -1
        excess = sign * (estimate.value - self.bound)
        if excess + 2 * estimate.std <= 0:
            return "holds"
        return "does not hold here" if excess - 2 * estimate.std > 0 else "undecided"


def ratio(group: Group, variant: str, base: str = BASELINE) -> Estimate | None:
    """Mean validation error of a variant over that of `base`, with the scatter of both.

    None where one of the two was not run or failed to train, or where `base` has not learned more
    than a constant.
    """
    row, base_row = group.row(variant), group.row(base)
    if row is None or base_row is None or _failed(group, variant, base) or not base_row.learned:
        return None
    value = row.mean / base_row.mean
    # To first order the relative variances of a quotient of independent numbers add up.
    spread = _combined(_relative_std(one, group) for one in (row, base_row))
    return Estimate(value, _scaled(spread, abs(value)))


def _failed(group: Group, *variants: str) -> bool:
    """Whether a run of one of the variants failed to train: its error says nothing of it."""
    return bool(group.failures().keys() & set(variants))


def _relative_std(row: Row, group: Group) -> float | None:
    """Standard deviation over the mean; the baseline's where the variant has a single seed."""
    source = row if row.std is not None else group.row(BASELINE)
    return None if source is None or source.std is None else source.std / source.mean


def _combined(stds: Iterable[float | None]) -> float | None:
    """Standard deviation of a sum of independent numbers; None where one is unknown."""
    parts = list(stds)
    return None if None in parts else math.hypot(*(std for std in parts if std is not None))


def _scaled(std: float | None, factor: float) -> float | None:
    return None if std is None else std * factor


def _at_the_longest(
    measure: Callable[[Group], Estimate | None],
) -> Callable[[Evidence], Estimate | None]:
    """The estimate of the longest training that has one.

    With groups of 100,000, 50,000 and 20,000 steps (the main one), in this order.
    """

    def longest(evidence: Evidence) -> Estimate | None:
        for group in evidence.longer:
            estimate = measure(group)
            if estimate is not None:
                places = [estimate.where, _length(group)]
                return replace(estimate, where=", ".join(place for place in places if place))
        return measure(evidence.main)

    return longest


def _length(group: Group) -> str:
    return f"{group.compared_until:,} steps"


def _ratio_of(variant: str, base: str = BASELINE) -> Callable[[Evidence], Estimate | None]:
    return _at_the_longest(lambda group: ratio(group, variant, base))


_LETTERS: dict[Swept, str] = {"slices": "G", "layers": "L", "steps": "steps"}


def _swept_ratios(evidence: Evidence, field: Swept, variant: str) -> list[tuple[Group, Estimate]]:
    """The ratio to the baseline in every group of a sweep that has both.

    Where neither has several seeds the ratio gets the usual relative spread. With 2 % at G = 32, a
    ratio of 1.50 from one seed each at G = 8 becomes 1.50 +- 0.03.
    """
    groups = evidence.sweeps.get(field, ())
    ratios = [(group, estimate) for group in groups if (estimate := ratio(group, variant))]
    usual = _usual_spread(evidence, field, variant)
    return [
        (group, one if one.std is not None else replace(one, std=_scaled(usual, one.value)))
        for group, one in ratios
    ]


def _usual_spread(evidence: Evidence, field: Swept, variant: str) -> float | None:
    """Relative standard deviation of a ratio, from the first group that has several seeds.

    The groups of the sweep are asked first, beginning with the one of the main group's size; then
    the main group, which may have been trained for longer and scatter differently.
    """
    main, groups = evidence.main, evidence.sweeps.get(field, ())
    by_nearness = sorted(groups, key=lambda group: group.at(field) != main.at(field))
    for estimate in (ratio(group, variant) for group in (*by_nearness, main)):
        if estimate is not None and estimate.std is not None:
            return estimate.std / estimate.value
    return None


def _over_sweep(
    field: Swept, variant: str, pick: Callable[..., tuple[Group, Estimate]]
) -> Callable[[Evidence], Estimate | None]:
    """The largest (`pick` is max) or smallest (min) ratio of a sweep of at least two groups."""

    def measure(evidence: Evidence) -> Estimate | None:
        ratios = _swept_ratios(evidence, field, variant)
        if len(ratios) < 2:
            return None
        group, estimate = pick(ratios, key=lambda one: one[1].value)
        return replace(estimate, where=f"{_LETTERS[field]} = {group.at(field)}, {_length(group)}")

    return measure


def _gap_closed_by_depth(evidence: Evidence) -> Estimate | None:
    """Frozen slices: ratio at the largest depth over that at the smallest.

    1.20 at L = 2 and 1.08 at L = 8 give 0.90: depth has closed part of the gap.
    """
    ratios = _swept_ratios(evidence, "layers", "frozen-slice")
    if len(ratios) < 2:
        return None
    (shallow_group, shallow), (deep_group, deep) = ratios[0], ratios[-1]
    value = deep.value / shallow.value
    spread = _combined(_scaled(one.std, 1 / one.value) for one in (shallow, deep))
    depths = f"L = {deep_group.at('layers')} and {shallow_group.at('layers')}"
    return Estimate(value, _scaled(spread, value), f"{depths}, {_length(deep_group)}")


@_at_the_longest
def _share_of_gap(group: Group) -> Estimate | None:
    """The share of the gap between mlp-only and the baseline that a wider mlp-only closes.

    Errors of 0.03, 0.02 (wide) and 0.01 (baseline): (0.03 - 0.02) / (0.03 - 0.01) = 0.5. The gap
    counts as exact; only the numerator scatters.
    """
    names = ("mlp-only", "mlp-only-wide", BASELINE)
    rows = [group.row(name) for name in names]
    if any(row is None for row in rows) or _failed(group, *names):
        return None
    narrow, wide, base = (row for row in rows if row is not None)
    gap = narrow.mean - base.mean
    if gap <= 0 or not base.learned:
        return None
    spread = _combined(_scaled(_relative_std(row, group), row.mean) for row in (narrow, wide))
    return Estimate((narrow.mean - wide.mean) / gap, _scaled(spread, 1 / gap))


@_at_the_longest
def _pressure_over_velocity(group: Group) -> Estimate | None:
    """By which factor mlp-only is worse than the baseline in pressure, over that in velocity.

    The two errors of one seed go up and down together, so their ratio is formed seed by seed.
    Errors of 0.4 and 0.4 without coupling, 0.1 and 0.2 with it: (0.4 / 0.4) / (0.1 / 0.2) = 2.
    """
    if _failed(group, POINTWISE, BASELINE):
        return None
    errors = group.summaries("L1")
    names = [v for variant, v in errors if variant == BASELINE and v is not None]
    pressure, velocity = (next((n for n in names if w in n), "") for w in ("pressure", "velocity"))
    pointwise, base = (
        _seed_by_seed(errors.get((variant, pressure)), errors.get((variant, velocity)))
        for variant in (POINTWISE, BASELINE)
    )
    if not pointwise or not base:
        return None
    value = statistics.fmean(pointwise) / statistics.fmean(base)
    own, usual = _relative_spread(pointwise), _relative_spread(base)
    return Estimate(value, _scaled(_combined((usual if own is None else own, usual)), value))


def _seed_by_seed(above: Summary | None, below: Summary | None) -> list[float]:
    """The quotient of two errors for every seed that has both and whose divisor is not zero."""
    if above is None or below is None:
        return []
    divisors = dict(zip(below.seeds, below.values, strict=True))
    pairs = zip(above.seeds, above.values, strict=True)
    return [value / divisors[seed] for seed, value in pairs if divisors.get(seed)]


def _relative_spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None


def _of_baseline(evaluations: Sequence[Evaluation], group: Group) -> list[Evaluation]:
    """The baseline's evaluations; an empty list where it failed to train."""
    if _failed(group, BASELINE):
        return []
    return [one for one in evaluations if one.variant == BASELINE]


@_at_the_longest
def _largest_noise(group: Group) -> Estimate | None:
    """Largest relative standard deviation of the baseline's errors over draws of the points."""
    noises = [
        Estimate(number.relative_std, where=str(number.variable))
        for one in _of_baseline(group.evaluations, group)
        for number in one.numbers
        if number.measure == "L1" and number.relative_std is not None
    ]
    return max(noises, key=lambda one: one.value) if noises else None


@_at_the_longest
def _first_layer(group: Group) -> Estimate | None:
    """Entropy of the baseline's first layer over ln G, the largest possible: 1 is uniform."""
    for one in _of_baseline(group.first_seeds(), group):
        if one.slices and one.slices[0].slices > 1:  # With one slice ln G is 0.
            layer = one.slices[0]
            return Estimate(layer.mean("entropy") / layer.largest_entropy)
    return None


CLAIMS = (
    Claim(
        "Token attention is removable",
        "error of no-token-attention over the baseline's",
        _ratio_of(ATTENTION_FREE),
        "at most",
        COSTS_LITTLE,
    ),
    Claim(
        "The coupling is not removable",
        "error of mlp-only over the baseline's",
        _ratio_of("mlp-only"),
        "at least",
        COSTS_MUCH,
    ),
    Claim(
        "The point stream is not removable",
        "error of slice-once over the baseline's",
        _ratio_of("slice-once"),
        "at least",
        COSTS_MUCH,
    ),
    Claim(
        "Slicing anew in every layer gains little",
        "error of frozen-slice over the baseline's",
        _ratio_of("frozen-slice"),
        "at most",
        FROZEN_COSTS,
    ),
    Claim(
        "Tying has nothing to do with it: attention is removable untied too",
        "error of untied-no-token-attention over that of untied",
        _ratio_of("untied-no-token-attention", "untied"),
        "at most",
        COSTS_LITTLE,
    ),
    Claim(
        "It does not depend on the number of slices",
        "largest error of no-token-attention over the baseline's with the same G",
        _over_sweep("slices", ATTENTION_FREE, max),
        "at most",
        COSTS_LITTLE,
    ),
    Claim(
        "Capacity does not repair it",
        "share of the gap of mlp-only that mlp-only-wide closes",
        _share_of_gap,
        "at most",
        0.1,
        "error",
    ),
    Claim(
        "Pressure suffers more than velocity",
        "test error of mlp-only over the baseline's, that of pressure over that of velocity",
        _pressure_over_velocity,
        "at least",
        1.0,
    ),
    Claim(
        "Subsampling noise is small",
        "largest relative standard deviation of the baseline's test errors over draws of points",
        _largest_noise,
        "at most",
        0.01,
        "error",
    ),
    Claim(
        "The first layer spreads its points almost evenly over the slices",
        "mean entropy of the baseline's first layer over ln G",
        _first_layer,
        "at least",
        0.95,
        "error",
    ),
    Claim(
        "Predicted: the gap of mlp-only persists at every depth",
        "smallest error of mlp-only over the baseline's with the same L",
        _over_sweep("layers", "mlp-only", min),
        "at least",
        COSTS_MUCH,
    ),
    Claim(
        "Predicted: the gap of slice-once persists at every depth",
        "smallest error of slice-once over the baseline's with the same L",
        _over_sweep("layers", "slice-once", min),
        "at least",
        COSTS_MUCH,
    ),
    Claim(
        "Predicted: depth closes the gap of frozen slices",
        "frozen-slice over the baseline: the ratio at the largest L over that at the smallest",
        _gap_closed_by_depth,
        "at most",
        1.0,
    ),
)


def claims_table(runs: Sequence[RunData]) -> Table | None:
    """A row for each claim and experiment that bears on it; a note names the other claims."""
    evidence, rows, untested = evidence_of(runs), [], []
    for claim in CLAIMS:
        claim_rows = []
        for one in evidence:
            estimate = claim.measure(one)
            if estimate is not None and math.isfinite(estimate.value):
                claim_rows.append(_row(claim, one.main.experiment, estimate))
        rows += claim_rows
        if not claim_rows:
            untested.append(claim.text[0].lower() + claim.text[1:])
    if not rows:
        return None
    caption = (
        "The number that decides each claim, with one standard deviation; it holds where the number"
        " is on its side of the bound by two of them, and is undecided within two. A single seed is"
        " taken to scatter like the baseline's; where that has one seed too, like those of the same"
        " sweep, or else the claim is undecided. Where steps are given, the runs were trained for"
        " so long; elsewhere for as long as those in the table of validation errors. Bounds: 1.08"
        " and 1.17 are the largest costs that the paper reports for these two, the others are ours."
    )
    notes = (f"No run bears on: {'; '.join(untested)}.",) if untested else ()
    columns = ("claim", "experiment", "verdict", "number", "must be", "which number")
    return Table("claims", "The paper's claims", caption, columns, tuple(rows), notes)


def _row(claim: Claim, experiment: str, estimate: Estimate) -> tuple[Cell, ...]:
    what = f"{claim.what} ({estimate.where})" if estimate.where else claim.what
    return (
        text_cell(claim.text),
        text_cell(experiment),
        text_cell(claim.verdict(estimate)),
        Cell(estimate.value, estimate.std or None, kind=claim.kind),
        text_cell(f"{claim.side} {claim.bound:g}"),
        text_cell(what),
    )
