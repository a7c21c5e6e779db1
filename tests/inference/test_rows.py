"""What mutations of the inference left alive: rows, reference directions, tables and names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

import slipstream
from slipstream.data.meshes import find_inputs, mesh_of
from slipstream.inference import Outputs, predict_many
from slipstream.inference.designs import Designs
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.mesh_reading import feature_values
from slipstream.inference.oddities import few_points, unusual_parameters
from slipstream.inference.predict import Choices
from slipstream.inference.prediction_forces import flow_reference
from slipstream.inference.queries import Plane
from slipstream.inference.slice_arrays import slice_arrays
from slipstream.runs.model_file import load_model
from slipstream.runs.recipe import ArraySource, CoordinateRecipe

from ..data.mesh_folders import ball, save, with_fields
from .flows import body, room
from .test_formats import gaps


def test_distances_are_at_the_kept_rows_and_scaled(volume_run: Path, tmp_path: Path) -> None:
    trained = load_model(volume_run)
    assert trained.recipe is not None
    box = ((None, None, 0.0), (None, None, None))
    coords: CoordinateRecipe = replace(trained.recipe.coords, box=box)
    trained = replace(trained, recipe=replace(trained.recipe, coords=coords))
    big, surface = room(4), body()
    big.points *= 1000
    surface.points *= 1000
    choices = InputChoices(surface=save(surface, tmp_path / "body.stl"), scale=0.001)
    p = slipstream.predict(trained, big, choices=Choices(choices))
    centres = np.asarray(room(4).cell_centers().points, np.float64)
    kept = centres[:, 2] >= 0
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_allclose(p.inputs.features["gap"], gaps(centres[kept]), atol=1e-5)
    arrays = slice_arrays(trained, p, chunk=5)
    assert (arrays["most_probable_slice"][~kept] == -1).all()
    expected = arrays["slice_weights_head_0"][kept].argmax(1)
    np.testing.assert_array_equal(arrays["most_probable_slice"][kept], expected)


def test_several_arrays_less_an_offset_times_a_factor(surface_run: Path) -> None:
    mesh = ball(1.0)
    mesh.cell_data["a"], mesh.cell_data["b"] = np.ones(mesh.n_cells), np.full(mesh.n_cells, 4.0)
    recipe = load_model(surface_run).recipe
    assert recipe is not None
    source = ArraySource("array", None, ("a", "b"), 1, "cell", (3.0, 5.0), 2.0)
    feature = replace(recipe.features[0], components=2, made=source)
    values = feature_values(mesh_of(mesh), feature, "cell")
    np.testing.assert_array_equal(values, np.tile([-4.0, -2.0], (mesh.n_cells, 1)))


def test_directions_of_forces_by_the_stream(surface_run: Path) -> None:
    p = slipstream.predict(surface_run, ball(1.1), U_inf=21.0)
    vector = [replace(f, components=3) if f.name == "U_inf" else f for f in p.recipe.features]
    recipe = replace(p.recipe, features=tuple(vector), reference={"area": 3.0})
    features = {**p.inputs.features, "U_inf": np.array([3.0, 0.0, 4.0])}
    asked = replace(p, recipe=recipe, inputs=replace(p.inputs, features=features))
    reference = flow_reference(asked, {})
    assert reference.speed == 5.0 and reference.area == 3.0
    np.testing.assert_allclose(reference.axes[[0, 2]], [[0.6, 0, 0.8], [-0.8, 0, 0.6]], atol=1e-12)
    assert flow_reference(asked, {"area": 2.0}).area == 2.0


def test_errors_have_the_unit_of_their_field(surface_run: Path) -> None:
    p = slipstream.predict(surface_run, with_fields(ball(1.1), "cell"), U_inf=21.0)
    units = p.array_units(p.named_arrays({"p"}))
    assert units["p_prediction"] == units["p_error"] == "m^2/s^2" and units["cp"] == "1"


def test_few_points_and_ends_of_ranges(surface_run: Path) -> None:
    recipe = load_model(surface_run).recipe
    assert recipe is not None
    least = recipe.points.draw.least
    assert few_points(least // 4 - 1, recipe, "a.stl") and not few_points(least, recipe, "a.stl")
    high = recipe.feature("U_inf").high[0]
    assert not unusual_parameters({"U_inf": high * (1 + 1e-7)}, recipe)
    assert unusual_parameters({"U_inf": high * 1.01}, recipe)


def test_a_grid_lies_in_its_plane() -> None:
    points, _ = Plane.parse("z=0.25").cut(pv.Sphere())
    np.testing.assert_allclose(points[:, 2], 0.25)
    assert np.ptp(points, axis=0)[0] == pytest.approx(1, rel=0.1)


def test_tables_of_vectors_and_of_two_rows_for_a_mesh(surface_run: Path, tmp_path: Path) -> None:
    recipe = load_model(surface_run).recipe
    assert recipe is not None
    vector = [replace(f, components=3) if f.name == "U_inf" else f for f in recipe.features]
    table = tmp_path / "designs.csv"
    table.write_text("id,U_inf_x,U_inf_y,U_inf_z\na,1,2,3\n")
    designs = Designs(table, replace(recipe, features=tuple(vector)))
    assert designs.parameters("a", "a.stl") == {"U_inf": [1.0, 2.0, 3.0]}
    table.write_text("id,U_inf\na,1\na,2\n")
    with pytest.raises(ValueError, match="one row for 'a', got two"):
        Designs(table, recipe)


def test_a_surface_without_an_outer_side_is_refused(surface_run: Path) -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    sheet = (corners, np.array([[0, 1, 2], [0, 2, 3], [2, 1, 0], [3, 2, 0]]))
    with pytest.raises(ValueError, match="outer side .* 100.0% .*--accept-undecided"):
        slipstream.predict(surface_run, sheet, U_inf=21.0)
    choices = Choices(InputChoices({"U_inf": 21.0}, accept_undecided=True))
    accepted = slipstream.predict(surface_run, sheet, choices=choices)
    assert any("outer side" in text for text in accepted.warnings)


def test_a_changed_mesh_or_a_lost_file_is_predicted_again(
    surface_run: Path, tmp_path: Path
) -> None:
    trained = load_model(surface_run)
    mesh = save(ball(1.1), tmp_path / "a.vtp")
    inputs = find_inputs([mesh])
    choices = Choices(InputChoices({"U_inf": 21.0}))

    def status(overwrite: bool = False) -> str:
        outputs = Outputs(tmp_path / "out", overwrite=overwrite)
        (result,) = predict_many(trained, inputs, outputs, lambda _: choices)
        return result.status

    assert [status(), status()] == ["predicted", "kept"]
    (tmp_path / "out" / "a.vtp").unlink()
    assert status() == "predicted"
    state = mesh.stat()
    os.utime(mesh, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))
    assert [status(), status(overwrite=True)] == ["failed", "predicted"]
