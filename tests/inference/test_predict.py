"""A model on a mesh, in Python: inputs, densities, forces, queries, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import pyvista as pv
import torch

import slipstream
from slipstream.inference.bands import Band
from slipstream.inference.densities import token_points
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.predict import Choices
from slipstream.inference.queries import Line, Plane, ask, ask_plane, ask_points
from slipstream.inference.slice_arrays import slice_arrays
from slipstream.runs.band_scale import BandScale
from slipstream.runs.ensemble import as_ensemble
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.recipe import CoordinateRecipe
from slipstream.runs.tokens import load_tokens

from ..data.mesh_folders import ball, save, with_fields
from ..runs.carded import make_run
from .flows import area_vectors, body, centres, convex_normals, room
from .test_formats import gaps


@pytest.fixture(scope="module")
def surface_model(surface_run: Path) -> TrainedModel:
    return load_model(surface_run)


@pytest.fixture(scope="module")
def volume_model(volume_run: Path) -> TrainedModel:
    return load_model(volume_run)


@pytest.fixture(scope="module")
def carded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("carded"))


def test_objects_in_memory_are_left_alone(surface_model: TrainedModel) -> None:
    mesh = with_fields(ball(1.1), "cell")
    before = mesh.copy()
    p = slipstream.predict(surface_model, mesh, U_inf=21.0)
    assert mesh.array_names == before.array_names
    expected = surface_model(centres(mesh), {"normal": convex_normals(mesh), "U_inf": 21.0})
    np.testing.assert_allclose(p.fields["p"], expected[:, 0], rtol=1e-4, atol=1e-4)
    assert isinstance(p.mesh, pv.PolyData)
    np.testing.assert_array_equal(p.mesh.cell_data["p_prediction"], p.fields["p"])
    np.testing.assert_array_equal(p.mesh.cell_data["p"], mesh.cell_data["p"])
    true = np.asarray(mesh.cell_data["p"], np.float64)
    error = np.abs(expected[:, 0] - true).sum() / np.abs(true).sum()
    assert p.errors["p"] == pytest.approx(error, rel=1e-4) and set(p.errors) == {"p", "tau"}
    arrays = (np.asarray(mesh.points), mesh.regular_faces)
    again = slipstream.predict(surface_model, arrays, U_inf=21.0)
    np.testing.assert_allclose(again.fields["p"], p.fields["p"], rtol=1e-5, atol=1e-5)
    assert again.errors == {} and "p" in again.mesh.cell_data


def test_a_card_with_everything(carded_run: Path) -> None:
    """Coordinates moved, an array scaled, a distance, parameters, a box, divided targets."""
    trained = load_model(carded_run)
    mesh = ball(1.15)
    mesh.point_data["h"] = mesh.points[:, 2]
    how = InputChoices({"speed": 21.0, "rho": 1.2}, surface=None)
    surface = carded_run.parent / "raw" / "body.stl"
    choices = Choices(replace(how, surface=surface))
    p = slipstream.predict(trained, mesh, choices=choices)
    x = np.asarray(mesh.points, np.float64)
    features = {
        "normal": x / np.linalg.norm(x, axis=1, keepdims=True),
        "gap": np.abs(pv.PolyData(x).compute_implicit_distance(pv.read(surface))
                      .point_data["implicit_distance"]),
        "height": 2 * x[:, 2],
        "speed": 21.0,
        "rho": 1.2,
    }  # fmt: skip
    expected = trained(x - (1, 0, 0), features)
    np.testing.assert_allclose(p.fields["p"], expected[:, 0], rtol=2e-3, atol=2e-3)
    # What the card divided by 0.5 rho U^2 comes back in Pa.
    np.testing.assert_allclose(p.fields["cp"], expected[:, 4], rtol=2e-3, atol=0.5)
    # So does the band of what was divided, and no other.
    one_width, models = BandScale(0.3, (), 0.0, 0.0, 0.3), as_ensemble(trained)
    pascals = 0.5 * 1.2 * 21.0**2
    for name, factor in (("cp", pascals), ("p", 1.0)):
        band = Band(name, 2.0, one_width).at(models, p)
        np.testing.assert_allclose(band, 0.6 * factor, rtol=1e-6)
    with pytest.raises(
        ValueError, match=r"the parameter speed \[m/s\] must be given \(--set speed="
    ):
        slipstream.predict(trained, mesh, rho=1.2)
    with pytest.raises(ValueError, match="must be one of speed, rho, got 'height'"):
        slipstream.predict(trained, mesh, speed=21.0, rho=1.2, height=2.0)
    with pytest.raises(ValueError, match="gap .* must be had from a surface"):
        slipstream.predict(trained, mesh, speed=21.0, rho=1.2)
    with pytest.raises(ValueError, match="'h'.*the model takes height"):
        slipstream.predict(trained, ball(1.15), speed=21.0, rho=1.2)


def test_rows_that_cannot_be_predicted_are_nan_and_add_nothing(surface_model: TrainedModel) -> None:
    mesh = ball(1.1)
    flat = pv.PolyData(
        np.concatenate((mesh.points, [[0, 0, 0]])),
        np.concatenate((mesh.faces, [3, 0, 0, 1])),
    )
    p = slipstream.predict(surface_model, flat, U_inf=21.0)
    whole = slipstream.predict(surface_model, mesh, U_inf=21.0)
    assert np.isnan(p.fields["p"][-1]) and p.rows == mesh.n_cells + 1
    band = Band("p", 2.0, BandScale(0.3, (), 0.0, 0.0, 0.3)).at(as_ensemble(surface_model), p)
    assert np.isnan(band[-1]) and np.isfinite(band[:-1]).all()
    np.testing.assert_allclose(p.fields["p"][:-1], whole.fields["p"], rtol=1e-5, atol=1e-5)
    assert "1 of 321 cells of the mesh have no normal" in p.warnings[0]
    assert p.forces(area=1.0).cd == pytest.approx(whole.forces(area=1.0).cd, abs=1e-6)


def test_rows_outside_of_the_box_of_the_training(surface_model: TrainedModel) -> None:
    recipe = surface_model.recipe
    assert recipe is not None
    boxed: CoordinateRecipe = replace(recipe.coords, box=((None, None, 0.0), (None, None, None)))
    trained = replace(surface_model, recipe=replace(recipe, coords=boxed))
    mesh = ball(1.1)
    p = slipstream.predict(trained, mesh, U_inf=21.0)
    kept = centres(mesh)[:, 2] >= 0
    np.testing.assert_array_equal(np.isnan(p.fields["p"]), ~kept)
    expected = surface_model(
        centres(mesh)[kept], {"normal": convex_normals(mesh)[kept], "U_inf": 21.0}
    )
    np.testing.assert_allclose(p.fields["p"][kept], expected[:, 0], rtol=1e-4, atol=1e-4)
    assert any("outside of the box of the training" in note for note in p.how)
    with pytest.raises(ValueError, match="forces need a pressure on all of the mesh"):
        p.forces(area=1.0)


def test_forces_by_hand(surface_model: TrainedModel) -> None:
    mesh = with_fields(ball(1.1), "cell")
    p = slipstream.predict(surface_model, mesh, U_inf=21.0)
    vectors = area_vectors(mesh) * np.sign((area_vectors(mesh) * centres(mesh)).sum(1))[:, None]
    areas = np.linalg.norm(vectors, axis=1)[:, None]
    forces = p.forces(area=2.0, drag=(1, 0, 0), lift=(0, 0, 1))
    pressure = -(p.fields["p"][:, None] * vectors).sum(0)
    assert forces.cd_pressure == pytest.approx(pressure[0] / (0.5 * 21**2 * 2.0), rel=1e-5)
    friction = (p.fields["tau"] * areas).sum(0)
    sign = -1 if friction[0] < 0 else 1  # friction pulls along with the flow
    total = pressure + sign * friction
    assert forces.cl == pytest.approx(total[2] / (0.5 * 21**2 * 2.0), rel=1e-5)
    flipped = p.forces(area=2.0, flip_shear=True)
    assert flipped.cd_friction == pytest.approx(-forces.cd_friction)
    assert p.forces().missing == ("area",)


def test_forces_need_a_pressure(volume_model: TrainedModel, tmp_path: Path) -> None:
    choices = Choices(InputChoices(surface=save(body(), tmp_path / "body.stl")))
    p = slipstream.predict(volume_model, room(), choices=choices)
    with pytest.raises(ValueError, match="surface|polygons"):
        p.forces(area=1.0)


def test_queries_decode_the_tokens_of_the_mesh(volume_model: TrainedModel, tmp_path: Path) -> None:
    choices = Choices(InputChoices(surface=save(body(), tmp_path / "body.stl")))
    mesh = room(6)
    p = slipstream.predict(volume_model, mesh, choices=choices)

    def by_hand(points: Any) -> Any:
        return volume_model.decode(points, {"gap": gaps(points)}, tokens=p.tokens)

    plane = ask_plane(volume_model, p, Plane.parse("y=0.25"), choices)
    cut = np.asarray(plane.source.points, np.float64)
    assert len(cut) > 40 and np.allclose(cut[:, 1], 0.25)
    np.testing.assert_allclose(plane.fields["p"], by_hand(cut)[:, 0], rtol=1e-4, atol=1e-4)
    line = Line.parse("-1,0,0;1,0.5,0;11")
    asked = ask_points(volume_model, p, line.points(), choices)
    np.testing.assert_allclose(line.points()[[0, -1]], [[-1, 0, 0], [1, 0.5, 0]])
    np.testing.assert_allclose(
        asked.fields["U"], by_hand(line.points())[:, 1:], rtol=1e-4, atol=1e-4
    )
    # At the mesh's own rows a query is the prediction.
    own = ask(volume_model, p, (centres(mesh),), choices)
    np.testing.assert_allclose(own.fields["p"], p.fields["p"], rtol=1e-4, atol=1e-4)
    p.tokens.save(tmp_path / "t.safetensors")
    loaded = load_tokens(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(
        volume_model.decode(cut, {"gap": gaps(cut)}, tokens=loaded), by_hand(cut)
    )


def test_a_plane_of_a_mesh_without_volume_cells_is_a_grid(volume_model: TrainedModel) -> None:
    cloud = pv.PolyData(np.asarray(room(5).cell_centers().points))
    points, quads = Plane.parse("0,0,0;0,0,1").cut(cloud)
    assert np.allclose(points[:, 2], 0) and points[:, 0].min() == pytest.approx(-0.8)
    vectors = area_vectors(pv.PolyData.from_regular_faces(points, quads))
    assert np.abs(vectors[:, 2]).sum() == pytest.approx(1.6**2)
    with pytest.raises(ValueError, match="must cut the mesh, got one beside it"):
        Plane.parse("z=7").cut(cloud)
    with pytest.raises(ValueError, match="must cut the mesh, got one beside it"):
        Plane.parse("z=7").cut(room())


def test_a_surface_model_cannot_be_asked_on_a_plane(surface_model: TrainedModel) -> None:
    p = slipstream.predict(surface_model, ball(1.1), U_inf=21.0)
    choices = Choices(InputChoices({"U_inf": 21.0}))
    with pytest.raises(ValueError, match="a plane has no normal, which this model of a surface"):
        ask_plane(surface_model, p, Plane.parse("y=0"), choices)
    other = ask(surface_model, p, ball(1.05), choices)
    assert other.location == "point" and other.rows == 162


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (Plane.parse, "w=1"), (Plane.parse, "y=a"), (Plane.parse, "0,0,0;0,0,0"),
        (Plane.parse, "0,0;0,0,1"), (Line.parse, "0,0,0"), (Line.parse, "0,0,0;0,0,0"),
        (Line.parse, "0,0,0;1,0,0;1"), (Line.parse, "0,0,0;1,0,0;2.5"),
        (Line.parse, "0,0,0;1,nan,0"),
    ],
)  # fmt: skip
def test_places_that_are_none(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match="^(plane|line) must"):
        parse(text)


def test_tokens_of_subsets_as_dense_as_the_training(surface_model: TrainedModel) -> None:
    fine = pv.PolyData(*(lambda s: (s.points, s.faces))(pv.Icosphere(radius=1.1, nsub=4)))
    draw = 320
    inputs = InputChoices({"U_inf": 21.0})
    subset = slipstream.predict(surface_model, fine, choices=Choices(inputs, density="training"))
    assert "8 random subsets of 320 points, as dense as in training" in subset.how[0]
    full = slipstream.predict(surface_model, fine, choices=Choices(inputs, density="full"))
    assert f"tokens of all {fine.n_cells:,} points" in full.how[0]
    auto = slipstream.predict(surface_model, fine, choices=Choices(inputs))
    np.testing.assert_array_equal(auto.fields["p"], subset.fields["p"])
    # By hand: the mean of the subsets' tokens, and all points decoded by it.
    chosen = token_points(fine.n_cells, draw, "training").subsets
    assert len(chosen) == 8 and len(np.unique(np.concatenate(chosen))) == 8 * draw
    places, normals = centres(fine), convex_normals(fine)
    layers = [
        surface_model.encode(places[rows], {"normal": normals[rows], "U_inf": 21.0}).layers
        for rows in chosen
    ]
    mean = [torch.stack(parts).double().mean(0).float() for parts in zip(*layers, strict=True)]
    tokens = replace(subset.tokens, layers=tuple(mean))
    expected = surface_model.decode(places, {"normal": normals, "U_inf": 21.0}, tokens=tokens)
    np.testing.assert_allclose(subset.fields["p"], expected[:, 0], rtol=1e-3, atol=1e-3)
    assert np.abs(subset.fields["p"] - full.fields["p"]).max() > 0


def test_slices_on_the_mesh(surface_model: TrainedModel) -> None:
    mesh = ball(1.1)
    p = slipstream.predict(surface_model, mesh, U_inf=21.0)
    arrays = slice_arrays(surface_model, p, chunk=100)
    heads, slices = 2, 3
    assert set(arrays) == {
        "slice_entropy", "most_probable_slice", *(f"slice_weights_head_{h}" for h in range(heads)),
    }  # fmt: skip
    weights = np.stack([arrays[f"slice_weights_head_{h}"] for h in range(heads)], 1)
    assert weights.shape == (320, heads, slices)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(arrays["most_probable_slice"], weights[:, 0].argmax(-1))
    entropy = -(weights * np.log(weights)).sum(-1).mean(-1)
    np.testing.assert_allclose(arrays["slice_entropy"], entropy, rtol=1e-4)
    whole = slice_arrays(surface_model, p)
    np.testing.assert_allclose(whole["slice_weights_head_1"], weights[:, 1], rtol=1e-3, atol=1e-5)


def test_what_is_unlike_the_training_is_told(surface_model: TrainedModel) -> None:
    p = slipstream.predict(surface_model, ball(1.1), U_inf=40.0)
    assert p.warnings == ("U_inf [m/s] is outside of its range in training, 20 to 22: got 40",)
    moved = slipstream.predict(surface_model, ball(1.1).translate((5, 0, 0)), U_inf=21.0)
    assert (
        "100.0% of the rows of the mesh are outside of the training's extent" in moved.warnings[0]
    )
    with pytest.raises(ValueError, match=r"is it in mm\? \(--scale 0.001\)"):
        slipstream.predict(surface_model, ball(1100.0), U_inf=21.0)
    scaled = slipstream.predict(surface_model, ball(1100.0), scale=0.001, U_inf=21.0)
    own = slipstream.predict(surface_model, ball(1.1), U_inf=21.0)
    np.testing.assert_allclose(scaled.fields["p"], own.fields["p"], rtol=1e-3, atol=1e-3)
    assert scaled.forces(area=1.0).cd == pytest.approx(own.forces(area=1.0).cd, abs=1e-4)


def test_what_is_no_mesh_for_the_model(surface_model: TrainedModel) -> None:
    broken = ball(1.1)
    broken.points[3, 1] = np.nan
    with pytest.raises(ValueError, match="coordinates of its cells of the mesh must be finite"):
        slipstream.predict(surface_model, broken, U_inf=21.0)
    with pytest.raises(ValueError, match=r"polygons"):
        slipstream.predict(surface_model, room(), U_inf=21.0)
    with pytest.raises(ValueError, match="at least one"):
        slipstream.predict(surface_model, pv.PolyData(), U_inf=21.0)
    with pytest.raises(ValueError, match="scale must be a positive number, got 'mm'"):
        slipstream.predict(surface_model, ball(1.1), U_inf=21.0, scale=cast(Any, "mm"))
    with pytest.raises(ValueError, match="location must be point or cell, got 'face'"):
        slipstream.predict(surface_model, ball(1.1), U_inf=21.0, location=cast(Any, "face"))
    with pytest.raises(ValueError, match=r"U_inf \[m/s\] must be a finite number, got 'fast'"):
        slipstream.predict(surface_model, ball(1.1), U_inf="fast")
    with pytest.raises(ValueError, match="the model must say how its inputs are made.*older file"):
        slipstream.predict(replace(surface_model, recipe=None), ball(1.1), U_inf=21.0)
    with pytest.raises(ValueError, match="location must be cell, as in the training, got point"):
        slipstream.predict(surface_model, ball(1.1), location="point", U_inf=21.0)


def test_what_the_training_lacked_is_told(surface_model: TrainedModel) -> None:
    recipe = surface_model.recipe
    assert recipe is not None
    first = replace(recipe.targets[0], low=(0.0,), high=(0.0,))
    poor = replace(recipe, targets=(first, *recipe.targets[1:]), location=None)
    said = slipstream.predict(replace(surface_model, recipe=poor), ball(1.1), scale=1.1, U_inf=21.0)
    assert said.location == "point"
    assert said.how[1:3] == (
        "fields are at points: the training does not say where (--location)",
        "the model takes coordinates times 1.1, the output has those of the mesh",
    )
    assert said.warnings == (
        "p was zero everywhere in training: what is predicted for it means nothing",
    )
    plain = slipstream.predict(surface_model, ball(1.1), U_inf=21.0)
    assert plain.warnings == () and not any("coordinates" in note for note in plain.how)
