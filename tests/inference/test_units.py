"""Units, signs and reference values of coefficients and forces, against those in SI."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slipstream
from slipstream.inference.derived import coefficients
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.predict import Choices
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.prediction_forces import prediction_forces
from slipstream.runs.recipe import ArraySource, Recipe

from ..data.mesh_folders import ball, with_fields


@pytest.fixture(scope="module")
def prediction(surface_run: Path) -> MeshPrediction:
    return slipstream.predict(surface_run, with_fields(ball(1.1), "cell"), U_inf=21.6)


def with_target(recipe: Recipe, name: str, **changes: Any) -> Recipe:
    targets = [replace(t, **changes) if t.name == name else t for t in recipe.targets]
    return replace(recipe, targets=tuple(targets))


def with_speed_in(recipe: Recipe, unit: str) -> Recipe:
    features = [replace(f, unit=unit) if f.name == "U_inf" else f for f in recipe.features]
    return replace(recipe, features=tuple(features))


def test_cp_of_speeds_and_pressures_in_other_units(prediction: MeshPrediction) -> None:
    recipe, features = prediction.recipe, prediction.inputs.features
    fields = {"p": np.array([3.0, -1.0]), "tau": np.ones((2, 3))}
    by_hour = coefficients(with_speed_in(recipe, "km/h"), features, fields)[0]
    np.testing.assert_allclose(by_hour["cp"], fields["p"] / (0.5 * 6.0**2), rtol=1e-6)
    kilo = with_target(recipe, "p", unit="kPa", form="dimensional")
    kilo = replace(kilo, reference={"density": 1.2})
    cp = coefficients(kilo, features, fields)[0]["cp"]
    np.testing.assert_allclose(cp, 1000 * fields["p"] / (0.5 * 1.2 * 21.6**2), rtol=1e-6)
    high = with_target(kilo, "p", low=(99.0,), high=(103.0,))
    assert "no cp: p is an absolute pressure" in coefficients(high, features, fields)[1]


def test_the_speed_of_a_vector_is_its_length(prediction: MeshPrediction) -> None:
    recipe = prediction.recipe
    vector = [replace(f, components=3) if f.name == "U_inf" else f for f in recipe.features]
    recipe = replace(recipe, features=tuple(vector))
    features = {"U_inf": np.array([3.0, 0.0, 4.0])}
    fields = {"p": np.array([5.0]), "tau": np.ones((1, 3))}
    assert coefficients(recipe, features, fields)[0]["cp"] == pytest.approx(5 / 12.5)


def test_forces_of_speeds_and_coordinates_in_other_units(prediction: MeshPrediction) -> None:
    known = prediction.forces(area=2.0)
    recipe = with_speed_in(prediction.recipe, "km/h")
    assert replace(prediction, recipe=recipe).forces(area=2.0).cd == pytest.approx(
        known.cd * 3.6**2
    )
    recipe = replace(recipe, reference={"speed": "U_inf"})
    assert replace(prediction, recipe=recipe).forces(area=2.0).reference.speed == pytest.approx(6)
    coords = replace(prediction.recipe.coords, units=("mm",) * len(prediction.recipe.coords.units))
    small = replace(prediction, recipe=replace(prediction.recipe, coords=coords))
    assert small.forces(area=2.0).cd == pytest.approx(known.cd * 1e-6)
    coords = replace(coords, units=("furlong",))
    odd = replace(prediction, recipe=replace(prediction.recipe, coords=coords))
    with pytest.raises(ValueError, match="coordinates in m, cm, mm, got 'furlong'"):
        odd.forces(area=2.0)


def test_a_shear_whose_sign_the_card_changed_is_not_that_of_openfoam(
    prediction: MeshPrediction,
) -> None:
    along = {**prediction.fields, "tau": np.tile([1.0, 0.0, 0.0], (prediction.rows, 1))}

    def friction(scale: float) -> float | None:
        source = ArraySource("array", "mesh", ("wallShearStress",), 3, "cell", (), scale)
        recipe = with_target(prediction.recipe, "tau", array=source)
        return replace(prediction, recipe=recipe, fields=along).forces(area=2.0).cd_friction

    as_read, changed = friction(1.0), friction(-1.0)
    assert as_read is not None and changed is not None and as_read < 0 < changed


def test_the_pressure_of_a_card_is_in_the_unit_of_its_file(prediction: MeshPrediction) -> None:
    source = ArraySource("array", "mesh", ("p",), 1, "cell", (5.0,), 2.0)
    recipe = with_target(prediction.recipe, "p", array=source)
    recipe = replace(recipe, reference={"pressure": 8.0})
    carded = replace(prediction, recipe=recipe)
    assert carded.forces(area=2.0).reference.pressure == 6.0
    assert carded.forces(area=2.0, pressure=1.0).reference.pressure == 1.0


def test_no_true_forces_of_a_truth_with_gaps(prediction: MeshPrediction) -> None:
    assert prediction_forces(prediction).true is not None
    gap = np.array(prediction.truth["p"])
    gap[3] = np.nan
    holed = replace(prediction, truth={**prediction.truth, "p": gap})
    assert prediction_forces(holed).true is None


def test_flipped_normals_turn_features_and_faces(
    surface_run: Path, prediction: MeshPrediction
) -> None:
    choices = Choices(InputChoices({"U_inf": 21.6}, flip_normals=True))
    flipped = slipstream.predict(surface_run, with_fields(ball(1.1), "cell"), choices=choices)
    np.testing.assert_allclose(
        flipped.inputs.features["normal"], -prediction.inputs.features["normal"]
    )
    same = replace(prediction, inputs=flipped.inputs)
    assert same.forces(area=2.0).cd_pressure == pytest.approx(
        -(prediction.forces(area=2.0).cd_pressure or 0)
    )


def test_faces_with_a_corner_without_a_prediction_are_warned_of(
    prediction: MeshPrediction,
) -> None:
    points = ball(1.1).n_points
    inputs = replace(prediction.inputs, rows=points, kept=np.arange(1, points))
    fields = {"p": np.ones(points), "tau": np.ones((points, 3))}
    at_points = replace(prediction, location="point", fields=fields, truth={}, inputs=inputs)
    said = [text for text in at_points.forces(area=2.0).warnings if "nothing was predicted" in text]
    assert len(said) == 1
    whole = replace(at_points, inputs=replace(inputs, kept=None))
    assert not any("nothing was predicted" in text for text in whole.forces(area=2.0).warnings)


def test_cp_and_cd_have_the_same_reference_speed(prediction: MeshPrediction) -> None:
    """That of the card, where it has one, also if the model takes a speed."""
    recipe = replace(prediction.recipe, reference={"speed": 10.0, "area": 2.0})
    fields = {"p": np.array([3.0]), "tau": np.ones((1, 3))}
    cp = coefficients(recipe, prediction.inputs.features, fields)[0]["cp"]
    assert cp == pytest.approx(3.0 / 50.0)
    forces = prediction_forces(replace(prediction, recipe=recipe)).predicted
    assert forces.reference.speed == 10.0 and forces.dynamic_pressure == pytest.approx(50.0)
