"""Runs that were cut, among those that finished: they take no part in what is compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.claims_table import claims_tables
from slipstream.reports.study.conclusion import conclude_all
from slipstream.reports.study.evidence import evidence_of
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import longer_groups, main_groups, sweep, swept_variants
from slipstream.reports.study.study_tables import main_table, study_tables

from ..made_data import evaluation, run

STUDY = [
    *(run("baseline", 0.43, seed, steps=400) for seed in (0, 1)),
    *(run("no-token-attention", 0.44, seed, steps=400) for seed in (0, 1)),
    run("mlp-only", 0.6, steps=400),
    run("slice-once", 0.53, steps=400),
]


def cut(one: RunData, step: int = 100, error: float = 0.94) -> RunData:
    """The same run, that validated at this step for the last time."""
    errors = {100: error, step: error}
    curve = replace(one.curve, errors=errors, reached=step, steps=one.config.steps)
    return replace(one, curve=curve, finished=False)


def told(runs: list[RunData]) -> tuple[object, ...]:
    tables = [*study_tables(runs), *claims_tables(runs)]
    numbers = {t.name: [[cell_text(cell) for cell in row] for row in t.rows] for t in tables}
    return numbers, conclude_all(evidence_of(runs))


def test_a_run_that_was_cut_changes_no_number_and_no_verdict() -> None:
    whole = told(STUDY)
    assert "The coupling is not removable here" in str(whole[1])
    for variant, seed in (("baseline", 2), ("mlp-only", 1)):
        assert told([*STUDY, cut(run(variant, 0.4, seed, steps=400))]) == whole
    (main,) = main_groups([*STUDY, cut(run("untied", 1.0, steps=400))])
    assert main.row("untied") is None and "untied" in main.variants
    assert main.compared == tuple(STUDY) and main.compared_until == 400


def test_a_variant_of_which_all_runs_were_cut_is_told_in_place() -> None:
    groups = main_groups([*STUDY, cut(run("untied", 1.0, steps=400))])
    table = main_table(groups)
    (row,) = table.rows
    assert row[table.columns.index("untied")].text == "unfinished"


def test_a_run_that_was_cut_has_learned_too_little_to_fail() -> None:
    learned_nothing = cut(run("baseline", 0.4, 2, steps=400), error=0.98)
    (main,) = main_groups([*STUDY, learned_nothing])
    assert main.failures() == {}
    diverged = replace(learned_nothing.curve, errors={50: 0.5}, reached=100)
    (main,) = main_groups([*STUDY, replace(learned_nothing, curve=diverged)])
    assert main.failures()["baseline"].startswith("its training diverged"), "that is a result"


def test_test_errors_of_a_run_that_was_cut_do_not_count() -> None:
    runs = [
        run("baseline", 0.1, evaluation=evaluation("baseline", p=0.2)),
        cut(run("baseline", 0.1, 1, evaluation=evaluation("baseline", 1, p=0.9))),
    ]
    (main,) = main_groups(runs)
    assert main.summaries("L1")["baseline", "p"].mean == pytest.approx(0.2)
    (main,) = main_groups([cut(one) for one in runs])
    assert main.summaries("L1")["baseline", "p"].mean == pytest.approx(0.55), "none has finished"


def test_a_study_in_progress_is_compared_at_equal_steps() -> None:
    runs = [cut(one, 200 if one.config.seed else 100, one.curve.errors[400]) for one in STUDY]
    (main,) = main_groups(runs)
    assert main.compared_until == 100 and len(main.compared) == len(runs)
    assert {row.variant for row in main.rows()} == set(main.variants)


def test_a_longer_study_in_progress_is_not_yet_the_main_one_and_decides_nothing() -> None:
    longer = [cut(run(one.variant, 0.1, one.config.seed, steps=800)) for one in STUDY]
    (main,) = main_groups([*longer, *STUDY])
    assert main.runs == tuple(STUDY) and longer_groups([*longer, *STUDY], main) == []
    done = [run("baseline", 0.1, seed, steps=800) for seed in (0, 1)]
    (group,) = longer_groups([*done, *longer[2:], *STUDY], main)
    assert group.compared == tuple(done)


def test_a_sweep_has_a_baseline_that_counts_at_every_place() -> None:
    swept = [run("baseline", 0.4, slices=8, steps=400), run("untied", 0.4, slices=8, steps=400)]
    (groups,) = sweep([*STUDY, *swept], "slices")
    assert [group.at("slices") for group in groups] == [8, 16]
    unfinished = cut(run("baseline", 0.4, slices=64, steps=400))
    beside = run("untied", 0.4, slices=64, steps=400)
    (groups,) = sweep([*STUDY, *swept, unfinished, beside], "slices")
    assert [group.at("slices") for group in groups] == [8, 16]
    elsewhere = [run("baseline", 0.4, slices=64, steps=400), cut(run("untied", 1.0, slices=64))]
    (groups,) = sweep([*STUDY, *swept, *elsewhere], "slices")
    assert swept_variants(groups) == {"baseline"}, "untied was finished at one place alone"


def test_a_sweep_of_another_length_holds_the_main_size_too() -> None:
    """Else nothing of it can be seen beside the main table."""
    shorter = [run("baseline", 0.5, slices=slices, steps=200) for slices in (8, 64, 128)]
    assert sweep([*STUDY, *shorter], "slices") == []
    (groups,) = sweep([*STUDY, *shorter, run("baseline", 0.5, steps=200)], "slices")
    assert [(group.at("slices"), group.steps) for group in groups] == [
        (slices, 200) for slices in (8, 16, 64, 128)
    ]
