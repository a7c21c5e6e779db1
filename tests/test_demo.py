"""The whole story, small: real data, real processes, a real page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.cli import demo as demo_commands
from slipstream.core.configs import overlay
from slipstream.core.records import append_record
from slipstream.data.store import check_store
from slipstream.demo import QUICK, Plan, demo_cells, demo_config, quick_plan, run_demo
from slipstream.reports.draw import pictures
from slipstream.reports.study.times import read_times
from slipstream.runs.config import RunConfig
from slipstream.runs.evaluation_file import read_evaluations
from slipstream.runs.folder import find_runs
from slipstream.training.study import prepare_study

from .conftest import Command
from .reports.browser import absent, colours, launched, opened, settle


def tiny(seed: int = 0) -> RunConfig:
    changes = {
        "data.builtin.samples": {"train": 4, "val": 2, "test": 2}, "data.builtin.points": 64,
        "data.builtin.settings": {"panels": 80, "bodies": [1, 1]}, "data.points": 16, "batch": 2,
        "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
        "optim.learning_rate": 0.03, "log_every": 2,
    }  # fmt: skip
    return overlay(demo_config(seed, steps=12), changes)


def plan(seed: int = 0) -> Plan:
    """Variants with two seeds and with one, and a notice as the quick demo has."""
    return Plan(tiny(seed), twice=("baseline",), once=("mlp-only",), repeats=2, notice=QUICK)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_commands, "_plan", lambda seed, steps, quick: plan(seed))


def test_it_makes_trains_measures_audits_and_tells_and_then_keeps(
    tmp_path: Path, command: Command, few_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = command("demo", "--out", tmp_path)
    assert said.code == 0, said
    lines = said.err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        QUICK.split(":")[0], "Data", "Training", "Evaluation on the test split, and audit ...",
        "Times of solver and model, and calibration ...", "Report ...",
    ]  # fmt: skip
    assert "baseline, 2 seeds" in said.out and "of 3 runs hold." in said.out
    conclusion, notice, last = said.out.splitlines()[-3:]
    assert notice == QUICK
    assert conclusion.startswith("These runs say nothing of the variants."), "after 12 steps"
    assert last == f"Report: {tmp_path / 'report.html'}"
    notes = [line for line in said.out.splitlines() if line.startswith("Note:")]
    assert len(notes) == 2 and all("baseline" in note for note in notes), notes
    study = tmp_path / "study"
    assert check_store(study / "data/potential-flow-surface") == []
    page = (tmp_path / "report.html").read_text()
    for words in (conclusion.replace("'", "&#39;"), "mlp-only", "surface_velocity"):
        assert words in page

    times = read_times(study)
    assert times is not None and min(times.solver_seconds, times.model_seconds) > 0
    first = page[page.index('id="opening"') : page.index('class="conclusion"')]
    for words in (
        f"test body {times.sample}",
        "1 thread",
        "The worst is",
        "is the error to expect",
    ):
        assert words in first
    assert QUICK in page[: page.index('id="opening"')]
    assert "of 90 %" not in first, "two bodies of a calibration promise no 90 %"

    if not absent():
        with launched() as browser, opened(browser, tmp_path / "report.html") as shown:
            shown.locator("#viewer").scroll_into_view_if_needed()
            settle(shown)
            assert min(colours(shown)) > 20, "truth, prediction and error on the body"

    for name in ("error", "control", "locality", "field", "slice"):  # they were drawn above
        monkeypatch.setattr(pictures, f"{name}_pictures", lambda *given: [])
    again = json.loads(command("demo", "--out", tmp_path, "--json").out)
    assert again["conclusion"] == conclusion and len(again["cells"]) == 3
    spread = {(row["variant"], row["measure"], row["variable"]): row for row in again["errors"]}
    assert spread["baseline", "composite", None]["std"] is not None
    assert spread["mlp-only", "composite", None]["std"] is None
    assert all(len(run.history("start")) == 1 for run in find_runs(study)), "nothing trained again"
    counts = sorted(len(read_evaluations(run)) for run in find_runs(study))
    assert counts == [1, 1, 2], "the model that is shown has one of all points at once"


def test_a_run_that_fails_is_told_and_nothing_is_concluded(
    tmp_path: Path, command: Command, few_steps: None
) -> None:
    cells = demo_cells(plan(), tmp_path)
    prepare_study(cells, tmp_path / "study")
    (cells[-1].folder.path / "records.jsonl").mkdir()
    for cell in cells[:-1]:  # as if they had been trained
        append_record(cell.folder.records_file, "stop", {"step": 12, "reason": "finished"})
    said = command("demo", "--out", tmp_path)
    assert said.code == 1 and "mlp-only seed 0: failed: " in said.out
    assert "The same command continues from here." in said.out
    assert not (tmp_path / "report.html").exists()


def test_another_config_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    for cell in demo_cells(plan(), tmp_path):
        cell.folder.begin(cell.config)
    with pytest.raises(ValueError, match="steps"):
        run_demo(replace(plan(), config=overlay(tiny(), {"steps": 24})), tmp_path)


def test_quick_is_smaller_and_has_its_own_steps(command: Command) -> None:
    quick, full = quick_plan(3), Plan(demo_config(3))
    assert quick.config.seed == 3 and quick.notice and not full.notice
    assert quick.config.steps < full.config.steps
    assert {"baseline", "no-token-attention"} <= {*quick.once}
    said = command("demo", "--quick", "--steps", 50)
    assert said.code == 2 and said.err.strip().endswith("got --steps 50")
    assert "Traceback" not in said.err and len(said.err.strip().splitlines()) == 1


def test_a_seed_is_that_of_data_and_runs(tmp_path: Path) -> None:
    config = demo_config(3)
    assert config.seed == 3 and config.data.builtin is not None and config.data.builtin.seed == 3
    seeds = [(c.config.model.variant, c.config.seed) for c in demo_cells(Plan(config), tmp_path)]
    assert seeds == [
        ("baseline", 3), ("baseline", 4), ("no-token-attention", 3), ("no-token-attention", 4),
        ("slice-once", 3), ("mlp-only", 3),
    ]  # fmt: skip
    assert demo_config().steps == 2000 and demo_config(steps=5).evaluate_every == 5
