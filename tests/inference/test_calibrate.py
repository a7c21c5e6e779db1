"""`slipstream calibrate`, its file, and the bounds that `slipstream predict` makes of it."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.data.store import open_store
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.inference.bands import known_at_points
from slipstream.inference.bounds import bound_of, why_no_interval
from slipstream.inference.calibrate import CalibrationRequest, calibrate
from slipstream.inference.densities import token_points
from slipstream.inference.likeness import calibrate_likeness
from slipstream.inference.predict import predict
from slipstream.inference.stored_predictions import predict_stored
from slipstream.runs.calibration_file import (
    Calibration,
    ForceScores,
    calibration_file,
    read_calibration,
    write_calibration,
)
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model, write_model
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.tokens import Tokens

from ..conftest import Command
from ..evaluation.own_bodies import AREA, DENSITY, SPEED, body, drag_and_lift, make_run, stresses

GIVEN = ("--area", AREA, "--density", DENSITY, "--speed", SPEED)
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three test samples. To be read, not changed."""
    return make_run(tmp_path_factory.mktemp("own"))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def calibrated(command: Command, run: Path, raw: Path | None, *more: Any) -> Any:
    forces = () if raw is None else ("--meshes", raw, *GIVEN)
    said = command("calibrate", run, "--split", "test", *forces, *CPU, *more)
    assert said.code == 0, said.err
    return said


def predicted(command: Command, run: Path, raw: Path, out: Path, *more: Any) -> dict[str, Any]:
    said = command("predict", run, raw / "5.vtp", "--out", out, "--forces", "--area", AREA,
                   "--flow-density", DENSITY, "--speed", SPEED, "--json", *CPU, *more)  # fmt: skip
    assert said.code == 0, said.err
    (result,) = json.loads(said.out)["predictions"]
    bounds: dict[str, Any] = result["bounds"]
    return bounds


def weights_of(run: Path) -> str:
    return weights_hash(dict(load_model(run).model.named_parameters()))


def read(run: Path) -> Calibration:
    calibration = read_calibration([run], weights_of(run))
    assert calibration is not None
    return calibration


def test_scores_are_errors_by_hand(made: Path, run: Path, command: Command) -> None:
    raw = made.parent / "raw"
    shown = json.loads(calibrated(command, run, raw, "--level", 0.75, "--json").out)
    calibration, trained = read(run), load_model(run)
    store = open_store(made.parent / "store")
    assert calibration.samples == ("4", "5", "6") and calibration.forces is not None
    for number in (4, 5, 6):
        sample = str(number)
        rows = store.array(sample).astype(float)
        values = predict_stored(trained, StoredSample(store, sample)).numpy().astype(float)
        truth, wrong = rows[:, -4:], np.abs(values - rows[:, -4:])
        p, tau = calibration.fields["p"], calibration.fields["wallShearStress"]
        assert p.errors[sample] == pytest.approx(wrong[:, 0].sum() / np.abs(truth[:, 0]).sum())
        assert tau.errors[sample] == pytest.approx(wrong[:, 1:].sum() / np.abs(truth[:, 1:]).sum())
        width = p.band[sample]
        assert width is not None
        known = known_at_points(trained, torch.from_numpy(values), torch.from_numpy(rows[:, 3:6]))
        widths = width * p.scale.at(known)
        assert widths.std() > 0
        assert np.mean(wrong[:, 0] <= widths * (1 + 1e-9)) >= 0.9
        assert np.mean(wrong[:, 0] < widths * (1 - 1e-9)) < 0.9
        mesh = body(number)
        centres = np.asarray(mesh.points, np.float64)[mesh.regular_faces].mean(1)
        order = np.linalg.norm(centres[:, None] - rows[None, :, :3], axis=-1).argmin(1)
        cd = drag_and_lift(mesh, values[order, 0], values[order, 1:])[0]
        true = drag_and_lift(mesh, *stresses(centres, number))[0]
        assert calibration.forces.residuals["cd"][sample] == pytest.approx(cd - true, rel=1e-4)
    training = np.concatenate([store.array(n)[:, -4:] for n in ("0", "1", "2")]).astype(float)
    spread = np.where(np.ptp(training, axis=0) > 0, training.std(0), 1.0)  # tau_z is 0 everywhere
    assert calibration.fields["p"].scale.spread == pytest.approx(spread[0], rel=1e-4)
    vector = calibration.fields["wallShearStress"].scale.spread
    assert vector == pytest.approx(np.sqrt((spread[1:] ** 2).sum()), rel=1e-4)
    largest = max(s for s in calibration.fields["p"].errors.values() if s is not None)
    assert shown["fields"]["p"] == {"samples": 3, "value": largest, "reason": ""}
    typical = calibration.fields["p"].scale.typical
    assert shown["bands"]["p"]["value"] == pytest.approx(
        typical * max(s for s in calibration.fields["p"].band.values() if s is not None)
    )


def test_samples_are_tasks_of_an_engine(made: Path) -> None:
    """Of one run and of two; what is measured is the same, and so is the likeness file."""
    forces = ForceRequest(made.parent / "raw", {"area": AREA, "density": DENSITY, "speed": SPEED})
    request = CalibrationRequest(split="test", device="cpu", forces=forces)
    watched = list[tuple[int, int]]()
    with ThreadPoolExecutor(2) as executor:
        there = calibrate([RunFolder(made)], request, lambda *w: watched.append(w), executor)
        likeness = calibrate_likeness([RunFolder(made)], request, engine=executor).read_bytes()
    assert there == calibrate([RunFolder(made)], request)
    assert list(there.fields["p"].errors) == ["4", "5", "6"] and watched[-1] == (3, 3)
    assert likeness == calibrate_likeness([RunFolder(made)], request).read_bytes()
    (made / "likeness.safetensors").unlink()


def test_samples_are_predicted_as_predict_does(surface_run: Path) -> None:
    raw, trained = surface_run.parent / "raw", load_model(surface_run)
    store = open_store(surface_run.parent / "store")
    values = predict_stored(trained, StoredSample(store, "3")).numpy()
    truth = store.array("3")[:, store.schema.columns("targets")]
    errors = predict(trained, raw / "run_3.vtp", U_inf=23.0).errors
    own = np.abs(values - truth)[:, 0].sum() / np.abs(truth[:, 0]).sum()
    assert errors["p"] == pytest.approx(own, rel=1e-5)


def test_tokens_are_of_the_points_that_predict_takes(made: Path) -> None:
    trained, store = load_model(made), open_store(made.parent / "store")
    assert trained.recipe is not None
    with torch.no_grad():  # after two steps of training, points hardly matter to the tokens
        for weight in trained.model.parameters():
            weight.mul_(20 if weight.ndim > 1 else 1)
    points = trained.recipe.points
    sample = StoredSample(store, "4")
    coords, features = (part[0] for part in sample.rows(0, sample.count).inputs if part is not None)
    subsets = token_points(sample.count, points.draw.most, "auto").subsets
    assert len(subsets) == 5  # 320 rows, 60 a draw
    tokens = [trained.encode(coords[rows], features[rows]) for rows in subsets]
    by_subsets = trained.decode(coords, features, tokens=Tokens.mean(tokens, ""))
    near = {"rtol": 1e-4, "atol": 1e-4 * float(by_subsets.abs().max())}
    torch.testing.assert_close(predict_stored(trained, sample), by_subsets, **near)
    denser = replace(points, draw=replace(points.draw, most=100))  # 320 is not far above 100
    whole = replace(trained, recipe=replace(trained.recipe, points=denser))
    at_once = trained.as_stored(coords, features)
    assert (at_once - by_subsets).abs().max() > 100 * near["atol"]
    torch.testing.assert_close(predict_stored(whole, sample), at_once, **near)


def test_the_command_says_what_is_promised_and_what_is_not(
    made: Path, run: Path, command: Command
) -> None:
    said = " ".join(calibrated(command, run, made.parent / "raw", "--level", 0.7).out.split())
    assert "relative error of p" in said and "with 70 %" in said and "Cd" in said and "± " in said
    assert "at least 70 %, over the choice of the 3 calibration samples" in said
    assert "validation split" not in said
    few = " ".join(calibrated(command, run, None).out.split())
    assert "at most 75 % can be promised with 3 samples" in few and "with 90 %" not in few
    assert "Coefficients are not calibrated" in few
    val = command("calibrate", run, *CPU)
    assert val.code == 0 and "--split test avoids it" in " ".join(val.out.split())


def test_predict_has_bounds_and_intervals(
    made: Path, run: Path, command: Command, tmp_path: Path
) -> None:
    raw, out = made.parent / "raw", tmp_path / "out"
    none = predicted(command, run, raw, out)
    assert none["reason"] == f"not calibrated: slipstream calibrate {run}" and not none["fields"]
    calibrated(command, run, raw)
    calibration = read(run)
    bounds = predicted(command, run, raw, out, "--level", 0.75)  # the mesh is kept, not predicted
    assert calibration.forces is not None and not bounds["reason"]
    for name, scores in calibration.forces.sizes().items():
        assert bounds["coefficients"][name]["value"] == max(s for s in scores.values() if s)
    assert bounds["fields"].keys() == {"p", "wallShearStress"}
    assert predicted(command, run, raw, out)["fields"]["p"] == {
        "samples": 3, "value": None, "reason": "at most 75 % can be promised with 3 samples",
    }  # fmt: skip
    said = command("predict", run, raw / "5.vtp", "--out", out, "--level", 0.7, *CPU, "--overwrite")
    text = " ".join(said.out.split())
    assert "error of p, 70 %" in text and "at most " in text
    assert "at least 70 %, over the choice of the 3" in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--area", 3.0), "the area of the calibration is 2.5, here it is 3"),
        (("--speed", 31), "the speed of the calibration is 30, here it is 31"),
        (("--drag", "0,1,0"), "the drag of the calibration is along (1 0 0), here (0 1 0)"),
        (("--flip-shear",), "the traction of the calibration is on the"),
        (("--density", "full"), "the calibration is of --density auto"),
    ],
)
def test_no_interval_for_other_coefficients(
    made: Path, run: Path, command: Command, tmp_path: Path, options: tuple[Any, ...], reason: str
) -> None:
    raw = made.parent / "raw"
    calibrated(command, run, raw)
    bounds = predicted(command, run, raw, tmp_path / "out", "--level", 0.7, *options)
    assert reason in bounds["reason"] and not bounds["coefficients"]
    assert bool(bounds["fields"]) == (options[0] != "--density")


def test_reference_values_that_each_design_has_of_its_own() -> None:
    x, z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    stated = {"pressure": ("kinematic",), "shear": ("kinematic",), "traction": ("on the body",)}
    ranges = {"area": (2.0, 2.0), "speed": (20.0, 30.0)}
    scores = ForceScores({}, ranges, x, z, None, stated, "", {})

    def reason(given: dict[str, float], mirror: str | None = None, **values: float) -> str:
        reference = {"area": 2.0, "speed": 25.0, "drag": (3, 0, 0), "lift": z, "mirror": mirror}
        conventions = {name: {"value": own[0]} for name, own in stated.items()}
        forces = {"conventions": conventions, "friction": None, "reference": reference | values}
        return why_no_interval(scores, forces, given)

    assert reason({}) == "" and reason({}, speed=35.0) == "" and reason({"speed": 25.0}) == ""
    assert "speed of the calibration is 20 to 30, here it is 35" in reason({"speed": 35}, speed=35)
    assert "area of the calibration is 2, here it is 2.1" in reason({}, area=2.1)
    assert "mirror of the calibration is None, here it is y" in reason({}, mirror="y")
    assert "they were not calibrated" in why_no_interval(None, {}, {})


def test_a_calibration_of_other_weights_is_said_and_not_used(
    made: Path, run: Path, command: Command, tmp_path: Path
) -> None:
    calibrated(command, run, None)
    trained = load_model(run)
    with torch.no_grad():
        next(trained.model.parameters()).add_(1e-3)
    write_model(run / "model.safetensors", trained)
    with pytest.raises(ValueError, match=r"must be of the model's weights, hash \w{12}, got"):
        read_calibration([run], weights_of(run))
    bounds = predicted(command, run, made.parent / "raw", tmp_path / "out", "--level", 0.7)
    assert "must be of the model's weights" in bounds["reason"] and not bounds["fields"]


def test_the_file_is_read_back_and_damage_is_refused(run: Path, command: Command) -> None:
    calibrated(command, run, None)
    calibration, weights, file = (
        read(run),
        weights_of(run),
        calibration_file([run], weights_of(run)),
    )
    write_calibration([run], calibration)
    assert read_calibration([run], weights) == calibration
    with pytest.raises(ValueError, match="of the model's weights"):
        read_calibration([run], "0" * 64)
    write_calibration([run], replace(calibration, weights="f" * 64))
    with pytest.raises(ValueError, match="of the model's weights"):
        read_calibration([run], weights)
    field = calibration.fields["p"]
    for errors in ({"4": -1.0}, {"unknown": 0.1}):
        broken = {"p": replace(field, errors=errors)}
        write_calibration([run], replace(calibration, fields=broken))
        with pytest.raises(ValueError, match="errors of p: "):
            read_calibration([run], weights)
    for text in ("[]", "{", '{"schema": 2}', '{"schema": 3}', '{"schema": 3, "calibration": {}}'):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"calibration\.json"):
            read_calibration([run], weights)
    file.unlink()
    assert read_calibration([run], weights) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "train"), "split must be one that the model has not learned from"),
        (("--split", "other"), "must have samples in its split 'other', got test, train, val"),
        (("--level", 1.5), "--level must be between 0 and 1, as 0.9, got 1.5"),
        (("--area", 2), "reference values must go with --meshes FOLDER"),
        (("--meshes", "nowhere"), "nowhere"),
    ],
)
def test_bad_input(run: Path, command: Command, options: tuple[Any, ...], message: str) -> None:
    said = command("calibrate", run, *CPU, *options)
    assert said.code == 2 and message in " ".join(said.err.split())
    assert "Traceback" not in said.err and not calibration_file([run], weights_of(run)).exists()


def test_a_folder_without_a_run(command: Command, tmp_path: Path) -> None:
    said = command("calibrate", tmp_path)
    assert said.code == 2 and "must be the folder of a run" in " ".join(said.err.split())


def test_a_prediction_that_is_not_finite_is_an_infinite_score() -> None:
    assert bound_of({"a": 0.1, "b": None, "c": 0.2}, 0.5).value == 0.2
    bound = bound_of({"a": 0.1, "b": None, "c": 0.2}, 0.75)
    assert bound.value is None and bound.reason == "the prediction is not finite on 1 of 3 samples"
