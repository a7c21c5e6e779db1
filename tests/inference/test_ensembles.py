"""Several runs that predict together: the mean, the spread, the forces, the bands, the refusals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import torch

from slipstream.data.store import open_store
from slipstream.inference.bands import known_at_points
from slipstream.inference.predict import predict
from slipstream.inference.prediction_forces import ForceWishes, prediction_forces
from slipstream.inference.stored_predictions import predict_stored
from slipstream.runs.calibration_file import calibration_file, read_calibration
from slipstream.runs.ensemble import as_ensemble, spread_of
from slipstream.runs.model_file import load_model, write_model
from slipstream.runs.stored_sample import StoredSample

from ..conftest import Command
from ..evaluation.own_bodies import AREA, DENSITY, SPEED, make_run

GIVEN = ("--area", AREA, "--speed", SPEED)
REFERENCE = {"area": AREA, "speed": SPEED, "density": DENSITY}
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one setting with different weights. To be read, not changed."""
    folder = tmp_path_factory.mktemp("several")
    first = make_run(folder)
    for seed in (1, 2):
        own = Path(shutil.copytree(first, folder / f"run-{seed}"))
        trained = load_model(own)
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in trained.model.parameters():
                weight.add_(0.05 * torch.randn(weight.shape, generator=random))
        write_model(own / "model.safetensors", trained)
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> list[Path]:
    names = ("run", "run-1", "run-2")
    return [Path(shutil.copytree(made / name, tmp_path / name)) for name in names]


def test_the_prediction_is_the_mean_and_says_how_far_the_models_differ(
    made: Path, runs: list[Path]
) -> None:
    mesh = made / "raw" / "5.vtp"
    alone = [predict(run, mesh) for run in runs]
    together = predict(runs, mesh)
    for name in ("p", "wallShearStress"):
        several = np.stack([one.fields[name] for one in alone]).astype(np.float64)
        np.testing.assert_allclose(together.fields[name], several.mean(0), rtol=1e-5, atol=1e-6)
        variances = several.var(0, ddof=1).reshape(len(several[0]), -1).sum(1)
        np.testing.assert_allclose(together.spread[name], np.sqrt(variances), rtol=1e-4, atol=1e-6)
    assert alone[0].spread == {} and "mean of 3 models" in together.how
    assert together.mesh["p_spread"].shape == (together.rows,)
    wishes = ForceWishes(REFERENCE)
    assert prediction_forces(together.of_member(1), wishes).predicted.total == pytest.approx(
        prediction_forces(alone[1], wishes).predicted.total
    )


def test_the_command_writes_one_output_with_spreads_and_bands(
    made: Path, runs: list[Path], command: Command, tmp_path: Path
) -> None:
    mesh, out = made / "raw" / "5.vtp", tmp_path / "out"
    forces = ("--forces", *GIVEN, "--flow-density", DENSITY)
    none = command("predict", *runs, mesh, "--out", out, "--bands", *CPU)
    assert none.code == 2 and "--bands needs a calibration, got none" in none.err
    said = command("calibrate", *runs, "--split", "test", "--meshes", made / "raw", "--density",
                   DENSITY, *GIVEN, *CPU)  # fmt: skip
    assert said.code == 0 and "of 3 models together" in " ".join(said.out.split()), said.err
    likeness = runs[0] / "likeness.safetensors"
    first = likeness.read_bytes()
    command("calibrate", *runs, "--split", "val", *CPU)
    assert likeness.read_bytes() == first  # that of the first run stays as it was made
    command("calibrate", runs[0], "--split", "val", *CPU)
    assert likeness.read_bytes() != first
    command("calibrate", *runs, "--split", "test", "--meshes", made / "raw", "--density", DENSITY,
            *GIVEN, *CPU)  # fmt: skip
    few = command("predict", *runs, mesh, "--out", out, "--bands", *CPU)
    assert few.code == 2 and "at most 75 % can be promised with 3 samples" in few.err
    said = command("predict", *runs, mesh, "--out", out, "--bands", "--level", 0.75, "--json",
                   *forces, *CPU)  # fmt: skip
    (result,) = json.loads(said.out)["predictions"]
    alone = [predict(run, mesh).forces(**REFERENCE).coefficients["cd"] for run in runs]
    assert result["coefficient_spread"]["cd"] == pytest.approx(np.std(alone, ddof=1), rel=1e-3)
    assert result["forces"]["coefficients"]["cd"] == pytest.approx(np.mean(alone), rel=1e-3)
    assert result["bounds"]["coefficients"]["cd"]["samples"] == 3
    written = pv.read(out / "5.vtp")
    assert {"p_spread", "p_band", "wallShearStress_band"} <= set(written.cell_data.keys())
    assert float(np.min(written["p_band"])) > 0
    models = as_ensemble(runs, device="cpu")
    calibration = read_calibration(runs, models.weights)
    assert calibration is not None and calibration.models == 3
    sample = StoredSample(open_store(made / "store"), "5")
    several = np.stack([predict_stored(one, sample).numpy() for one in models.members])
    features = sample.rows(0, sample.count).features
    assert features is not None
    known = known_at_points(models.first, torch.from_numpy(several.mean(0)), features[0])
    widths = calibration.fields["p"].scale.at(known, spread_of(several[..., 0]))
    largest = max(score for score in calibration.fields["p"].band.values() if score is not None)
    np.testing.assert_allclose(
        np.sort(written["p_band"]), np.sort(largest * widths), rtol=2e-3, atol=0
    )
    again = command("predict", *reversed(runs), mesh, "--out", out, "--bands", "--level", 0.75,
                    *forces, *CPU)  # fmt: skip
    assert "(kept)" in again.out  # the order of the runs is of no account


def test_models_that_do_not_fit_together_are_refused(
    made: Path, runs: list[Path], command: Command, tmp_path: Path
) -> None:
    mesh = made / "raw" / "5.vtp"

    def refused(*places: Any, by: str = "predict", out: bool = True) -> str:
        more = ("--out", tmp_path / "out") if out else ()
        said = command(by, *places, *more, *CPU)
        assert said.code == 2 and "Traceback" not in said.err
        return " ".join(said.err.split())

    assert "got one of them twice" in refused(runs[0], runs[0], mesh)
    assert "MESH must be given after the run, got none after" in refused(*runs)
    trained = load_model(runs[1])
    assert trained.recipe is not None
    write_model(
        runs[1] / "model.safetensors",
        replace(trained, recipe=replace(trained.recipe, location="point")),
    )
    assert "got model 2 with another location" in refused(*runs, mesh)
    assert "--slices must go with one model, got 2" in refused(runs[0], runs[2], mesh, "--slices")
    write_model(
        runs[1] / "model.safetensors",
        replace(trained, about={**trained.about, "split_hash": "f" * 64}),
    )
    reason = refused(*runs, by="calibrate", out=False)
    assert "must have learned from the same data and splits" in reason


def test_the_calibration_of_several_is_beside_the_first(runs: list[Path]) -> None:
    weights = as_ensemble(runs, device="cpu").weights
    assert weights == as_ensemble(runs[::-1], device="cpu").weights
    assert calibration_file(runs, weights) == calibration_file(runs[::-1], weights)
    assert calibration_file(runs, weights).parent == runs[0]
    assert calibration_file(runs[:1], "0").name == "calibration.json"


def test_evaluate_calibrates_what_is_not_calibrated(
    made: Path, runs: list[Path], command: Command
) -> None:
    run = runs[0]
    said = command("evaluate", run, "--no-calibrate", *CPU)
    assert said.code == 0 and not (run / "calibration.json").exists()
    said = command("evaluate", run, *CPU)
    assert "calibrated on 1 samples of the val split" in " ".join(said.out.split())
    file = run / "calibration.json"
    first = file.read_bytes()
    assert "calibrated on" not in command("evaluate", run, *CPU).out
    assert file.read_bytes() == first
    file.write_text("{}")
    shown = json.loads(command("evaluate", run, "--json", *CPU).out)
    assert list(shown["calibrations"]) == [str(run)] and file.read_bytes() == first
