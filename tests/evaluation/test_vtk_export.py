"""Files for ParaView: on the meshes that were ingested, or at points."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from slipstream.core.configs import overlay
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import Field, Schema, ingest
from slipstream.evaluation import predict_sample
from slipstream.evaluation.vtk_export import UNKNOWN_SLICE, point_arrays
from slipstream.experiments import experiment
from slipstream.runs.prediction_file import Prediction
from slipstream.training.session import train

from ..conftest import Command

pv = pytest.importorskip("pyvista")
from ..data.mesh_folders import ball, block, pressure, save, with_fields  # noqa: E402

SMALL = {
    "steps": 2,
    "batch": 1,
    "evaluate_every": 1,
    "data.points": 40,
    "precision": "fp32",
    "data.workers": 0,
    "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
}


def trained_on(raw: Path, **card: Any) -> Path:
    """The folder of a run on a store of these meshes: two of training, one of each other split."""
    given = {
        "schema": 1,
        "files": {"mesh": "{id}.vtp"},
        "coords": {"name": "position", "unit": "m", "subtract": [0.25, 0, 0]},
        "targets": [{"name": "p", "unit": "Pa", "from": {"array": "p"}, "scale": 2}],
        "splits": {"lists": {"train": ["0", "1"], "val": ["2"], "test": ["3"]}},
        **card,
    }
    path = raw.parent / "card.yaml"
    path.write_text(yaml.safe_dump(given), "utf-8")
    ingest(MeshSource(raw, read_card(path)), raw.parent / "store")
    config = overlay(experiment("own"), {**SMALL, "data.store": str(raw.parent / "store")})
    train(config, raw.parent / "run", device="cpu")
    return raw.parent / "run"


def read(said: str) -> tuple[Any, str]:
    """The file that a line names, and what is said about it."""
    (line,) = (line for line in said.splitlines() if line.startswith("Wrote "))
    path, contents = line.removeprefix("Wrote ").split(": ", 1)
    return pv.read(path), contents


def test_a_surface_is_written_with_its_cells(tmp_path: Path, command: Command) -> None:
    """Rows outside of a box are NaN; the points of the mesh are those of the file."""
    for k in range(4):
        save(with_fields(ball(1 + k / 8)), tmp_path / "raw" / f"{k}.vtp")
    run = trained_on(tmp_path / "raw", box={"low": [-0.5, None, None], "high": [None] * 3})
    said = command("evaluate", run, "--vtk", "--meshes", tmp_path / "raw", "--device", "cpu")
    assert said.code == 0, said.err
    mesh, contents = read(said.out)
    original = pv.read(tmp_path / "raw" / "3.vtp")
    np.testing.assert_array_equal(mesh.regular_faces, original.regular_faces)
    np.testing.assert_array_equal(mesh.points, original.points)
    inside = original.points[:, 0] >= -0.5
    assert contents == f"{inside.sum()} of the 162 points of 3.vtp, the others are NaN."
    np.testing.assert_array_equal(np.isfinite(mesh["p"]), inside)
    np.testing.assert_allclose(mesh["p"][inside], 2 * pressure(original.points)[inside], rtol=1e-6)
    assert sorted(mesh.point_data) == ["entropy", "most_probable_slice"] + [
        f"p{end}" for end in ("", "_error", "_prediction")
    ]
    assert np.isfinite(mesh["p_prediction"][inside]).all() and not mesh.cell_data
    assert set(mesh["most_probable_slice"][inside]) <= {0, 1, 2}
    assert set(mesh["most_probable_slice"][~inside]) == {UNKNOWN_SLICE}


def test_cells_of_a_volume_and_all_slices(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many cells as the protocol predicts; the file says so."""
    for k in range(4):
        save(with_fields(block(k / 8), "cell"), tmp_path / "raw" / f"{k}.vtu")
    monkeypatch.setitem(SMALL, "data.points", 10)
    monkeypatch.setattr(predict_sample, "MOST_POINTS", 20)
    run = trained_on(tmp_path / "raw", files={"mesh": "{id}.vtu"}, location="cell")
    asked = ("evaluate", run, "--vtk", "--device", "cpu", "--meshes", tmp_path / "raw")
    mesh, contents = read(command(*asked, "--slices").out)
    assert contents == (
        "20 of the 24 cells of 3.vtu, the others are NaN, --full predicts all that are in the"
        " store."
    )
    original = pv.read(tmp_path / "raw" / "3.vtu")
    np.testing.assert_array_equal(mesh.cells, original.cells)
    known = np.isfinite(mesh.cell_data["p"])
    assert known.sum() == 20 and not mesh.point_data
    np.testing.assert_allclose(mesh["p"][known], 2 * original["p"][known], rtol=1e-6)
    weights = [mesh[f"slice_weights_head_{head}"][known] for head in (0, 1)]
    np.testing.assert_allclose([each.sum(1) for each in weights], 1, atol=3e-3)
    np.testing.assert_array_equal(weights[0].argmax(1), mesh["most_probable_slice"][known])
    assert read(command(*asked, "--full").out)[1] == "all 24 cells of 3.vtu."


def test_without_the_meshes_there_are_points(tmp_path: Path, command: Command) -> None:
    for k in range(4):
        save(with_fields(ball(1 + k / 8)), tmp_path / "raw" / f"{k}.vtp")
    run = trained_on(tmp_path / "raw")
    asked = ("evaluate", run, "--vtk", "--device", "cpu")
    mesh, contents = read(command(*asked).out)
    assert contents.startswith("162 points without cells, --meshes FOLDER writes onto the meshes")
    assert mesh.n_points == 162
    said = json.loads(command(*asked, "--json").out)["vtk"]
    assert [row["path"] for row in said] == [str(run / "predictions" / "3.vtp")]
    save(with_fields(ball(2.0)), tmp_path / "raw" / "3.vtp")
    said = command(*asked, "--meshes", tmp_path / "raw")
    assert said.code == 2 and "the file has changed since" in said.err
    said = command("evaluate", run, "--slices")
    assert said.code == 2 and "must go with --vtk" in said.err


def test_no_array_replaces_another() -> None:
    """A target p, and others that are called as what is computed of it."""
    targets = tuple(Field(name, "1") for name in ("p", "p_error", "entropy"))
    schema = Schema((Field("x", "m", components=2),), (), targets)
    truth = torch.arange(6.0).reshape(2, 3)
    prediction = Prediction(
        *("own", "baseline", 0, 1, "test", "s"), schema, {}, torch.zeros(2, 2), torch.zeros(2, 0),
        truth, truth + 0.5, torch.full((2, 1, 4), 0.25),
    )  # fmt: skip
    arrays = point_arrays(prediction)
    assert [arrays[name].tolist() for name in ("p", "p_error", "entropy")] == truth.T.tolist()
    assert arrays["p_error_2"].tolist() == [0.5, 0.5]
    assert arrays["entropy_2"] == pytest.approx(np.log([4, 4]))
    few = point_arrays(replace(prediction, weights=torch.full((1, 1, 4), 0.25)), slices=True)
    assert few["most_probable_slice"].tolist() == [0, UNKNOWN_SLICE]
    assert np.isnan(few["slice_weights_head_0"][1]).all()
