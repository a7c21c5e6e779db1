"""Claims of made-up runs, whose ratios, scatters and verdicts are known beforehand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from slipstream.reports.content import Table
from slipstream.reports.page.tables import cell_text
from slipstream.reports.statistics.estimate import Estimate
from slipstream.reports.study.claims import CLAIMS
from slipstream.reports.study.claims_table import claims_tables
from slipstream.reports.study.evidence import Measured, evidence_of
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.judgement import Judgement, judge, judge_all
from slipstream.reports.study.sweep_tables import sweep_table
from slipstream.runs.evaluation_file import LayerSlices, Number

from .. import made_data
from ..made_data import evaluation


def run(variant: str, error: float, *arguments: Any, **changes: Any) -> RunData:
    """Whose errors are percentages, as it were: of 1 and above a baseline would learn nothing."""
    return made_data.run(variant, error / 100, *arguments, **changes)


def seeds(variant: str, error: float, scatter: float = 0.01, **changes: Any) -> list[RunData]:
    """Three runs whose logarithms scatter by this standard deviation about that of `error`."""
    return [
        run(variant, error * math.exp(scatter * step), seed, **changes)
        for seed, step in enumerate((-1, 0, 1))
    ]


BASE = seeds("baseline", 1.0)


def judged(*runs: RunData) -> dict[str, list[Judgement]]:
    """By the first three words of the claim; claims without a number are left out."""
    own = judge_all(evidence_of(runs))
    return {" ".join(text.split()[:3]): rows for text, rows in own.items() if rows}


def one(runs: list[RunData], start: str) -> tuple[str, str]:
    """Verdict and answer of a claim that has one number."""
    (only,) = judged(*runs)[start]
    return only.words, only.answer


def table_of(runs: list[RunData]) -> Table:
    return claims_tables(runs)[0]


def row_of(table: Table, claim: str) -> dict[str, str]:
    """The texts of a row by column, the only one of a claim that begins so."""
    (row,) = (row for row in table.rows if row[0].text.startswith(claim))
    return dict(zip(table.columns, map(cell_text, row), strict=True))


@pytest.mark.parametrize(
    ("error", "scatter", "words", "answer"),
    [
        (1.02, 0.01, "equivalent", "holds"),
        (0.98, 0.01, "equivalent", "holds"),
        (0.7, 0.02, "better", "holds"),
        (1.3, 0.01, "worse", "does not hold here"),
        (1.12, 0.01, "different by 1.12", "undecided"),
        (0.95, 0.1, "undecided", "undecided"),
        (0.8, 0.1, "undecided", "holds"),
    ],
)
def test_the_attention_is_removable_where_removing_it_costs_nothing(
    error: float, scatter: float, words: str, answer: str
) -> None:
    """Better and equal are told apart and both hold; 0.8 with 10 % scatter is one of them."""
    runs = [*BASE, *seeds("no-token-attention", error, scatter)]
    assert one(runs, "Token attention is") == (words, answer)


def test_ratio_and_interval_are_those_of_the_logarithms() -> None:
    (own,) = judged(*BASE, *seeds("no-token-attention", 1.02))["Token attention is"]
    reach = 0.01 * math.sqrt(2 / 3) * 2.7764  # t of 4 degrees of freedom, 97.5 %
    assert own.value == pytest.approx(1.02)
    expected = [1.02 * math.exp(sign * reach) for sign in (-1, 1)]
    assert own.interval == pytest.approx(expected, rel=1e-4)
    assert own.against_paper == "0.974 to 1.079: inside" and own.seeds_needed == ""
    assert own.measured.seeds == "3 seeds each" and own.measured.where == "200 steps"


def test_a_single_seed_scatters_like_the_worst_of_its_group_and_says_so() -> None:
    """The baseline scatters by 1 %, the runs without attention by 8 %."""
    single = [*BASE, run("mlp-only", 1.3)]
    assert one(single, "The coupling is") == ("worse", "holds")
    wild = [*single, *seeds("no-token-attention", 1.0, 0.08)]
    assert one(wild, "The coupling is") == ("undecided", "undecided")
    (own,) = judged(*wild)["The coupling is"]
    assert own.measured.estimate.assumed == "no-token-attention's (8 %)"
    assert own.seeds_needed == "4"
    verdicts, numbers = claims_tables(single)
    assert row_of(verdicts, "The coupling")["verdict"] == "worse (assumed)"
    runs = row_of(numbers, "The coupling")["runs"]
    assert runs == "1 and 3 seeds; a single seed taken to scatter like baseline's (1 %)"


def test_one_seed_of_everything_decides_no_ratio() -> None:
    runs = [run(name, error) for name, error in (("baseline", 1), ("mlp-only", 9))]
    (own,) = judged(*runs)["The coupling is"]
    assert (own.verdict, own.answer, own.interval) == ("undecided", "undecided", None)
    assert own.seeds_needed == "unknown"
    assert claims_tables([run("mlp-only", 1.0)]) == [], "nothing to compare"


def test_verdicts_on_one_claim_share_their_level() -> None:
    """Alone 4 % decide; beside another that does not hold, 2.5 % are asked for."""
    attention = CLAIMS[0]
    close = Measured(Estimate(-0.0953 + 0.0400, 0.0187, 4))  # p = 0.05 x 0.9
    open_ = Measured(Estimate(0.1, 1.0, 4))
    assert judge(attention, [("a", close)])[0].answer == "holds"
    alone, both = judge(attention, [("a", close)]), judge(attention, [("a", close), ("b", open_)])
    assert (alone[0].level, both[0].level, both[1].level) == (0.05, 0.025, 0.05)


def test_the_grid_has_an_interaction() -> None:
    cells = {"baseline": 1.0, "no-token-attention": 1.1, "untied": 0.9}
    runs = [each for name, error in cells.items() for each in seeds(name, error)]
    both = [*runs, *seeds("untied-no-token-attention", 0.99)]
    assert one(both, "Tying and attention") == ("independent", "holds")
    assert one(both, "Attention is removable") == ("different by 1.1", "undecided"), "of the band"
    apart = [*runs, *seeds("untied-no-token-attention", 1.4)]
    (own,) = judged(*apart)["Tying and attention"]
    assert own.value == pytest.approx(1.4 / 0.9 / 1.1) and own.words == "dearer untied"
    assert "Tying and attention" not in judged(*runs)


def test_capacity_is_a_share_of_the_gap() -> None:
    narrow = [*BASE, *seeds("mlp-only", 4.0)]
    assert one([*narrow, *seeds("mlp-only-wide", 4.0)], "Capacity does not") == ("nothing", "holds")
    (own,) = judged(*narrow, *seeds("mlp-only-wide", 2.0))["Capacity does not"]
    assert own.value == pytest.approx(0.5) and own.answer == "does not hold here"
    assert "Capacity does not" not in judged(
        *BASE, *seeds("mlp-only", 0.9), run("mlp-only-wide", 1)
    )


def fields(variant: str, seed: int, pressure: float, other: float, name: str) -> RunData:
    errors = {"pressure": pressure, "wall_shear": other}
    return run(variant, 1.0, seed, name=name, evaluation=evaluation(variant, seed, **errors))


def test_pressure_is_compared_seed_by_seed_where_it_is_a_field_of_its_own() -> None:
    """Both errors are twice as large in one of the seeds: their ratio does not scatter."""

    def runs(name: str) -> list[RunData]:
        base = [fields("baseline", k, 0.1 * 2**k, (0.1 + 0.001 * k) * 2**k, name) for k in (0, 1)]
        return [*base, *(fields("mlp-only", k, 0.6 / 2**k, 0.4 / 2**k, name) for k in (0, 1))]

    (own,) = judged(*runs("stokes-surface"))["Pressure suffers more"]
    assert own.value == pytest.approx(1.5, rel=0.01) and (own.words, own.answer) == (
        "more",
        "holds",
    )
    table = table_of(runs("potential-flow-surface"))
    assert "Pressure suffers" not in str([row[0].text for row in table.rows])
    assert (
        "Pressure suffers more than velocity or wall shear: not asked on potential-flow-surface:"
        " there the pressure is a function of the velocity at the same point."
    ) in table.notes


def layers(variant: str, seed: int, last: tuple[float, float]) -> RunData:
    """Two layers of four slices: `last` are the entropy and the slices in use of the second."""
    first = LayerSlices("first", 4, (0.5,), (0.8 * math.log(4) * 1.001**seed,), (4.0,), (0,))
    second = LayerSlices(
        "last", 4, (0.5,), (last[0] * 1.001**seed,), (last[1] * 1.001**seed,), (0,)
    )
    noisy = replace(evaluation(variant, seed, 3, p=0.2), slices=(first, second))
    return run(variant, 1.0 + seed / 100, seed, evaluation=noisy)


def test_slices_of_first_and_last_layer_and_the_noise() -> None:
    runs = [layers("baseline", k, (1.0, 2.0)) for k in (0, 1, 2)]
    runs += [layers("no-token-attention", k, (0.9, 2.5)) for k in (0, 1, 2)]
    assert one(runs, "The first layer") == ("uneven", "does not hold here")
    assert one(runs, "Without attention the") == ("more", "holds")
    assert one(runs, "Without attention points") == ("lower", "holds")
    (noise,) = judged(*runs)["Subsampling noise is"]
    assert (noise.words, noise.interval, noise.value) == ("small", None, 0.01)
    worse = Number("L1", "u", (1.0,), 1.0, 0.03)
    numbers = replace(runs[0].evaluation, numbers=(worse,))  # type: ignore[type-var]
    noisiest = [replace(runs[0], evaluation=numbers), *runs[1:]]
    assert one(noisiest, "Subsampling noise is") == ("larger", "does not hold here")


def test_a_ratio_on_the_test_split_stands_beside() -> None:
    """Samples whose errors differ by a factor of 20, and 0.8 times as large in each."""

    def tested(variant: str, seed: int, factor: float) -> RunData:
        errors = {str(k): {"composite": factor * 0.01 * k * 1.01**seed} for k in range(1, 21)}
        whole = replace(evaluation(variant, seed, p=0.2), samples=errors)
        return run(variant, factor, seed, evaluation=whole)

    runs = [tested("baseline", k, 1.0) for k in (0, 1)]
    runs += [tested("no-token-attention", k, 0.8) for k in (0, 1)]
    (own,) = judged(*runs)["Token attention is"]
    assert own.measured.on_test is not None
    value, low, high = own.measured.on_test
    assert value == pytest.approx(0.8) and 0.79 < low < 0.8 < high < 0.81
    shown = row_of(claims_tables(runs)[1], "Token")["on test [95 %]"]
    assert shown.startswith("0.800× [0.79")


def swept(layers: int, **errors: float) -> list[RunData]:
    return [run(name.replace("_", "-"), error, layers=layers) for name, error in errors.items()]


def test_sweeps_have_a_row_for_every_place() -> None:
    usual = [*BASE, *seeds("no-token-attention", 1.0), run("mlp-only", 2.0)]
    usual += [run("slice-once", 2.0), run("frozen-slice", 1.05)]
    runs = [*usual]
    for slices, error in ((8, 1.3), (256, 1.0)):
        runs += [run("baseline", 1.0, slices=slices)]
        runs += [run("no-token-attention", error, slices=slices)]
    for depth, frozen in ((2, 1.3), (4, 1.2), (32, 1.0)):
        runs += swept(depth, baseline=1.0, mlp_only=2.0, slice_once=1.5, frozen_slice=frozen)
    own = judged(*runs)
    places = {each.measured.where: each.answer for each in own["It does not"]}
    assert places == {
        "G = 8, 200 steps": "does not hold here",
        "G = 16, 200 steps": "holds",
        "G = 256, 200 steps": "holds",
    }
    assert {each.answer for each in own["Predicted: the gap"]} == {"holds"}
    (closed,) = own["Predicted: depth closes"]
    assert closed.value == pytest.approx(1 / 1.3) and closed.measured.where.startswith(
        "L = 32 over 2"
    )
    assert closed.answer == "holds"


def test_a_deeper_model_that_is_worse_was_not_trained_and_shows_no_gap() -> None:
    """slice-once on Poisson: 1.13 times the baseline's with 2 layers, 2.3 times with 8."""
    runs = [*BASE]
    for depth, error in ((2, 1.3), (8, 2.6), (16, 2.7)):
        runs += swept(depth, baseline=1.1, mlp_only=3.0, slice_once=error)
    told = judge_all(evidence_of(runs))
    assert told["Predicted: the gap of slice-once persists at every depth"] == [], "one is no sweep"
    assert len(told["Predicted: the gap of mlp-only persists at every depth"]) == 3
    (note,) = (n for n in table_of(runs).notes if "depth" in n and "slice-once with L" in n)
    assert note.startswith(
        "Left out of the claims on depth: poisson, slice-once with L = 8, 16: its error is higher"
    )


def test_no_trend_with_depth_is_a_claim_of_its_own() -> None:
    """mlp-only stays as it is from 2 to 32 layers, the baseline halves its error."""
    depths, runs = (2, 4, 8, 16, 32), []
    for place, depth in enumerate(depths):
        wobble = 1 + 0.004 * (-1) ** place
        runs += swept(depth, baseline=2.0 * 2 ** (-place / 4) * wobble, mlp_only=5.0 * wobble)
    own = judged(*runs)
    (flat,) = own["Predicted: no trend"]
    assert (flat.words, flat.answer) == ("no trend", "holds") and flat.seeds_needed == ""
    assert flat.measured.where == "L = 2, 4, 8, 16, 32, 200 steps"
    (falls,) = own["Predicted: the baseline"]
    assert falls.value == pytest.approx(0.5, rel=0.02) and falls.answer == "holds"


def test_have_the_curves_flattened_is_the_last_doubling() -> None:
    flat = [*seeds("baseline", 1.0), *seeds("baseline", 0.99, steps=400)]
    assert one(flat, "The curves have") == ("flattened", "holds")
    falling = [*seeds("baseline", 1.0), *seeds("baseline", 0.7, steps=400)]
    assert one(falling, "The curves have") == ("still falling", "does not hold here")
    (own,) = judged(*falling)["The curves have"]
    assert own.measured.where == "400 over 200 steps"
    thirds = [*seeds("baseline", 1.0), *seeds("baseline", 0.7, steps=600)]
    assert "The curves have" not in judged(*thirds), "half of 600 was not run"


SHORT = [*BASE, *seeds("no-token-attention", 1.3), run("mlp-only", 3.0), run("untied", 1.0)]


def test_a_claim_is_decided_by_the_longest_training_of_its_variants() -> None:
    longer = [*seeds("baseline", 0.5, steps=400), *seeds("no-token-attention", 0.5, steps=400)]
    own = judged(*SHORT, *longer, run("baseline", 0.4, steps=800), run("mlp-only", 4.0, steps=800))
    (attention,), (coupling,) = own["Token attention is"], own["The coupling is"]
    assert (attention.words, attention.measured.where) == ("equivalent", "400 steps")
    assert coupling.measured.where == "200 steps", "fewer seeds of the baseline do not overrule"


def test_different_lengths_are_never_compared() -> None:
    """A schedule of 400 steps is in another place after 200 than one that ends there."""
    runs = [*BASE, run("mlp-only", 3.0), run("slice-once", 3.0, steps=400)]
    assert "The point stream" not in judged(*runs)
    assert (
        "Left out: poisson slice-once seed 0 was trained for 400 steps, the baseline for 200;"
        " different lengths are not compared."
    ) in table_of(runs).notes


def test_a_run_that_failed_to_train_is_no_evidence() -> None:
    runs = [*BASE, *seeds("no-token-attention", 1.0)]
    for slices, error in ((8, 110), (128, 1.0)):
        runs += [run("baseline", error, slices=slices), run("no-token-attention", 1, slices=slices)]
    table = table_of(runs)
    assert "G = 8," not in " ".join(cell_text(cell) for row in table.rows for cell in row)
    why = "baseline: it learned nothing: its best error is 1.1, that of predicting means 1."
    assert f"Left out: poisson, G = 8, L = 4, 200 steps, {why}" in table.notes
    noted = sweep_table(runs, "slices")
    assert noted is not None and noted.notes == (f"poisson, G = 8, {why}",)
    diverged = run("no-token-attention", 1.0)
    diverged = replace(diverged, curve=replace(diverged.curve, errors={100: 0.01, 200: 0.02}))
    assert "Token attention is" not in judged(*BASE, diverged)


def test_a_group_of_targets_that_was_not_learned_is_no_trend() -> None:
    """slice-once on Poisson: 1.00 in the field at every depth but 2 says nothing of depth."""
    once = run("slice-once", 65.0)
    groups = {200: {"potential": 0.3, "field": 1.0}}
    once = replace(once, curve=replace(once.curve, by_group=groups))
    assert "The point stream" not in judged(*seeds("baseline", 20), once)
    (note,) = (n for n in table_of([*BASE, *seeds("mlp-only", 3), once]).notes if "learn" in n)
    assert "slice-once: it did not learn field (error 1.00)" in note


def test_an_overfitted_run_counts_and_is_named() -> None:
    own = run("mlp-only", 3.0)
    curve = replace(own.curve, errors={100: 0.03, 200: 0.05}, losses={100: 0.03, 200: 0.001})
    runs = [*BASE, replace(own, curve=curve)]
    assert one(runs, "The coupling is") == ("worse", "holds")
    (note,) = (n for n in table_of(runs).notes if "overfits" in n)
    assert note.endswith("fell from 0.03 to 0.0155; the best error counts.")


def test_where_no_coupling_is_needed_nothing_can_be_told_apart() -> None:
    runs = [*BASE, *seeds("no-token-attention", 1.0), *seeds("mlp-only", 1.03)]
    assert one(runs, "The coupling is") == ("equivalent", "does not hold here")
    (note,) = (n for n in table_of(runs).notes if "without any coupling" in n)
    assert note.startswith("On poisson a model without any coupling counts as equal")


def test_a_failed_baseline_decides_nothing() -> None:
    runs = [*seeds("baseline", 97.6, 0.001), run("mlp-only", 97.5), run("no-token-attention", 97)]
    assert judged(*runs) == {}, "a constant at the median was seen to have 97.5"


def test_claims_without_a_run_are_named() -> None:
    table = table_of([*BASE, *seeds("mlp-only", 3.0)])
    assert table.notes[-1].startswith(
        "No run bears on: token attention is removable; the point str"
    )
    assert len({one.text for one in CLAIMS}) == len({one.what for one in CLAIMS}) == len(CLAIMS)
