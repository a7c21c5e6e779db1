"""What captions say of numbers that were not measured alike."""

from __future__ import annotations

from dataclasses import replace

from slipstream.reports.content import Table
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.insight_tables import insight_tables
from slipstream.reports.study.study_tables import study_tables
from slipstream.runs.evaluation_file import Evaluation, Protocol

from ..made_data import evaluation, run

NORM = "relative L1 error, over the components of a variable ({}); mean over samples"
DRAWN, WHOLE = "16 points of a sample, as in training", "all points of a sample at once"


def measured(
    variant: str, seed: int = 0, *, repeats: int = 1, full: bool = False, **errors: float
) -> Evaluation:
    """With the definition that its protocol has."""
    where = WHOLE if full else DRAWN
    if repeats > 1:
        where += f"; mean and standard deviation over {repeats} independent draws"
    text = f"{NORM.format(', '.join(errors))}; test split, {where}"
    one = evaluation(variant, seed, repeats, **errors)
    protocol = Protocol(full=full, repeats=repeats)
    return replace(one, protocol=protocol, definitions={"L1": text, "L2": text})


def of(one: Evaluation, name: str = "poisson", **changes: int) -> RunData:
    return run(
        one.variant, 0.1, one.seed, name=name, evaluation=replace(one, experiment=name), **changes
    )


def tables(*runs: RunData) -> dict[str, Table]:
    return {table.name: table for table in (*study_tables(runs), *insight_tables(runs))}


def best(table: Table) -> list[bool]:
    return [any(cell.best for cell in row) for row in table.rows]


def test_what_was_measured_in_several_ways_is_named_and_has_no_best() -> None:
    runs = [
        of(measured("baseline", repeats=4, p=0.2)),
        of(measured("no-token-attention", full=True, p=0.3)),
        of(measured("mlp-only", full=True, p=0.5)),
        of(measured("baseline", repeats=4, q=0.2), "other"),
        of(measured("mlp-only", repeats=4, q=0.5), "other"),
    ]
    found = tables(*runs)
    for name in ("variables-l1", "variables-l2"):
        assert best(found[name]) == [False, True]
        assert found[name].caption == (
            "Relative L1 error, over the components of a variable; mean over samples. On the test"
            f" split, {DRAWN}, mean over 4 independent draws (poisson baseline; other); {WHOLE}"
            " (poisson no-token-attention, mlp-only). A row that was measured in several ways has"
            " no best."
        )
    assert f"{WHOLE} (poisson mlp-only)" in found["locality"].caption
    assert "no-token-attention" not in found["locality"].caption
    assert "several ways" not in tables(*runs[3:])["variables-l1"].caption


def test_seeds_that_were_measured_in_several_ways_are_named() -> None:
    found = tables(
        of(measured("baseline", repeats=4, p=0.2)),
        of(measured("baseline", 1, full=True, p=0.2)),
        of(measured("mlp-only", full=True, p=0.5)),
    )
    assert best(found["variables-l1"]) == [False]
    said = found["variables-l1"].caption
    assert "4 independent draws (poisson baseline seed 0);" in said
    assert f"{WHOLE} (poisson baseline seed 1, mlp-only)." in said


def test_a_definition_is_told_once() -> None:
    found = tables(
        of(measured("baseline", repeats=6, p=0.2)),
        of(measured("baseline", repeats=6, q=0.2), "other"),
    )
    assert found["variables-l1"].caption == (
        "Relative L1 error, over the components of a variable; mean over samples. On the test"
        f" split, {DRAWN}, mean over 6 independent draws."
    )


def test_each_number_of_draws_is_named() -> None:
    one, other = measured("baseline", repeats=4, p=0.2), measured("baseline", 1, repeats=3, p=0.2)
    last = measured("baseline", 2, repeats=3, p=0.2)
    said = tables(of(one), of(other), of(last))["noise"].caption
    assert said.endswith(
        " over independent draws of the points: 4 (poisson seed 0); 3 (poisson seed 1, seed 2)."
    )
    said = tables(of(other), of(last))["noise"].caption
    assert said.endswith(" over 3 independent draws of the points.")


def test_a_sweep_says_how_long_its_runs_are() -> None:
    runs = [
        run("baseline", 0.1, steps=8000), run("mlp-only", 0.4, steps=8000),
        run("untied", 0.1, steps=8000), run("baseline", 0.2, steps=4000),
        run("baseline", 0.3, steps=4000, layers=2), run("baseline", 0.1, steps=8000, slices=8),
    ]  # fmt: skip
    found = tables(*runs)
    assert found["sweep-layers"].caption.endswith(
        " At 4,000 steps, where the main table has 8,000."
    )
    assert found["sweep-slices"].caption.endswith(" At 8,000 steps.")
    assert "At " not in found["sweep-steps"].caption
    other = [run("baseline", 0.1, name="other"), run("baseline", 0.1, name="other", layers=2)]
    assert tables(*runs, *other)["sweep-layers"].caption.endswith(
        " At 4,000 steps, where the main table has 8,000 (poisson); 200 steps (other)."
    )


def test_a_sweep_with_runs_of_several_lengths() -> None:
    runs = [run("baseline", 0.1, layers=n) for n in (2, 4, 8)]
    short = replace(runs[0], curve=replace(runs[0].curve, reached=100))
    said = tables(short, *runs[1:], run("untied", 0.1, layers=4))["sweep-layers"].caption
    assert said.endswith(
        " At 100 steps, where the main table has 200 (poisson L = 2);"
        " 200 steps (poisson L = 4, L = 8)."
    )


def test_a_sweep_without_a_baseline_that_was_validated() -> None:
    runs = [run("baseline", 0.1, layers=n) for n in (2, 4, 8)] + [run("mlp-only", 0.3)]
    begun = replace(runs[0], curve=replace(runs[0].curve, errors={}, reached=0))
    table = tables(begun, *runs[1:])["sweep-layers"]
    assert [row[1].value for row in table.rows] == [4, 8]


def test_local_theory_is_told_for_wall_and_volume() -> None:
    said = tables(of(measured("baseline", p=0.2)))["locality"].caption
    assert "on the wall as a function of the angle between wall and stream" in said
    assert "in the volume of the distance from the wall" in said
    assert "knows angle and stream" not in said
