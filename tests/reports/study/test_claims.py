from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.claims import CLAIMS, Claim, Estimate, claims_table
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.sweep_tables import sweep_table
from slipstream.runs.evaluation_file import LayerSlices, Number

from .. import made_data
from ..made_data import evaluation


def run(variant: str, error: float, *arguments: Any, **changes: Any) -> RunData:
    """Whose errors are percentages, as it were: of 1 and above a baseline would learn nothing."""
    return made_data.run(variant, error / 100, *arguments, **changes)


BASE = [run("baseline", 0.99), run("baseline", 1.01, 1)]  # which scatters by 1.4 %


def verdicts(*runs: RunData) -> dict[str, tuple[str, str]]:
    """Number and verdict by the first words of the claim."""
    table = claims_table(runs)
    if table is None:
        return {}
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    return {" ".join(row[0].split()[:3]): (row[3], row[2]) for row in rows}


def claim(side: str, bound: float) -> Claim:
    return Claim("", "", lambda evidence: None, side, bound)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("side", "value", "std", "verdict"),
    [
        ("at most", 0.9, 0.04, "holds"),
        ("at most", 0.9, 0.06, "undecided"),
        ("at most", 1.1, 0.06, "undecided"),
        ("at most", 1.1, 0.04, "does not hold here"),
        ("at most", 1.0, 0.0, "holds"),
        ("at least", 1.1, 0.04, "holds"),
        ("at least", 1.1, 0.06, "undecided"),
        ("at least", 0.9, 0.04, "does not hold here"),
        ("at least", 2.0, None, "undecided"),
    ],
)
def test_a_verdict_wants_two_standard_deviations(
    side: str, value: float, std: float | None, verdict: str
) -> None:
    assert claim(side, 1.0).verdict(Estimate(value, std)) == verdict


def test_attention_coupling_and_stream() -> None:
    found = verdicts(
        *BASE,
        run("no-token-attention", 1.01),
        run("no-token-attention", 1.03, 1),
        run("mlp-only", 3.0),
        run("slice-once", 1.06),
        run("frozen-slice", 1.3),
    )
    assert found["Token attention is"] == ("1.02 ± 0.02×", "holds")
    assert found["The coupling is"] == ("3.00 ± 0.06×", "holds"), "scatters like the baseline"
    assert found["The point stream"] == ("1.06 ± 0.02×", "undecided")
    assert found["Slicing anew in"][1] == "does not hold here"
    assert "Tying has nothing" not in found


def test_one_seed_of_everything_decides_no_ratio() -> None:
    runs = [run("baseline", 1.0), run("no-token-attention", 1.0), run("frozen-slice", 1.0)]
    runs += [run("mlp-only", 2.0), run("mlp-only-wide", 2.0), run("slice-once", 2.0)]
    for size in ({"slices": 8}, {"layers": 2}):
        runs += [run(each.variant, 1.0, **size) for each in runs[:6]]
    found = verdicts(*runs)
    assert {verdict for _, verdict in found.values()} == {"undecided"}
    assert {"Token attention is", "Capacity does not", "It does not"} <= found.keys()
    assert found["The coupling is"] == ("2.00×", "undecided"), "without an error bar"
    seeds = [run("untied", 2.0, seed) for seed in (0, 1)]
    seeds += [run("untied-no-token-attention", 2.0, seed) for seed in (0, 1)]
    assert verdicts(*runs, *seeds)["Tying has nothing"] == ("1.00×", "holds")


def test_tying_compares_the_untied_with_the_untied() -> None:
    found = verdicts(*BASE, run("untied", 2.0), run("untied-no-token-attention", 2.02))
    assert found["Tying has nothing"] == ("1.01 ± 0.02×", "holds")


def test_capacity_is_the_share_of_the_gap() -> None:
    found = verdicts(*BASE, run("mlp-only", 3.0), run("mlp-only-wide", 2.0))
    spread = math.hypot(3, 2) * math.hypot(0.01, 0.01) / 2  # the baseline's 1.4 %, over the gap
    assert found["Capacity does not"][0] == f"0.500 ± {spread:.2f}"
    assert found["Capacity does not"][1] == "does not hold here"
    assert "Capacity does not" not in verdicts(
        *BASE, run("mlp-only", 0.9), run("mlp-only-wide", 1.0)
    )


def test_pressure_and_velocity() -> None:
    errors = {"pressure_coefficient": 0.1, "surface_velocity": 0.2}
    worse = {"pressure_coefficient": 0.4, "surface_velocity": 0.4}
    found = verdicts(
        run("baseline", 1.0, evaluation=evaluation("baseline", **errors)),
        run("mlp-only", 2.0, evaluation=evaluation("mlp-only", **worse)),
    )
    assert found["Pressure suffers more"] == ("2.00×", "undecided"), "of one seed"
    other = evaluation("baseline", 1, pressure_coefficient=0.12, surface_velocity=0.2)
    found = verdicts(
        run("baseline", 1.0, evaluation=evaluation("baseline", **errors)),
        run("baseline", 1.0, 1, evaluation=other),
        run("mlp-only", 2.0, evaluation=evaluation("mlp-only", **worse)),
    )
    spread = 0.1 / math.sqrt(2) / 0.55 * math.sqrt(2) * 1.82  # of 0.5 and 0.6, twice
    assert found["Pressure suffers more"] == (f"1.82 ± {spread:.1f}×", "holds")
    fields = evaluation("baseline", potential=0.1)
    assert "Pressure suffers more" not in verdicts(run("baseline", 1.0, evaluation=fields))


def test_pressure_over_velocity_is_formed_seed_by_seed() -> None:
    """Both are twice as large in one of the seeds: their ratio does not scatter."""

    def seed(variant: str, seed: int, pressure: float, velocity: float) -> RunData:
        errors = {"pressure": pressure, "velocity": velocity}
        return run(variant, 1.0, seed, evaluation=evaluation(variant, seed, **errors))

    base = [seed("baseline", 0, 0.1, 0.1), seed("baseline", 1, 0.2, 0.2)]
    bare = [seed("mlp-only", 0, 0.44, 0.4), seed("mlp-only", 1, 0.22, 0.2)]
    for others in (bare[:1], bare):
        assert verdicts(*base, *others)["Pressure suffers more"] == ("1.10×", "holds")
    wide = [bare[0], seed("mlp-only", 1, 0.26, 0.2)]
    found = verdicts(*base, *wide)["Pressure suffers more"]
    assert found == ("1.20 ± 0.1×", "undecided"), "of 1.1 and 1.3"


def test_noise_and_entropy() -> None:
    layer = LayerSlices("first", 4, (0.5,), (0.8 * math.log(4),), (4.0,), (0,))
    noisy = replace(evaluation("baseline", 0, 3, p=0.2), slices=(layer,))
    found = verdicts(run("baseline", 1.0, evaluation=noisy))
    assert found["Subsampling noise is"] == ("0.0100", "holds")
    worse = replace(noisy, numbers=(*noisy.numbers, Number("L1", "u", (1.0,), 1.0, 0.03)))
    noisiest = verdicts(run("baseline", 1.0, evaluation=worse))
    assert noisiest["Subsampling noise is"] == ("0.0300", "does not hold here")
    assert found["The first layer"] == ("0.800", "does not hold here")


def test_sweeps() -> None:
    runs = [*BASE, run("no-token-attention", 1.0), run("mlp-only", 2.0), run("frozen-slice", 1.1)]
    for slices, error in ((8, 1.2), (256, 0.9)):
        runs += [run("baseline", 1.0, slices=slices)]
        runs += [run("no-token-attention", error, slices=slices)]
    for layers, error in ((2, 1.2), (16, 1.01)):
        runs += [run("baseline", 1.0, layers=layers), run("mlp-only", 1.5, layers=layers)]
        runs += [run("frozen-slice", error, layers=layers)]
    found = verdicts(*runs)
    assert found["It does not"] == ("1.20 ± 0.02×", "does not hold here")
    table = claims_table(runs)
    assert table is not None
    (closed,) = (row[3] for row in table.rows if "closes" in row[0].text)
    scatter = math.sqrt(2) * 0.01 / 1.0  # of two seeds, 0.99 and 1.01
    assert closed.std == pytest.approx(1.01 / 1.2 * 2 * scatter)  # of four numbers
    said = next(cell_text(r[5]) for r in table.rows if "number of" in r[0].text)
    assert said.endswith("with the same G (G = 8, 200 steps)")
    by_claim = {row[0].text: cell_text(row[3]) for row in table.rows}
    assert by_claim["Predicted: the gap of mlp-only persists at every depth"] == "1.50 ± 0.03×"
    assert by_claim["Predicted: depth closes the gap of frozen slices"] == "0.842 ± 0.02×"
    assert table.notes == (
        "No run bears on: the point stream is not removable; tying has nothing to do with it:"
        " attention is removable untied too; capacity does not repair it; pressure suffers more"
        " than velocity; subsampling noise is small; the first layer spreads its points almost"
        " evenly over the slices; predicted: the gap of slice-once persists at every depth.",
    )


def swept(steps: int, seeds: int, scatter: float) -> list[RunData]:
    """Depths of 2 and 16 with one seed, and the usual one with more."""
    runs = [run("slice-once", 1.5, steps=steps), run("frozen-slice", 1.1, steps=steps)]
    for seed in range(seeds):
        runs += [run("baseline", 1.0 + scatter * (-1) ** seed, seed, steps=steps)]
    for layers in (2, 16):
        given = {"layers": layers, "steps": steps}
        runs += [run("baseline", 1.0, **given), run("slice-once", 1.13, **given)]
        runs += [run("frozen-slice", 1.0 + 1 / layers, **given)]
    return runs


def main(scatter: float) -> list[RunData]:
    """Of 400 steps."""
    made = [run("baseline", 0.5 + scatter * (-1) ** seed, seed, steps=400) for seed in (0, 1)]
    names = ("no-token-attention", "mlp-only", "untied", "slice-once", "frozen-slice")
    return made + [run(name, 0.6, steps=400) for name in names]


def test_a_sweep_scatters_like_its_own_seeds() -> None:
    """Those of the main table, of another length, scatter by 14 %."""
    table = claims_table([*main(0.05), *swept(200, 2, 0.01)])
    assert table is not None
    found = {row[0].text: row for row in table.rows}
    once = found["Predicted: the gap of slice-once persists at every depth"]
    share = math.sqrt(2) * 0.01 * math.sqrt(2)  # of the baseline's two seeds, twice
    assert once[3].std == pytest.approx(1.13 * share) and once[2].text == "holds"
    frozen = found["Predicted: depth closes the gap of frozen slices"]
    value = (1 + 1 / 16) / 1.5
    assert frozen[3].value == pytest.approx(value)
    assert frozen[3].std == pytest.approx(value * share * math.sqrt(2))
    assert cell_text(once[5]).endswith("with the same L (L = 2, 200 steps)")
    odd = [run("baseline", 1.0 + 0.3 * k, k, steps=200, layers=3) for k in (0, 1)]
    odd += [run("slice-once", 1.5, steps=200, layers=3)]
    table = claims_table([*main(0.05), *swept(200, 2, 0.01), *odd])
    assert table is not None
    again = next(row for row in table.rows if row[0].text == once[0].text)
    assert again[3].std == once[3].std, "those of the main size, where there are several"
    assert cell_text(frozen[5]).endswith("(L = 16 and 2, 200 steps)")


def test_a_sweep_without_several_seeds_scatters_like_the_main_runs() -> None:
    table = claims_table([*main(0.05), *swept(200, 1, 0.0)])
    assert table is not None
    (once,) = (row for row in table.rows if "slice-once persists" in row[0].text)
    share = math.sqrt(2) * 0.05 / 0.5 * math.sqrt(2)
    assert once[3].std == pytest.approx(1.13 * share) and once[2].text == "undecided"
    alone = [one for one in main(0.05) if one.config.seed == 0]
    table = claims_table([*alone, *swept(200, 1, 0.0)])
    assert table is not None
    (once,) = (row for row in table.rows if "slice-once persists" in row[0].text)
    assert once[3].std is None and once[2].text == "undecided", "nobody knows"


SHORT = [*BASE, run("no-token-attention", 1.2), run("mlp-only", 3.0), run("untied", 1.0)]
LONGER = [
    run("baseline", 0.5, steps=400),
    run("baseline", 0.5, 1, steps=400),
    run("no-token-attention", 0.5, steps=400),
]


def test_a_claim_is_decided_by_the_longest_training_of_its_variants() -> None:
    longest = [run("baseline", 0.4, steps=800), run("mlp-only", 4.0, steps=800)]
    found = verdicts(*SHORT, *LONGER, *longest)
    assert found["Token attention is"] == ("1.00×", "holds"), "of the longer training"
    assert found["The coupling is"] == ("3.00 ± 0.06×", "holds"), "fewer seeds do not count"
    table = claims_table([*SHORT, *LONGER, *longest])
    assert table is not None
    said = {row[0].text: cell_text(row[5]) for row in table.rows}
    assert said["Token attention is removable"].endswith("over the baseline's (400 steps)")
    assert "steps" not in said["The coupling is not removable"]
    even_longer = [run("baseline", 0.5, seed, steps=1600) for seed in (0, 1)]
    even_longer += [run("no-token-attention", 1.0, steps=1600)]
    for runs in ([*LONGER, *even_longer], [*even_longer, *LONGER]):
        assert verdicts(*SHORT, *runs)["Token attention is"] == ("2.00×", "does not hold here")


def test_another_experiment_or_size_is_no_longer_training() -> None:
    other = [replace(each, config=replace(each.config, experiment="other")) for each in LONGER]
    larger = [run(each.variant, 0.5, each.config.seed, steps=400, layers=16) for each in LONGER]
    for elsewhere in (other, larger):
        table = claims_table([*SHORT, *elsewhere])
        assert table is not None
        rows = [[cell_text(cell) for cell in row[:3]] for row in table.rows]
        assert ["Token attention is removable", "poisson", "does not hold here"] in rows


def test_a_run_that_failed_to_train_is_no_evidence() -> None:
    runs = [*BASE, run("no-token-attention", 1.0)]
    for slices, error in ((8, 110), (128, 1.0)):
        runs += [run("baseline", error, slices=slices), run("no-token-attention", 1, slices=slices)]
    table = claims_table(runs)
    assert table is not None
    assert "G = 8" not in " ".join(cell_text(cell) for row in table.rows for cell in row)
    table = sweep_table(runs, "slices")
    assert table is not None and table.notes == (
        "poisson, G = 8, baseline: it learned nothing: its best error is 1.1, that of predicting"
        " means 1.",
    )
    diverged = run("no-token-attention", 1.0)
    diverged = replace(diverged, curve=replace(diverged.curve, errors={100: 0.01, 200: 0.02}))
    assert "Token attention is" not in verdicts(*BASE, diverged)


def test_a_failed_baseline_decides_nothing() -> None:
    errors = {"pressure_coefficient": 0.1, "surface_velocity": 0.2}
    layer = LayerSlices("first", 4, (0.5,), (0.8 * math.log(4),), (4.0,), (0,))
    own = [replace(evaluation("baseline", s, 3, **errors), slices=(layer,)) for s in (0, 1)]
    others = [
        run("mlp-only", 200, evaluation=evaluation("mlp-only", **errors)),
        run("mlp-only-wide", 150),
    ]
    seeds = [run("baseline", 50, s, evaluation=own[s]) for s in (0, 1)]
    assert len(verdicts(*seeds, *others)) == 5
    assert verdicts(seeds[0], run("baseline", 110, 1, evaluation=own[1]), *others) == {}


def test_what_is_no_better_than_a_constant_decides_nothing() -> None:
    """0.975 is the error of the median of the training targets, in a study of 100 steps."""
    seeds = [run("baseline", 97.7, 0), run("baseline", 97.6, 1)]
    assert verdicts(*seeds, run("mlp-only", 97.5), run("no-token-attention", 97.6)) == {}
    untied = [run("untied", 97.6, s) for s in (0, 1)]
    bare = [run("untied-no-token-attention", 97.6, s) for s in (0, 1)]
    assert "Tying has nothing" not in verdicts(*BASE, *untied, *bare)


def test_errors_count_as_they_were_at_the_step_of_comparison() -> None:
    """At equal steps of a study in progress the baseline had not learned; later it had."""
    seeds = [run("baseline", 50, s, steps=400) for s in (0, 1)]
    errors = {100: 0.98, 200: 0.5}
    seeds = [
        replace(one, curve=replace(one.curve, errors=errors, reached=200, steps=400))
        for one in seeds
    ]
    bare = run("mlp-only", 98, steps=400)
    bare = replace(bare, curve=replace(bare.curve, errors={100: 0.98}, reached=100, steps=400))
    assert "The coupling is" not in verdicts(*seeds, bare)


def test_without_anything_to_compare_there_is_no_table() -> None:
    assert claims_table([run("mlp-only", 1.0)]) is None


def test_every_claim_has_a_text_of_its_own() -> None:
    assert len({one.text for one in CLAIMS}) == len({one.what for one in CLAIMS}) == len(CLAIMS)
