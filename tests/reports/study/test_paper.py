"""The paper's own tables through our rule: the verdicts must be the paper's sentences.

The paper has three seeds of the headline pair and one seed elsewhere. What it states is taken as it
is: the standard deviations of Table 1 with the rounding of their digits; a single seed scatters
like the one of the pair that scatters more on the same data set, as in our own studies.
"""

from __future__ import annotations

import math

import pytest

from slipstream.reports.statistics.estimate import Estimate, LogErrors, log_ratio
from slipstream.reports.study.claims import CLAIMS, Claim
from slipstream.reports.study.evidence import Measured, scattering
from slipstream.reports.study.judgement import Judgement, judge

from ..paper_tables import PRESSURE_L1, PRESSURE_L2, SEEDS, TABLE_1, cell

SUV_SCATTER = 0.0047
"""Of the baseline's three seeds on SHIFT-SUV surface, as the paper gives it for its grid."""


def claim(start: str) -> Claim:
    return next(one for one in CLAIMS if one.text.startswith(start))


def unit(number: str) -> float:
    """Of the last digit: 0.001 for "0.089"."""
    return float(10.0 ** -len(number.partition(".")[2]))


def printed(dataset: str, variant: str) -> LogErrors:
    mean, std = cell(dataset, variant)
    scatter = (float(std) or unit(std) / 2) if std else None
    return LogErrors.stated(float(mean), scatter, SEEDS if std else 1, unit=unit(mean))


def ratio(dataset: str, variant: str) -> Measured:
    pair = {name: printed(dataset, name) for name in ("baseline", "no-token-attention")}
    errors = scattering([pair], [printed(dataset, variant), pair["baseline"]])
    return Measured(log_ratio(*errors))


def judged(start: str, variant: str) -> dict[str, Judgement]:
    numbers = [(dataset, ratio(dataset, variant)) for dataset in TABLE_1]
    return {one.experiment: one for one in judge(claim(start), numbers)}


def test_the_token_attention_is_removable_on_all_nine() -> None:
    """ "matches Baseline everywhere": -2.6 % to +1.8 % on seven, +3.8 % and +7.9 % on two."""
    own = judged("Token attention is removable", "no-token-attention")
    assert len(own) == 9
    assert {one.verdict for one in own.values()} == {"equivalent"}
    assert {one.answer for one in own.values()} == {"holds"}
    costs = sorted(round(100 * (one.value - 1), 1) for one in own.values())
    assert (costs[0], costs[6:]) == (-2.6, [1.8, 3.8, 7.9])


def test_removing_the_coupling_costs_from_next_to_nothing_to_much() -> None:
    """ "costs 1.04 to 5.6 times", "negligible (1.04 times) on Taylor-Green"."""
    own = judged("The coupling is not removable", "mlp-only")
    vortex = own.pop("Taylor-Green")
    assert (vortex.verdict, vortex.answer) == ("equivalent", "does not hold here")
    assert {(one.verdict, one.answer) for one in own.values()} == {("above", "holds")}
    values = [vortex.value, *(one.value for one in own.values())]
    assert (round(min(values), 2), round(max(values), 1)) == (1.04, 5.6)


def test_slicing_once_is_not_enough_anywhere() -> None:
    """ "the worst variant on every benchmark, at 2.2 to 6.8 times"; Table 1 has 2.25 to 6.79."""
    own = judged("The point stream is not removable", "slice-once")
    assert {(one.verdict, one.answer) for one in own.values()} == {("above", "holds")}
    assert round(min(one.value for one in own.values()), 2) == 2.25


def test_frozen_slices_cost_a_little_mostly_in_volumes() -> None:
    """ "costs only -0.5 % to +17 %, mostly on the volume tasks" (the printed digits give -0.6 %).

    Nothing costs surely more than 10 %, nothing is better. Four are equivalent with one seed each;
    of the rest one seed does not decide, or decides that there is a cost but not how large.
    """
    own = judged("Slicing anew", "frozen-slice")
    costs = {name: round(100 * (one.value - 1), 1) for name, one in own.items()}
    assert (min(costs.values()), max(costs.values())) == (-0.6, 16.9)
    equal = {name for name, one in own.items() if one.verdict == "equivalent"}
    assert equal == {
        "Taylor-Green", "SHIFT-Wing surface", "DrivAerNet++ volume", "SHIFT-SUV surface"
    }  # fmt: skip
    assert max(costs[name] for name in equal) < 3
    rest = {name: one for name, one in own.items() if name not in equal}
    assert {one.verdict for one in rest.values()} <= {"different", "undecided"}
    assert all(one.seeds_needed for one in rest.values())


@pytest.mark.parametrize(("start", "effect"), [("Attention is removable untied", 0.0054),
                                               ("Tying and attention", -0.0041)])  # fmt: skip
def test_tying_has_nothing_to_do_with_it(start: str, effect: float) -> None:
    """ "both main effects (+0.54 %, -0.51 %) and their interaction (-0.41 %) are about one
    standard deviation": the interaction is of four cells of one seed each."""
    estimate = Estimate(math.log1p(effect), 2 * SUV_SCATTER, SEEDS - 1)
    (one,) = judge(claim(start), [("SHIFT-SUV surface", Measured(estimate))])
    assert (one.verdict, one.answer) == ("equivalent", "holds")


def test_it_does_not_depend_on_the_number_of_slices() -> None:
    """ "within 1.5 % at every G, within 1 % for any G >= 32": the largest that this allows."""
    error = SUV_SCATTER * math.sqrt(1 + 1 / SEEDS)
    ratios = [1.015, 1.01, 1.01, 1.01]
    rows = [("", Measured(Estimate(math.log(one), error, SEEDS - 1))) for one in ratios]
    own = judge(claim("It does not depend on"), rows)
    assert {(one.verdict, one.answer) for one in own} == {("equivalent", "holds")}


@pytest.mark.parametrize("table", [PRESSURE_L1, PRESSURE_L2], ids=["L1", "L2"])
def test_pressure_suffers_more_on_every_aerodynamic_benchmark(
    table: dict[str, tuple[tuple[float, float], tuple[float, float]]],
) -> None:
    """ "on every aerodynamic benchmark the pressure degrades more than the velocity or wall shear",
    1.8 to 14.8 times against 1.3 to 5.0 in L1.

    The paper states no scatter for these tables. The quotient of two errors of one run, which go up
    and down together, is taken to scatter like one error in Table 1.
    """
    rows = []
    for dataset, (pressure, other) in table.items():
        known = {name: printed(dataset, name) for name in ("baseline", "no-token-attention")}
        quotients = [LogErrors.of([pressure[k] / other[k]]) for k in (1, 0)]
        rows.append((dataset, Measured(log_ratio(*scattering([known], quotients)))))
    own = judge(claim("Pressure suffers more"), rows)
    assert len(own) == 8 and {(one.words, one.answer) for one in own} == {("more", "holds")}


def test_the_noise_of_subsampling_is_small() -> None:
    """ "at most 0.18 %"."""
    (one,) = judge(claim("Subsampling noise"), [("", Measured(Estimate(0.0018, 0.0)))])
    assert (one.words, one.answer) == ("small", "holds")


def test_one_seed_of_a_sentence_is_not_enough_for_our_rule() -> None:
    """Capacity: "recovers at most 3 % of the gap", DrivAerNet++ surface and volume, a seed each.

    In the volume, whose seeds scatter by 0.6 %, the rule says so too. On the surface they scatter
    by 2.6 %, the paper's sentence rests on one seed, and the rule leaves it undecided. The slices
    of the last layer, 20.4 against 15.4, are of one model each: no scatter, no verdict.
    """
    capacity = claim("Capacity does not")
    rows = []
    for dataset in ("DrivAerNet++ surface", "DrivAerNet++ volume"):
        free = printed(dataset, "no-token-attention").scatter
        scatter = max(printed(dataset, "baseline").scatter or 0, free or 0)
        gap = ratio(dataset, "mlp-only").estimate.value
        rows.append((dataset, Measured(Estimate(0.03, scatter * math.sqrt(2) / gap, SEEDS - 1))))
    assert [one.answer for one in judge(capacity, rows)] == ["undecided", "holds"]
    slices = Measured(log_ratio(LogErrors.of([20.4]), LogErrors.of([15.4])))
    (one,) = judge(claim("Without attention the last layer"), [("DrivAerML", slices)])
    assert (one.words, one.seeds_needed) == ("undecided", "unknown")
