"""The paper's claims, each with the number that bears on it, its error bar and a verdict.

A claim holds where the number lies on its side of the bound by two standard deviations, does not
hold where it lies on the other side by as much, and is undecided in between. A single seed is taken
to scatter like the baseline's seeds; where that has one seed too, like those of the same sweep, and
where there are none the scatter is unknown and the claim undecided. Where some variants were
trained for longer than most, with as many seeds of the baseline, a claim on these is decided there.
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
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, Swept, longer_groups, main_groups, sweep
from slipstream.reports.study.study_tables import words
from slipstream.runs.evaluation_file import Evaluation

ATTENTION_FREE = "no-token-attention"
COSTS_LITTLE = 1.08
"""Largest ratio that the paper found without token attention."""
FROZEN_COSTS = 1.17
"""Largest ratio that the paper found with the slices of the first layer."""
COSTS_MUCH = 1.05


@dataclass(frozen=True)
class Number:
    value: float
    std: float | None = 0.0
    """0 where the number is not drawn at random, as within one run; None where it is unknown."""
    where: str = ""


@dataclass(frozen=True)
class Evidence:
    """What there is of one experiment."""

    main: Group
    longer: Sequence[Group]
    """Trained for longer, longest first; of some of its variants."""
    sweeps: dict[Swept, list[Group]]


def evidence_of(runs: Sequence[RunData]) -> list[Evidence]:
    """Of each experiment."""
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
    """The number that decides it."""
    measure: Callable[[Evidence], Number | None]
    side: Literal["at most", "at least"]
    bound: float
    kind: Literal["ratio", "error"] = "ratio"

    def verdict(self, number: Number) -> str:
        if number.std is None:
            return "undecided"
        sign = 1 if self.side == "at most" else -1
        above = sign * (number.value - self.bound)  # negative on the claim's own side
        if above + 2 * number.std <= 0:
            return "holds"
        return "does not hold here" if above - 2 * number.std > 0 else "undecided"


def ratio(group: Group, variant: str, base: str = BASELINE) -> Number | None:
    """Of validation errors, with the spread of both; none where one of them failed to train.

    Nor where what it is compared with has not learned more than a constant.
    """
    row, over = group.row(variant), group.row(base)
    if row is None or over is None or _failed(group, variant, base) or not over.learned:
        return None
    value = row.mean / over.mean
    spread = _together(_share(one, group) for one in (row, over))
    return Number(value, _scaled(spread, abs(value)))


def _failed(group: Group, *variants: str) -> bool:
    """Whether one of them failed to train, and so decides nothing."""
    return bool(group.failures().keys() & set(variants))


def _share(row: Row, group: Group) -> float | None:
    """Standard deviation over the mean; the baseline's where there is one seed alone."""
    own = row if row.std is not None else group.row(BASELINE)
    return None if own is None or own.std is None else own.std / own.mean


def _together(stds: Iterable[float | None]) -> float | None:
    """Of independent numbers; None where one is unknown."""
    known = list(stds)
    return None if None in known else math.hypot(*(std for std in known if std is not None))


def _scaled(std: float | None, factor: float) -> float | None:
    return None if std is None else std * factor


def _at_the_longest(
    measure: Callable[[Group], Number | None],
) -> Callable[[Evidence], Number | None]:
    """The number of the longest training that has one."""

    def found(evidence: Evidence) -> Number | None:
        for group in evidence.longer:
            number = measure(group)
            if number is not None:
                places = [number.where, _length(group)]
                return replace(number, where=", ".join(place for place in places if place))
        return measure(evidence.main)

    return found


def _length(group: Group) -> str:
    return f"{group.compared_until:,} steps"


def _ratio_of(variant: str, base: str = BASELINE) -> Callable[[Evidence], Number | None]:
    return _at_the_longest(lambda group: ratio(group, variant, base))


_LETTERS: dict[Swept, str] = {"slices": "G", "layers": "L", "steps": "steps"}


def _swept_ratios(evidence: Evidence, field: Swept, variant: str) -> list[tuple[Group, Number]]:
    """At every place of a sweep that has one; where the spread is unknown, with the usual one."""
    groups = evidence.sweeps.get(field, ())
    known = [(group, number) for group in groups if (number := ratio(group, variant))]
    usual = _usual_spread(evidence, field, variant)
    return [
        (group, one if one.std is not None else replace(one, std=_scaled(usual, one.value)))
        for group, one in known
    ]


def _usual_spread(evidence: Evidence, field: Swept, variant: str) -> float | None:
    """Standard deviation over the mean of a ratio, where several seeds tell it.

    That of the sweep itself at the main group's place, or at another; else the main group's, which
    may have been trained for longer and scatter otherwise.
    """
    main, groups = evidence.main, evidence.sweeps.get(field, ())
    first = sorted(groups, key=lambda group: group.at(field) != main.at(field))
    for number in (ratio(group, variant) for group in (*first, main)):
        if number is not None and number.std is not None:
            return number.std / number.value
    return None


def _over_sweep(
    field: Swept, variant: str, pick: Callable[..., tuple[Group, Number]]
) -> Callable[[Evidence], Number | None]:
    """The largest or smallest ratio of a sweep."""

    def measure(evidence: Evidence) -> Number | None:
        found = _swept_ratios(evidence, field, variant)
        if len(found) < 2:
            return None
        group, number = pick(found, key=lambda one: one[1].value)
        return replace(number, where=f"{_LETTERS[field]} = {group.at(field)}, {_length(group)}")

    return measure


def _gap_closed_by_depth(evidence: Evidence) -> Number | None:
    """Frozen slices: ratio at the largest depth over that at the smallest."""
    found = _swept_ratios(evidence, "layers", "frozen-slice")
    if len(found) < 2:
        return None
    (least, low), (most, high) = found[0], found[-1]
    value = high.value / low.value
    spread = _together(_scaled(one.std, 1 / one.value) for one in (low, high))
    where = f"L = {most.at('layers')} and {least.at('layers')}, {_length(most)}"
    return Number(value, _scaled(spread, value), where)


@_at_the_longest
def _share_of_gap(group: Group) -> Number | None:
    """How much of what mlp-only lacks a wider one makes up for."""
    names = ("mlp-only", "mlp-only-wide", BASELINE)
    rows = [group.row(name) for name in names]
    if any(row is None for row in rows) or _failed(group, *names):
        return None
    narrow, wide, base = (row for row in rows if row is not None)
    gap = narrow.mean - base.mean
    if gap <= 0 or not base.learned:
        return None
    spread = _together(_scaled(_share(row, group), row.mean) for row in (narrow, wide))
    return Number((narrow.mean - wide.mean) / gap, _scaled(spread, 1 / gap))


@_at_the_longest
def _pressure_over_velocity(group: Group) -> Number | None:
    """The ratio mlp-only over baseline of the pressure, over that of the velocity.

    Of one seed the two go up and down together: their ratio is formed seed by seed.
    """
    if _failed(group, POINTWISE, BASELINE):
        return None
    errors = group.summaries("L1")
    names = [v for variant, v in errors if variant == BASELINE and v is not None]
    pressure, velocity = (next((n for n in names if w in n), "") for w in ("pressure", "velocity"))
    bare, base = (
        _seed_by_seed(errors.get((variant, pressure)), errors.get((variant, velocity)))
        for variant in (POINTWISE, BASELINE)
    )
    if not bare or not base:
        return None
    value = statistics.fmean(bare) / statistics.fmean(base)
    own, usual = _relative_spread(bare), _relative_spread(base)
    return Number(value, _scaled(_together((usual if own is None else own, usual)), value))


def _seed_by_seed(over: Summary | None, under: Summary | None) -> list[float]:
    """The ratio of two numbers, of every seed that has both."""
    if over is None or under is None:
        return []
    below = dict(zip(under.seeds, under.values, strict=True))
    pairs = zip(over.seeds, over.values, strict=True)
    return [value / below[seed] for seed, value in pairs if below.get(seed)]


def _relative_spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None


def _of_baseline(evaluations: Sequence[Evaluation], group: Group) -> list[Evaluation]:
    """None where it failed to train."""
    if _failed(group, BASELINE):
        return []
    return [one for one in evaluations if one.variant == BASELINE]


@_at_the_longest
def _largest_noise(group: Group) -> Number | None:
    """Largest relative standard deviation of the baseline's errors over draws of the points."""
    found = [
        Number(number.relative_std, where=str(number.variable))
        for one in _of_baseline(group.evaluations, group)
        for number in one.numbers
        if number.measure == "L1" and number.relative_std is not None
    ]
    return max(found, key=lambda one: one.value) if found else None


@_at_the_longest
def _first_layer(group: Group) -> Number | None:
    """Entropy of the first layer over the largest possible, of the baseline."""
    for one in _of_baseline(group.first_seeds(), group):
        if one.slices and one.slices[0].slices > 1:
            layer = one.slices[0]
            return Number(layer.mean("entropy") / layer.largest_entropy)
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
    """Every claim that some experiment bears on; those that none does are named in a note."""
    evidence, rows, silent = evidence_of(runs), [], []
    for claim in CLAIMS:
        own = []
        for one in evidence:
            number = claim.measure(one)
            if number is not None and math.isfinite(number.value):
                own.append(_row(claim, one.main.experiment, number))
        rows += own
        if not own:
            silent.append(claim.text[0].lower() + claim.text[1:])
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
    notes = (f"No run bears on: {'; '.join(silent)}.",) if silent else ()
    columns = ("claim", "experiment", "verdict", "number", "must be", "which number")
    return Table("claims", "The paper's claims", caption, columns, tuple(rows), notes)


def _row(claim: Claim, experiment: str, number: Number) -> tuple[Cell, ...]:
    what = f"{claim.what} ({number.where})" if number.where else claim.what
    return (
        words(claim.text),
        words(experiment),
        words(claim.verdict(number)),
        Cell(number.value, number.std or None, kind=claim.kind),
        words(f"{claim.side} {claim.bound:g}"),
        words(what),
    )
