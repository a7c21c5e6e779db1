from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.core.records import append_record
from slipstream.evaluation.compare import Curve, compare, read_curve
from slipstream.runs.folder import RunFolder

from ..training.small import small


def curve(variant: str, seed: int, errors: dict[int, float], steps: int = 0) -> Curve:
    return Curve("e", variant, seed, errors, max(errors, default=0), steps)


def test_variants_are_compared_at_the_last_step_all_reached() -> None:
    rows = compare(
        [
            curve("baseline", 0, {10: 0.5, 20: 0.4, 30: 0.1}),
            curve("baseline", 1, {10: 0.6, 20: 0.7, 30: 0.2}),
            curve("mlp-only", 0, {10: 0.9, 20: 0.8}),
        ]
    )
    base, other = rows
    assert base.step == other.step == 20
    assert base.errors == (0.4, 0.6) and base.mean == pytest.approx(0.5) and base.seeds == (0, 1)
    assert base.std == pytest.approx(0.2 / 2**0.5) and base.ratio == 1.0
    assert other.mean == 0.8 and other.std is None and other.ratio == pytest.approx(1.6)


def test_an_unfinished_run_is_left_out_beside_finished_ones() -> None:
    """As it is, one run that was cut would take all others back to its last step."""
    finished = [
        curve("baseline", 0, {100: 0.9, 400: 0.4}, 400),
        curve("baseline", 1, {100: 0.9, 400: 0.5}, 400),
        curve("mlp-only", 0, {100: 0.9, 400: 0.8}, 400),
    ]
    whole = compare(finished)
    assert [(row.step, row.mean) for row in whole] == [(400, pytest.approx(0.45)), (400, 0.8)]
    cut = [curve("baseline", 2, {100: 0.2}, 400), curve("slice-once", 0, {100: 0.9}, 400)]
    assert compare([*finished, *cut]) == whole
    longer = curve("untied", 0, {100: 0.8, 500: 0.1}, 1000)
    assert compare([*finished, longer]) == whole, "however far it has come"


def test_a_variant_has_learned_where_every_seed_has() -> None:
    for last, learned in ((0.94, True), (0.96, False)):
        (row,) = compare([curve("baseline", 0, {10: 0.2}), curve("baseline", 1, {10: last})])
        assert row.learned is learned


def test_where_no_run_is_finished_all_are_compared_at_equal_steps() -> None:
    curves = [
        curve("baseline", 0, {10: 0.5, 20: 0.4}, 400),
        curve("mlp-only", 0, {10: 0.9}, 400),
        curve("untied", 0, {}, 400),
    ]
    assert [(row.variant, row.step, row.mean) for row in compare(curves)] == [
        ("baseline", 10, 0.5),
        ("mlp-only", 10, 0.9),
    ]


def test_a_run_that_was_not_validated_until_then_is_left_out() -> None:
    curves = [curve("baseline", 0, {10: 0.5}), curve("baseline", 1, {10: 0.6, 20: 0.1})]
    rows = compare([*curves, *(curve("mlp-only", seed, {20: 0.9}) for seed in (0, 1))])
    assert [(row.variant, row.errors) for row in rows] == [("baseline", (0.5, 0.6))]


def test_a_run_is_finished_at_the_steps_of_its_config() -> None:
    assert curve("baseline", 0, {10: 0.5, 20: 0.4}, 20).finished
    assert not curve("baseline", 0, {10: 0.5}, 20).finished
    assert not curve("baseline", 0, {}).finished, "nothing is known of it"


def test_without_a_baseline_there_is_no_ratio_and_empty_curves_are_left_out() -> None:
    rows = compare([curve("mlp-only", 0, {5: 0.3}), curve("untied", 0, {})])
    assert [(row.variant, row.ratio) for row in rows] == [("mlp-only", None)]
    assert compare([curve("untied", 0, {})]) == []


def test_curves_are_read_from_records(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small(seed=3, model__variant="untied"))
    for step, error in ((4, 0.5), (8, None), (12, 0.7)):
        row = {"step": step, "error": error, "best": False, "weights": ""}
        append_record(folder.records_file, "validation", row)
    found = read_curve(folder)
    assert found == Curve("poisson", "untied", 3, {4: 0.5, 12: 0.7}, 12, small().steps)
    assert found.best_until(12) == 0.5


@pytest.mark.parametrize(
    ("variant", "errors", "says"),
    [
        ("baseline", {10: 1.2, 20: 1.1}, "it learned nothing: its best error is 1.1, that of"),
        ("baseline", {100: 0.977}, "it learned nothing: its best error is 0.977, and a "),
        ("mlp-only", {100: 0.977}, None),
        ("baseline", {100: 0.94}, None),
        ("untied", {10: 0.6, 20: 1.0}, "its training diverged: the best error is 0.6, the last 1"),
        ("mlp-only", {10: 1.2, 20: 1.1}, None),
        ("baseline", {10: 0.6, 20: 0.7}, None),
        ("baseline", {}, None),
    ],
)
def test_runs_that_failed_to_train(variant: str, errors: dict[int, float], says: str) -> None:
    """A variant that can learn nothing has not failed: that is what it was asked."""
    found = curve(variant, 0, errors).failure
    assert found is None if says is None else found and found.startswith(says)


def test_an_error_that_is_not_finite_is_a_failure() -> None:
    """`read_curve` leaves it out, but not the step."""
    assert Curve("e", "untied", 0, {10: 0.5}, 20).failure == (
        "its training diverged: the error of step 20 is not finite"
    )
    assert Curve("e", "untied", 0, {}, 20).failure is not None


def test_a_group_of_targets_that_was_not_learned_is_a_failure() -> None:
    """slice-once on Poisson, 8,000 steps: the mean over both groups hides that one is 1.00."""
    groups = {10: {"potential": 0.31, "field": 1.0}, 20: {"potential": 0.32, "field": 0.9}}
    once = Curve("poisson", "slice-once", 0, {10: 0.655, 20: 0.656}, 20, 20, groups)
    assert once.failure == "it did not learn field (error 1.00); predicting means has 1"
    assert replace(once, variant="mlp-only").failure is None, "it cannot learn what is not local"
    assert replace(once, errors={10: 0.66, 20: 0.61}).failure is None, "the best step counts"


def test_overfitting_is_told_apart_from_divergence() -> None:
    """The validation error of both doubles; the training loss of one falls, of the other rises."""
    errors = {10: 0.2, 20: 0.4}
    memorised = Curve("e", "mlp-only", 0, errors, 20, losses={10: 0.2, 20: 0.05})
    assert memorised.failure is None and memorised.overfitting == (
        "it overfits: from step 10 on its validation error rose from 0.2 to 0.4 while its training"
        " loss fell from 0.2 to 0.125"
    )
    diverged = replace(memorised, losses={10: 0.2, 20: 0.5})
    assert diverged.overfitting is None and str(diverged.failure).startswith("its training diverg")
    assert replace(memorised, losses={}).failure == diverged.failure, "nobody knows"
    assert replace(memorised, errors={10: 0.2, 20: 0.25}).overfitting is None
