"""What a report says first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.reports.study import opening_facts as facts
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.times import Times, read_times, write_times
from slipstream.runs.band_scale import BandScale
from slipstream.runs.calibration_file import Calibration, FieldScores, write_calibration
from slipstream.runs.evaluation_file import Protocol
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import NAME

from ..made_data import evaluation, run

TIMES = Times(
    experiment="stokes-surface", sample="s1", variant="baseline", seed=0, weights="w", points=4096,
    solver="a panel method", solver_seconds=0.0612, model_seconds=2.0, calls=5, device="a CPU",
    date="2026-11-19",
)  # fmt: skip


@pytest.fixture
def tested(tmp_path: Path) -> RunData:
    """A run in a study, with five test samples."""
    folder = tmp_path / "study/runs/a"
    folder.mkdir(parents=True)
    (tmp_path / "study" / NAME).write_text("{}")
    samples = {f"s{k}": {"L1 wall_shear": 0.1 * k} for k in (1, 2, 3, 4)}
    one = replace(
        evaluation("baseline"), weights="w", samples={**samples, "s0": {"L1 wall_shear": None}}
    )
    made = run("baseline", 0.1, name="stokes-surface", evaluation=one)
    return replace(made, folder=RunFolder(folder), evaluations=(one,))


def said(made: RunData, problems: list[str] | None = None) -> list[tuple[str, str]]:
    found = facts.opening_facts(made, "s1", "wall_shear", [] if problems is None else problems)
    return [(fact.number, fact.text) for fact in found]


def test_without_times_the_errors_are_told(tested: RunData) -> None:
    (own, _), (median, text) = said(tested)
    assert own == "10 %" and median == "25 %"
    assert "median over 4 test bodies, of the wall shear. The worst is 40 %." in text
    assert "probability" not in text


def test_times_are_of_the_same_weights_and_sample(tested: RunData, tmp_path: Path) -> None:
    write_times(tmp_path / "study", TIMES)
    solver, model, _ = said(tested)
    assert solver[0] == "61 ms" and "a panel method" in solver[1] and "4,096 points" in solver[1]
    assert model[0] == "2 s" and "a CPU" in model[1] and "2026-11-19" in model[1]
    for other in (replace(TIMES, weights="others"), replace(TIMES, sample="s2")):
        write_times(tmp_path / "study", other)
        assert len(said(tested)) == 2 and said(tested)[0][0] == "10 %"


def test_broken_times_are_a_problem_and_no_end(tested: RunData, tmp_path: Path) -> None:
    (tmp_path / "study/times.json").write_text('{"schema": 7}')
    problems: list[str] = []
    assert len(said(tested, problems)) == 2
    assert "times are not shown: " in problems[0] and "schema must be 1, got 7" in problems[0]
    assert read_times(tmp_path) is None


def test_an_evaluation_of_all_points_goes_first(tested: RunData) -> None:
    assert tested.evaluation is not None
    samples = {"s1": {"L1 wall_shear": 0.07}, "s2": {"L1 wall_shear": 0.09}}
    full = Protocol(full=True, repeats=1)
    whole = replace(tested.evaluation, protocol=full, samples=samples, pictures=("s1",))
    made = replace(tested, evaluations=(*tested.evaluations, whole))
    assert [number for number, _ in said(made)] == ["7 %", "8 %"]
    older = replace(whole, weights="older")
    made = replace(tested, evaluations=(*tested.evaluations, older))
    assert [number for number, _ in said(made)] == ["10 %", "25 %"]


def test_the_model_with_the_least_validation_error_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RunData, "predictions", lambda one: {"s1": Path("x")})
    runs = [run("baseline", 0.3), run("baseline", 0.1, seed=1), run("mlp-only", 0.2)]
    shown = facts.shown_run(runs, "s1")
    assert shown is not None and shown.variant == "mlp-only", "of a variant the first seed counts"
    assert facts.shown_run(runs, "s2") is None


def test_a_calibrated_model_has_a_bound(tested: RunData) -> None:
    """Of 19 scores the 18th is the bound of 90 %: (19 + 1) times 0.9."""
    errors = {f"v{k}": 0.01 * k for k in range(1, 20)}
    field = FieldScores(errors, {}, BandScale(0.3, (), 0.0, 0.0, 0.3), "Pa")
    calibration = Calibration(
        weights="w", data_hash="", split_hash="", split="val", density="auto",
        samples=tuple(errors), models=1, band_share=0.9, fields={"wall_shear": field}, forces=None,
    )  # fmt: skip
    write_calibration([tested.folder.path], calibration)
    assert (
        "from 0 to 18 % with a probability of 90 % (calibrated on 19 bodies" in said(tested)[1][1]
    )
    write_calibration([tested.folder.path], replace(calibration, weights="older"))
    problems: list[str] = []
    assert "probability" not in said(tested, problems)[1][1]
    assert "the bound of its error is not shown" in problems[0]
