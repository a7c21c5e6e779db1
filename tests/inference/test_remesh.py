"""How far a prediction moves on other meshes: clouds of the same geometry, and what is said."""

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
from numpy.typing import NDArray

from slipstream.cli.remesh_text import remesh_warnings
from slipstream.core.records import read_records
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.geometry import distance_to_triangles
from slipstream.data.store import ingest
from slipstream.inference.bounds import Bound, Bounds
from slipstream.inference.many import MeshResult
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.predict import Choices, encode_fields, predict
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.prediction_forces import ForceWishes
from slipstream.inference.remesh import Remesh, exceeding, measure_remesh
from slipstream.inference.remesh_clouds import other_clouds
from slipstream.inference.wishes import Wishes
from slipstream.runs.ensemble import Models, as_ensemble
from slipstream.runs.model_file import load_model
from slipstream.training.session import train

from ..conftest import Command
from ..data.mesh_folders import ball, save, with_fields
from ..training.small import small
from . import flows

AT_21 = Choices(InputChoices({"U_inf": 21.0}), "full")
AUTO = replace(AT_21, density="auto")
FORCES = ForceWishes({"area": 3.5, "density": 1.2})


def one_sided(body: pv.PolyData) -> pv.PolyData:
    """With the faces at x > 0 split into 16 each; the others are as they were."""
    front = np.asarray(body.cell_centers().points)[:, 0] > 0
    parts = [
        body.extract_cells(chosen).extract_surface(algorithm=None) for chosen in (front, ~front)
    ]
    return pv.merge([parts[0].subdivide(2, "linear"), parts[1]]).extract_surface(algorithm=None)


def moves(run: Models, mesh: Any, choices: Choices = AT_21, count: int = 5, **more: Any) -> Remesh:
    return measure_remesh(run, predict(run, mesh, choices=choices), choices, count, **more)


def trained(folder: Path, location: str, variant: str = "baseline") -> Path:
    """As `flows.surface_run`, at points or cells, and by another variant."""
    (folder / "raw").mkdir(parents=True)
    for k in range(4):
        save(with_fields(ball(1 + 0.1 * k), location), folder / "raw" / f"run_{k}.vtp")
    rows = ["run,U", *(f"{k},{20 + k}" for k in range(4))]
    (folder / "raw" / "designs.csv").write_text("\n".join(rows))
    card = flows.SURFACE.replace("location: cell", f"location: {location}")
    (folder / "card.yaml").write_text(card)
    ingest(MeshSource(folder / "raw", read_card(folder / "card.yaml")), folder / "store")
    config = small(
        data__problem=None, data__builtin=None, data__store=str(folder / "store"),
        data__points=None, batch=1, steps=8, optim__learning_rate=0.02, model__variant=variant,
    )  # fmt: skip
    train(config, folder / "run", device="cpu")
    return folder / "run"


@pytest.fixture(scope="module")
def point_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("points"), "point")


@pytest.mark.parametrize("location", ["cell", "point"])
def test_a_mesh_split_on_one_side_moves_more(
    surface_run: Path, point_run: Path, location: str
) -> None:
    run = surface_run if location == "cell" else point_run
    even, split = moves(run, ball(1.05)), moves(run, one_sided(ball(1.05)))
    for name in ("p", "tau"):
        assert 0 < even.fields[name].largest < 0.5 * split.fields[name].largest
        assert split.fields[name].by["even"] == split.fields[name].largest
        assert split.fields[name].by["own"] < 0.5 * split.fields[name].largest
    assert [mesh.factor for mesh in even.meshes] == [1.0, 0.5, 2.0, 0.5, 2.0]
    assert moves(run, ball(1.05)).to_json() == even.to_json()


def test_numbers_by_hand(surface_run: Path) -> None:
    mesh = one_sided(ball(1.1))
    prediction = predict(surface_run, mesh, choices=AT_21)
    remesh = measure_remesh(surface_run, prediction, AT_21, 3, FORCES)
    given, fields = prediction.fields, prediction.inputs
    values: dict[str, list[NDArray[Any]]] = {"p": [], "tau": []}
    differences = []
    models = as_ensemble(surface_run)
    inputs = {"normal": fields.features["normal"], "U_inf": 21.0}
    speed = {"area": 3.5, "density": 1.2}
    for cloud in other_clouds(fields, prediction.recipe, 3, 10**6):
        (tokens,) = encode_fields(models, cloud.fields, AT_21)
        moved = np.asarray(models.first.decode(fields.coords, inputs, tokens=tokens))
        values["p"].append(moved[:, 0] - given["p"])
        values["tau"].append(np.linalg.norm(moved[:, 1:] - given["tau"], axis=1))
        other = replace(prediction, fields={"p": moved[:, 0], "tau": moved[:, 1:]})
        differences.append(other.forces(**speed).cd - prediction.forces(**speed).cd)
    sizes = np.abs(values["p"]).sum(1) / np.abs(given["p"]).sum()
    p, cd = remesh.fields["p"], remesh.coefficients["cd"]
    assert [mesh.fields["p"] for mesh in remesh.meshes] == pytest.approx(sizes, abs=2e-6)
    assert (p.largest, p.rms) == pytest.approx((sizes.max(), np.sqrt((sizes**2).mean())), rel=1e-3)
    assert [m.coefficients["cd"] for m in remesh.meshes] == pytest.approx(differences, abs=1e-6)
    assert cd.largest == pytest.approx(np.abs(differences).max(), rel=1e-3)
    assert (cd.range, cd.deviation) == pytest.approx(
        (np.ptp([0, *differences]), np.std([0, *differences], ddof=1)), rel=1e-3
    )
    single = measure_remesh(surface_run, prediction, AT_21, 1, FORCES).coefficients["cd"]
    assert single.range == single.largest, "the prediction as given is among the values"
    for name, changes in values.items():
        expected = np.sqrt(np.mean(np.square(changes), axis=0))
        np.testing.assert_allclose(remesh.spread[name], expected, rtol=1e-3, atol=1e-6)


def clouds(
    run: Models, mesh: Any, choices: Choices, count: int
) -> tuple[MeshPrediction, list[Any]]:
    prediction = predict(run, mesh, choices=choices)
    return prediction, list(other_clouds(prediction.inputs, prediction.recipe, count, 10**6))


def share_in_front(coords: NDArray[Any]) -> float:
    return float((coords[:, 0] > 0).mean())


@pytest.mark.parametrize("location", ["cell", "point"])
def test_points_are_on_the_surface_and_spread(
    surface_run: Path, point_run: Path, location: str
) -> None:
    """Also of a mesh in mm; normals are those of the faces."""
    run = surface_run if location == "cell" else point_run
    mesh = one_sided(ball(1.0))
    rows = mesh.points if location == "point" else mesh.cell_centers().points
    given = share_in_front(np.asarray(rows))
    tiny = mesh.scale(1000.0)
    choices = replace(AT_21, inputs=replace(AT_21.inputs, scale=0.001))
    prediction, made = clouds(run, tiny, choices, 5)
    for cloud in made:
        coords, normal = cloud.fields.coords, cloud.fields.features["normal"]
        assert len(coords) == round(cloud.factor * prediction.rows) == len(normal)
        away = distance_to_triangles(coords, np.asarray(mesh.points), mesh.regular_faces)
        assert away.max() < 1e-6
        np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, rtol=1e-6)
        assert ((coords / np.linalg.norm(coords, axis=1)[:, None]) * normal).sum(1).min() > 0.9
        if cloud.spread == "even":  # over 30 draws no octant was off by more than 0.008
            octants = np.bincount((coords > 0) @ [1, 2, 4], minlength=8) / len(coords)
            np.testing.assert_allclose(octants, 1 / 8, atol=0.012)
        else:  # corners on the seam have large faces on one side: up to 0.033
            assert share_in_front(coords) == pytest.approx(given, abs=0.04)


def test_rows_that_are_not_predicted_have_no_part(point_run: Path) -> None:
    """A point of no face has no normal, and is in no cloud; its spread is NaN."""
    body = ball(1.0)
    lost = pv.PolyData(np.vstack([body.points, [[0, 0, 0]]]).astype(np.float32), body.faces)
    own, other = moves(point_run, body), moves(point_run, lost)
    assert other.to_json() == own.to_json()
    assert np.isnan(other.spread["p"][-1]) and np.isfinite(other.spread["p"][:-1]).all()


def test_a_recipe_that_moves_and_cuts(surface_run: Path) -> None:
    """Coordinates less an offset, in a box that cuts the ball: points are on its faces within."""
    model = load_model(surface_run)
    assert model.recipe is not None
    coords = replace(
        model.recipe.coords, subtract=(0.5, 0.0, 0.0), box=((None, 0.0, None), (None, None, None))
    )
    moved = replace(model, recipe=replace(model.recipe, coords=coords))
    prediction, made = clouds(moved, ball(1.0), AT_21, 2)
    kept = prediction.inputs.kept
    assert kept is not None and prediction.inputs.points == 168
    for cloud in made:
        places = cloud.fields.coords + [0.5, 0, 0]
        faces = ball(1.0).regular_faces[kept]
        assert distance_to_triangles(places, np.asarray(ball(1.0).points), faces).max() < 1e-6
    spread = moves(moved, ball(1.0), count=2).spread["p"]
    assert np.isfinite(spread).sum() == 168 == np.isfinite(spread[kept]).sum()


def test_progress_goes_one_way(surface_run: Path) -> None:
    seen: list[float] = []
    several = [load_model(surface_run), load_model(surface_run)]
    with torch.no_grad():
        next(several[1].model.parameters()).mul_(1.1)
    models = as_ensemble(several)
    choices = replace(AT_21, watch=lambda done, total: seen.append(done / total))
    wishes = Wishes(remesh=2)
    prediction = predict(models, ball(1.0), choices=wishes.for_prediction(choices))
    assert seen[-1] == pytest.approx(1 / 3)
    wishes.other_clouds(models, prediction, choices)
    assert seen == sorted(seen) and seen[-1] == 1 and len(set(seen)) > 12


def test_a_volume_has_subsets(volume_run: Path, tmp_path: Path) -> None:
    surface = save(flows.body(), tmp_path / "body.stl")
    choices = Choices(InputChoices(surface=surface))
    prediction, made = clouds(volume_run, flows.room(5), choices, 4)
    rows = {tuple(row): k for k, row in enumerate(prediction.inputs.coords)}
    for cloud, count in zip(made, (62, 42, 31, 62), strict=True):
        numbers = [rows[tuple(row)] for row in cloud.fields.coords]
        assert len(set(numbers)) == count == len(numbers) and cloud.spread == "subset"
        gap = np.asarray(prediction.inputs.features["gap"])
        np.testing.assert_array_equal(cloud.fields.features["gap"], gap[numbers])
    assert not np.array_equal(made[0].fields.coords, made[3].fields.coords)
    remesh = moves(volume_run, flows.room(5), choices, count=3)
    assert remesh.fields["p"].largest > 0 and "random subsets" in remesh.notes[0]


def test_distances_are_computed_anew(volume_run: Path, tmp_path: Path) -> None:
    """A model of distances whose domain is not known, on a surface with faces."""
    surface = save(flows.body(), tmp_path / "body.stl")
    choices = Choices(InputChoices(surface=surface))
    prediction = predict(volume_run, ball(0.8), choices=choices)
    recipe = replace(prediction.recipe, domain=None)
    for cloud in other_clouds(prediction.inputs, recipe, 2, 10**6):
        points, triangles = flows.body().points, flows.body().regular_faces
        expected = distance_to_triangles(cloud.fields.coords, np.asarray(points), triangles)
        np.testing.assert_allclose(cloud.fields.features["gap"], expected, rtol=1e-5)


def test_tokens_of_subsets_need_no_larger_clouds(surface_run: Path) -> None:
    model = load_model(surface_run)
    assert model.recipe is not None
    draw = replace(model.recipe.points.draw, most=20)
    recipe = replace(model.recipe, points=replace(model.recipe.points, draw=draw))
    remesh = moves(replace(model, recipe=recipe), ball(1.0), AUTO)
    assert max(mesh.points for mesh in remesh.meshes) == 160
    assert "random subsets of 20 points in any case" in remesh.notes[0]


def test_several_models_are_compared_by_their_mean(surface_run: Path) -> None:
    """Each with its own tokens: the second model has other weights."""
    several = [load_model(surface_run), load_model(surface_run)]
    with torch.no_grad():
        for parameter in several[1].model.parameters():
            parameter *= 1.1
    models, mesh = as_ensemble(several), one_sided(ball(1.0))
    together = predict(models, mesh, choices=AT_21)
    expected = -together.fields["p"].astype(np.float64)
    for model in several:
        prediction, (cloud,) = clouds(model, mesh, AT_21, 1)
        (tokens,) = encode_fields(as_ensemble(model), cloud.fields, AT_21)
        inputs = {"normal": prediction.inputs.features["normal"], "U_inf": 21.0}
        own = model.decode(prediction.inputs.coords, inputs, tokens=tokens)
        expected += np.asarray(own)[:, 0] / 2
    spread = measure_remesh(models, together, AT_21, 1).spread["p"]
    np.testing.assert_allclose(spread, np.abs(expected), atol=1e-5)
    assert spread.max() > 1e-3


def test_no_coupling_no_change(tmp_path: Path) -> None:
    run = trained(tmp_path, "cell", "mlp-only")
    remesh = moves(run, one_sided(ball(1.0)), forces=FORCES)
    assert {moved.largest for moved in remesh.fields.values()} == {0.0}
    assert {moved.largest for moved in remesh.coefficients.values()} == {0.0}


def test_the_command(surface_run: Path, tmp_path: Path, command: Command) -> None:
    run = Path(shutil.copytree(surface_run, tmp_path / "run"))
    mesh = save(one_sided(ball(1.1)), tmp_path / "a.vtp")
    how = ("predict", run, mesh, "--out", tmp_path / "out", "--set", "U_inf=21", "--forces",
           "--area", 3.5, "--flow-density", 1.2, "--device", "cpu")  # fmt: skip
    plain = command(*how, "--json")
    assert plain.code == 0 and json.loads(plain.out)["predictions"][0]["remesh"] is None
    assert "exists (--overwrite" in command(*how, "--remesh", 3).err
    said = command(*how, "--remesh", 3, "--overwrite")
    assert said.code == 0, said.err
    expected = moves(surface_run, mesh, AUTO, 3, forces=FORCES)
    p, cd = expected.fields["p"], expected.coefficients["cd"]
    assert f"geometry p moves by {p.rms:.2%} (at most {p.largest:.2%}, by" in said.out
    assert f"geometry Cd moves by {cd.rms:.2g} (at most {cd.largest:.2g}" in said.out
    assert "p moves" in said.out and "Cd moves" in said.out
    result = read_records(tmp_path / "out" / "predictions.jsonl")[-1]["result"]
    assert result["remesh"]["coefficients"]["cd"]["rms"] == pytest.approx(cd.rms, rel=1e-6)
    array = pv.read(tmp_path / "out" / "a.vtp").cell_data["p_mesh_spread"]
    np.testing.assert_allclose(array, expected.spread["p"], rtol=1e-5)
    again = command(*how, "--remesh", 3, "--json")
    (kept,) = json.loads(again.out)["predictions"]
    assert kept["status"] == "kept" and kept["remesh"]["exceeding"] == {}
    wrong = command(*how, "--remesh", 0)
    assert wrong.code == 2
    assert wrong.err.strip() == ("slipstream: --remesh must be a whole number of at least 1, got 0")


def test_verdicts_beside_the_calibrated_error(surface_run: Path) -> None:
    remesh = moves(surface_run, one_sided(ball(1.1)), forces=FORCES).to_json()
    p, cd = remesh["fields"]["p"], remesh["coefficients"]["cd"]

    def warnings(p_bound: float | None, cd_bound: float) -> list[str]:
        bounds = Bounds(0.9, "val", {"p": Bound(9, p_bound)}, {"cd": Bound(9, cd_bound)})
        found = {**remesh, "exceeding": exceeding(remesh, bounds)}
        return list(remesh_warnings(MeshResult("a", "predicted", remesh=found, bounds=bounds)))

    assert warnings(p["largest"], cd["largest"]) == [] == warnings(None, cd["largest"])
    own, even = p["by"]["own"], p["by"]["even"]
    (spread,) = warnings((own + even) / 2, cd["largest"])
    assert spread.startswith(f"points spread evenly by area move p by up to {even:.2%}, more than")
    assert spread.endswith("only for meshes that are spread as those of the training")
    (dense, of_cd) = warnings(own / 2, cd["by"]["own"] / 2)
    assert dense.startswith("finer or coarser meshes with the same spread of points move p")
    assert dense.endswith("which saw 320 points at a time") and f" by up to {own:.2%}" in dense
    assert f"move Cd by up to {cd['by']['own']:.2g}, more than the calibrated ±" in of_cd
