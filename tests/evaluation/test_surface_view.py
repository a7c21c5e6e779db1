"""The faces of a surface in pictures: the mesh's own, or fewer like them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.evaluation import surface_view as module
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.surface_view import fewer_triangles
from slipstream.reports.draw.scenes import make_scene
from slipstream.runs.evaluation_file import predictions_of
from slipstream.runs.folder import RunFolder
from slipstream.runs.prediction_file import Prediction, read_prediction, write_prediction

pv = pytest.importorskip("pyvista")
from .own_bodies import body, make_run, stresses  # noqa: E402


def predicted(folder: Path, location: str) -> tuple[Prediction, Path]:
    run = RunFolder(make_run(folder, location))
    request = EvaluationRequest(device="cpu", pictures=("5",), meshes=folder / "raw")
    (one,) = evaluate_runs([run], request)
    file = predictions_of(run, one)["5"]
    return read_prediction(file), file


def test_points_show_their_own_values_on_the_meshs_faces(tmp_path: Path) -> None:
    found, file = predicted(tmp_path, "point")
    mesh = body(5)
    assert found.corners is not None and found.triangles is not None and found.rows is not None
    np.testing.assert_array_equal(
        np.sort(found.corners[found.triangles.long()].numpy().reshape(-1, 9), 0),
        np.sort(mesh.points[mesh.regular_faces].reshape(-1, 9), 0),
    )
    np.testing.assert_array_equal(found.coords[found.rows.long()], found.corners)
    scene = make_scene({"baseline": found})
    assert scene.kind == "surface" and scene.triangles is not None
    assert scene.triangles.shape == (320, 3) and len(scene.coords) == 162
    truth = stresses(scene.coords.astype(float), 5)[0]
    np.testing.assert_allclose(scene.fields[0].truth, truth, rtol=1e-5, atol=1e-3)
    without = make_scene({"baseline": replace(found, corners=None, triangles=None, rows=None)})
    assert without.reconstructed and not scene.reconstructed and len(without.coords) == 162
    for name in ("corners", "triangles", "rows"):
        write_prediction(file, replace(found, **{name: None}))
        with pytest.raises(ValueError, match=f"faces must have .*, got no {name}"):
            read_prediction(file)
    write_prediction(file, replace(found, rows=found.rows + 162))
    with pytest.raises(ValueError, match="rows must be from 0 to 161"):
        read_prediction(file)


def test_cells_show_one_value_on_each_face(tmp_path: Path) -> None:
    found, _ = predicted(tmp_path, "cell")
    scene = make_scene({"baseline": found})
    assert scene.triangles is not None and scene.triangles.shape == (320, 3)
    shown = scene.fields[0].truth[scene.triangles]
    assert (shown == shown[:, :1]).all()
    centres = scene.coords[scene.triangles].mean(1).astype(float)
    np.testing.assert_allclose(shown[:, 0], stresses(centres, 5)[0], rtol=1e-4, atol=1e-2)


def test_fewer_triangles_stay_on_the_surface() -> None:
    mesh = pv.Icosphere(radius=2.0, nsub=5)
    points, faces = np.asarray(mesh.points, np.float64), mesh.regular_faces.astype(np.int64)
    triangles, kept = fewer_triangles(points, faces, 3000)
    assert 1500 < len(triangles) <= 3000 and len(kept) == len(triangles)
    small = pv.PolyData.from_regular_faces(points, triangles)
    assert small.area == pytest.approx(16 * np.pi, rel=0.03)
    away = np.linalg.norm(points[faces[kept]].mean(1) - points[triangles].mean(1), axis=1)
    assert away.max() < 0.25, "each is near the one that it was"
    same, numbers = fewer_triangles(points, faces, len(faces))
    assert same is faces and (numbers == np.arange(len(faces))).all()


@pytest.mark.parametrize("location", ["point", "cell"])
def test_what_was_not_predicted_shows_the_closest(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = predicted(tmp_path, location)
    assert found.rows is not None and found.corners is not None
    rows, corners = found.rows.numpy(), found.corners.numpy()
    coords = found.coords.numpy()[:40]
    given = module._predicted(rows.astype(np.int64), corners, coords)
    assert given.max() < 40 and (given[rows < 40] == rows[rows < 40]).all()
    away = np.linalg.norm(corners[:, None] - coords[None], axis=-1)
    others = rows >= 40
    np.testing.assert_allclose(away[others, given[others]], away[others].min(1), atol=1e-6)
    assert torch.is_tensor(found.rows)
