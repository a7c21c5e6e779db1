"""`slipstream evaluate` as a user meets it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.store import Reference
from slipstream.evaluation import locality
from slipstream.evaluation.vtk_export import point_arrays
from slipstream.runs.folder import RunFolder
from slipstream.runs.prediction_file import read_prediction, write_prediction

from ..conftest import Command
from ..evaluation.made_runs import edit_file, make_run
from ..evaluation.made_study import trained_study


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_study(tmp_path_factory.mktemp("made") / "study")


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"PLACES": 4, "DRAWS": 200, "TRIALS": 50, "NEIGHBOURS": 11}.items():
        monkeypatch.setattr(locality, name, value)
    return Path(shutil.copytree(made, tmp_path / "study"))


def test_a_study(study: Path, command: Command) -> None:
    said = command("evaluate", study, "--repeats", 2, "--device", "cpu")
    assert said.code == 0, said.err
    assert "poisson: errors on the test split" in said.out
    assert "baseline, 2 seeds" in said.out and "composite potential" in said.out
    assert "composite: relative L1 error on normalised targets" in said.out
    assert "; mean over 2 independent draws." in said.out
    assert "±: standard deviation over the seeds." in said.out
    assert "Largest relative standard deviation over the draws" in said.out
    noise = said.out.split("poisson: noise over the draws")[1]
    assert "composite potential" in noise and "baseline, 2 seeds" in noise and "mlp-only" in noise
    again = json.loads(command("evaluate", study, "--repeats", 2, "--json").out)
    row = again["evaluations"][0]
    for number in row["numbers"]:
        assert number["relative_std"] == pytest.approx(number["std"] / number["mean"])
    mean = next(line for line in noise.splitlines() if "composite " in line).split("│")[3]
    alone = next(r for r in again["evaluations"] if r["variant"] == "mlp-only")
    first = alone["numbers"][0]
    assert mean.strip() == f"{first['std']:.2g} ({100 * first['relative_std']:.2g} %)"
    assert len(again["evaluations"]) == 4 and again["without_model"] == []
    assert {row["variant"] for row in again["evaluations"]} >= {"baseline", "mlp-only"}


def test_a_number_without_repeats_has_no_noise(study: Path, command: Command) -> None:
    run = study / "runs/poisson/baseline/seed-0"
    assert "noise over the draws" not in command("evaluate", run, "--device", "cpu").out
    (row,) = json.loads(command("evaluate", run, "--json").out)["evaluations"]
    assert {number["relative_std"] for number in row["numbers"]} == {None}


def test_no_header_is_cut_however_narrow_the_terminal(
    study: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    cells = study / "runs/poisson/no-token-attention"
    shutil.copytree(cells / "seed-0", cells / "seed-1")
    config = json.loads((cells / "seed-1/config.json").read_text())
    config["config"]["seed"] = 1
    (cells / "seed-1/config.json").write_text(json.dumps(config))
    edit_file(cells / "seed-1/model.safetensors", lambda header, _: header["config"].update(seed=1))
    said = command("evaluate", study, "--repeats", 2, "--device", "cpu").out
    assert said.count("no-token-attention, 2 seeds") == 2 and "…" not in said


def test_a_cell_that_comes_twice_is_told(study: Path, tmp_path: Path, command: Command) -> None:
    cell = "runs/poisson/mlp-only/seed-0"
    again = Path(shutil.copytree(study / cell, tmp_path / "again" / cell))
    said = command("evaluate", study / cell, again, "--device", "cpu").out
    told = f"{study / cell}: not in the table, which has poisson mlp-only seed 0 of {again}"
    assert told in said.splitlines()
    assert "not in the table" not in command("evaluate", study / cell, study / cell).out


def test_runs_of_other_lengths_are_not_averaged_as_seeds(
    study: Path, tmp_path: Path, command: Command
) -> None:
    runs = study / "runs/poisson/baseline"
    other = Path(shutil.copytree(runs / "seed-1", tmp_path / "longer/seed-1"))
    config = json.loads((other / "config.json").read_text())
    config["config"]["steps"] += 1
    (other / "config.json").write_text(json.dumps(config))
    said = command("evaluate", runs / "seed-0", runs / "seed-1", other, "--device", "cpu")
    tables = said.out.split("poisson: errors on the test split")
    assert said.code == 0 and len(tables) == 3
    assert "baseline, 2 seeds" in tables[1] and "seeds" not in tables[2].split("composite:")[0]
    steps = config["config"]["steps"]
    assert f"Not as in the first table of poisson (there, here): steps: {steps - 1}, {steps}." in (
        tables[2].splitlines()
    )
    assert "not in the table" not in said.out


def test_one_run_whole(study: Path, command: Command) -> None:
    run = study / "runs/poisson/mlp-only/seed-0"
    whole = ("evaluate", run, "--full", "--split", "val", "--device", "cpu")
    said = command(*whole)
    assert said.code == 0 and "errors on the val split" in said.out
    assert "all points of a sample at once" in said.out and "±" not in said.out
    sentence = "--repeats 2 repeats nothing where samples are taken whole: poisson.\n"
    assert sentence in command(*whole, "--repeats", 2).out and "--repeats" not in said.out


def test_a_file_for_paraview(study: Path, command: Command) -> None:
    pyvista = pytest.importorskip("pyvista")
    run = RunFolder(study / "runs/poisson/baseline/seed-0")
    said = command("evaluate", run.path, "--vtk", "--slices", "--device", "cpu")
    assert said.code == 0, said.err
    (file,) = (run.path / "predictions").glob("*.vtp")
    found, truth = pyvista.read(file), read_prediction(file.with_suffix(".safetensors"))
    np.testing.assert_array_equal(found.points, truth.coords)
    data = found.point_data
    np.testing.assert_array_equal(data["field"], truth.truth[:, 1:])
    np.testing.assert_array_equal(data["potential_prediction"], truth.values[:, 0])
    np.testing.assert_allclose(
        data["field_error"], truth.values[:, 1:] - truth.truth[:, 1:], atol=1e-6
    )
    np.testing.assert_array_equal(data["density"], truth.features[:, 0])
    np.testing.assert_allclose(data["slice_weights_head_1"].sum(1), 1, atol=3e-3)
    points = len(truth.coords)
    assert said.out.splitlines()[-1] == f"Wrote {file}: {points} points without cells."
    assert truth.weights is not None
    few = point_arrays(replace(truth, weights=truth.weights[:5]))
    assert np.isnan(few["entropy"][5:]).all() and np.isfinite(few["entropy"][:5]).all()


def test_divided_targets_are_written_both_ways(study: Path, command: Command) -> None:
    run = RunFolder(study / "runs/poisson/baseline/seed-0")
    assert command("evaluate", run.path, "--device", "cpu").code == 0
    (file,) = (run.path / "predictions").glob("*.safetensors")
    made = read_prediction(file)
    first, *others = made.schema.targets
    first = replace(first, divided=Reference({"density": 2.0}, 3.0, "V"))
    divided = replace(made, schema=replace(made.schema, targets=(first, *others)))
    write_prediction(file, divided)
    arrays, before = point_arrays(read_prediction(file)), point_arrays(made)
    assert set(arrays) - set(before) == {
        f"potential_undivided{end}" for end in ("", "_prediction", "_error")
    }
    for end in ("", "_prediction", "_error"):
        np.testing.assert_array_equal(arrays[f"potential{end}"], before[f"potential{end}"])
        whole = before[f"potential{end}"] * 3 * arrays["density"] ** 2
        np.testing.assert_allclose(arrays[f"potential_undivided{end}"], whole, rtol=1e-4, atol=1e-4)


def test_runs_without_a_model_are_named(study: Path, command: Command) -> None:
    lost = study / "runs/poisson/mlp-only/seed-0"
    (lost / "model.safetensors").unlink()
    said = command("evaluate", study, "--device", "cpu")
    assert said.code == 0 and f"{lost}: left out, no model yet" in said.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("absent",), "absent must be the folder of a run or a study, got no such folder"),
        ((".",), "must be a run or a folder with runs below it, got neither"),
        (("study", "--repeats", "0"), "repeats must be a whole number of at least 1, got 0"),
        (("study", "--split", "tset"), "samples in its split 'tset', got train, val, test"),
        (("study", "--samples", "nope"), "of the split 'test'"),
        (("study", "--store", "gone"), "must be at gone, got no such folder"),
        (("study", "--device", "tpu"), "device"),
    ],
)
def test_bad_input_is_one_sentence(
    study: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty" if arguments[0] == "." else tmp_path)
    said = command("evaluate", *arguments)
    assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1, said


def test_a_run_without_a_test_split(tmp_path: Path, command: Command) -> None:
    said = command("evaluate", make_run(tmp_path / "run"), "--device", "cpu")
    assert said.code == 2 and "must have samples in its split 'test', got train, val" in said.err
