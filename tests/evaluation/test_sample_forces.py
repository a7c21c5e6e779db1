"""Force coefficients of predicted and true fields, on the meshes that were ingested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.store import open_store
from slipstream.evaluation.predict_sample import predict_whole
from slipstream.runs.evaluation_file import Protocol, read_evaluations
from slipstream.runs.folder import RunFolder
from slipstream.runs.force_records import SampleForces, force_errors
from slipstream.runs.model_file import load_model

from ..conftest import Command

pv = pytest.importorskip("pyvista")
from .own_bodies import AREA, DENSITY, SPEED, body, drag_and_lift, make_run, stresses  # noqa: E402

GIVEN = ("--area", AREA, "--density", DENSITY, "--speed", SPEED, "--device", "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("own"))


def forces_of(run: Path, command: Command, *more: Any) -> dict[str, Any]:
    said = command("evaluate", run, "--forces", "--meshes", run.parent / "raw", "--json", *more)
    assert said.code == 0, said.err
    section: dict[str, Any] = json.loads(said.out)["evaluations"][0]["forces"]
    return section


def true_coefficients(number: int) -> tuple[float, float]:
    mesh = body(number)
    centres = np.asarray(mesh.points, np.float64)[mesh.regular_faces].mean(1)
    return drag_and_lift(mesh, *stresses(centres, number))


def test_true_and_predicted_coefficients_by_hand(made: Path, command: Command) -> None:
    found = forces_of(made, command, *GIVEN)
    assert list(found["samples"]) == ["4", "5", "6"] and not found["left_out"]
    trained, store = load_model(made), open_store(made.parent / "store")
    for number in (4, 5, 6):
        own = found["samples"][str(number)]
        expected = true_coefficients(number)
        assert (own["true"]["cd"], own["true"]["cl"]) == pytest.approx(expected, rel=2e-5)
        rows = store.array(str(number))
        values = predict_whole(trained, store, str(number), Protocol()).numpy().astype(float)
        mesh = body(number)  # the cells of the store are in another order: by their centres
        centres = np.asarray(mesh.points, np.float64)[mesh.regular_faces].mean(1)
        order = np.linalg.norm(centres[:, None] - rows[None, :, :3], axis=-1).argmin(1)
        assert len(set(order)) == len(centres)
        predicted = drag_and_lift(mesh, values[order, 0], values[order, 1:])
        assert (own["predicted"]["cd"], own["predicted"]["cl"]) == pytest.approx(
            predicted, rel=2e-4
        )
    assert set(found["errors"]) == {"cd", "cl"}, "the side force is 0 by symmetry"
    true = np.array([true_coefficients(k)[0] for k in (4, 5, 6)])
    predicted = np.array([found["samples"][k]["predicted"]["cd"] for k in "456"])
    training = np.array([true_coefficients(k)[0] for k in (0, 1, 2)])
    errors = found["errors"]["cd"]
    assert errors["mean_absolute"] == pytest.approx(np.abs(predicted - true).mean(), rel=1e-4)
    assert errors["mean"] == pytest.approx(np.abs(training.mean() - true).mean(), rel=1e-4)
    assert errors["nearest"] == pytest.approx(np.abs(training[2] - true).mean(), rel=1e-4)
    assert errors["correlation"] == pytest.approx(np.corrcoef(predicted, true)[0, 1], rel=1e-6)
    assert set(found["training"]) == {"0", "1", "2"}


def test_the_terminal_has_samples_and_yardsticks(made: Path, command: Command) -> None:
    raw = made.parent / "raw"
    asked = ("evaluate", made, "--forces", "--meshes", raw, "--no-calibrate", *GIVEN)
    said = command(*asked)
    assert said.code == 0, said.err
    before = len(read_evaluations(RunFolder(made)))
    again = command(*asked)
    assert again.out == said.out and len(read_evaluations(RunFolder(made))) == before
    assert "mean of training" in said.out and "nearest training sample" in said.out
    lines = said.out.splitlines()
    cd, cl = true_coefficients(5)
    row = next(line for line in lines if line.startswith("│ 5 "))
    assert f" {cd:.4f} " in row and f" {cl:.4f} " in row
    assert (
        "area 2.5" in said.out and "pressure kinematic, shear dimensional, on the body" in said.out
    )
    assert "baseline does not beat the nearest training sample in composite (" in said.out
    assert " on average and does not beat the mean of the training set (" in said.out
    command("evaluate", made, "--forces", "--meshes", made.parent / "raw", *GIVEN, "--flip-shear")
    flipped = read_evaluations(RunFolder(made))[-1].forces
    assert flipped is not None and flipped.samples["5"].true["cd"] < cd


def test_faces_without_rows_are_left_out_and_said(tmp_path: Path, command: Command) -> None:
    """Points in the front half only; values at points are averaged onto the faces."""
    box = {"low": [None, None, None], "high": [0.05, None, None]}
    run = make_run(tmp_path, "point", box=box)
    found = forces_of(run, command, *GIVEN)
    mesh = body(5)
    points = np.asarray(mesh.points, np.float64)
    kept = (points[:, 0] <= 0.05)[mesh.regular_faces].all(1)
    corners = [values[mesh.regular_faces].mean(1) for values in stresses(points, 5)]
    part = pv.PolyData.from_regular_faces(mesh.points, mesh.regular_faces[kept])
    expected = drag_and_lift(part, corners[0][kept], corners[1][kept])
    own = found["samples"]["5"]["true"]
    assert (own["cd"], own["cl"]) == pytest.approx(expected, rel=2e-5)
    said = " ".join(found["warnings"])
    assert "some faces are not in the store and are left out of the sums (3 of 3 samples)" in said
    assert "open surface: " in said and "(3 of 3 samples, figures of the first)" in said
    assert "values are at points, and each face takes the mean of its corners" in said


def test_a_sample_without_its_mesh(tmp_path: Path, command: Command) -> None:
    run = make_run(tmp_path)
    raw = tmp_path / "raw"
    (raw / "5.vtp").write_bytes((raw / "4.vtp").read_bytes())
    (raw / "1.vtp").unlink()
    found = forces_of(run, command, *GIVEN)
    assert list(found["samples"]) == ["4", "6"] and "has changed since" in found["left_out"]["5"]
    assert set(found["training"]) == {"0", "2"} and "1 training samples" in found["warnings"][-1]


def test_divided_targets_and_the_reference_of_the_card(tmp_path: Path, command: Command) -> None:
    """cp with density and speed from a table, on an open part of the body, where a reference
    pressure counts: the card's is that of the file, of which 2 are subtracted in the store."""
    targets = [
        {
            "name": "cp",
            "unit": "1",
            "from": {"array": "p"},
            "subtract": 2,
            "divide": {"factor": 0.5, "by": {"speed": 2}, "unit": "m^2/s^2"},
        },
        {"name": "wallShearStress", "unit": "Pa", "from": {"array": "tau", "components": 3}},
    ]
    features = [{"name": "speed", "unit": "m/s"}, {"name": "rho", "unit": "kg/m^3"}]
    raw = tmp_path / "raw"
    raw.mkdir()
    lines = [f"{k},{SPEED + k},{DENSITY}" for k in range(7)]
    (raw / "designs.csv").write_text("\n".join(["run,speed,rho", *lines]))
    run = make_run(
        tmp_path,
        targets=targets,
        parameters=[{"file": "designs.csv", "id": "run", "features": features}],
        reference={"area": AREA, "speed": "speed", "pressure": 9.0},
        box={"low": [None, None, None], "high": [0.05, None, None]},
    )
    found = forces_of(run, command, "--device", "cpu")
    mesh = body(5)
    centres = np.asarray(mesh.points, np.float64)[mesh.regular_faces].mean(1)
    kept = centres[:, 0] <= 0.05
    part = pv.PolyData.from_regular_faces(mesh.points, mesh.regular_faces[kept])
    pressure, shear = stresses(centres[kept], 5)
    expected = np.array(drag_and_lift(part, pressure - 9, shear)) * (SPEED / (SPEED + 5)) ** 2
    own = found["samples"]["5"]["true"]
    assert (own["cd"], own["cl"]) == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--forces",), "--forces must go with --meshes FOLDER"),
        (("--area", "2"), "reference values must go with --forces"),
        (("--forces", "--meshes", "raw", "--density", "1.2"), "coefficients need area and speed"),
        (("--forces", "--meshes", "raw", "--drag", "1,0"), "--drag must be three numbers"),
        (("--forces", "--meshes", "raw", "--area", "-1"), "area must be a positive number"),
        (("--forces", "--meshes", "gone"), "gone must be a folder of meshes, got none"),
    ],
)
def test_bad_input_is_one_sentence(
    made: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(made.parent)
    said = command("evaluate", made, *arguments, "--device", "cpu")
    assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1, said


def test_few_samples_have_no_correlation() -> None:
    own = {"a": SampleForces({"cd": 1.0, "cl": 0, "cs": 0}, {"cd": 0.8, "cl": 0, "cs": 0})}
    found = force_errors(own, {}, {})
    assert list(found) == ["cd"] and found["cd"].mean_absolute == pytest.approx(0.2)
    assert found["cd"].r2 is found["cd"].correlation is found["cd"].mean is None
