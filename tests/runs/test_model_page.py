from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.model_page import model_facts, what_is_lacking
from slipstream.runs.recipe import Recipe

from ..training.small import trainer
from .carded import make_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return load_model(make_run(tmp_path_factory.mktemp("page")))


def recipe_of(trained: TrainedModel) -> Recipe:
    assert trained.recipe is not None
    return trained.recipe


def test_it_says_in_what_the_stream_was(trained: TrainedModel) -> None:
    config = replace(trained.config, precision="bf16", stream_precision="bf16")
    own = replace(trained, config=config)
    assert "parameters, bf16 with a stream in bf16" in " ".join(str(own).split())
    assert "stream in" not in str(trained)
    assert model_facts(own)["stream_precision"] == "bf16"


def test_a_page_for_a_person(trained: TrainedModel) -> None:
    page = str(trained)
    lines = page.splitlines()
    assert max(map(len, lines)) < 100 and not any(line != line.rstrip() for line in lines)
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles[1:] == ["It takes", "It gives", "Points of the training"], "nothing is lacking"
    text = " ".join(page.split())
    for words in (
        "2 layers, width 8, 2 heads, 3 slices",
        f"{trained.model.parameter_count():,} parameters",
        "3 samples of balls (own meshes, read by a card)",
        "4 of 4",
        "position [m] x 3 coordinates of the points on a surface",
        "those of the files less 1 0 0",
        "only those in the box (-9, open, -9) to (9, open, 9) of the files",
        "normal [1] x 3 unit normals out of the body",
        "gap [m] distance to the surface of body (body.stl), computed",
        "height [m] array h at points of mesh (run_{id}/ball.vtp), times 2",
        "speed [m/s] a parameter, one number for a whole sample, U of designs.csv",
        "in training 20 to 22",
        "in training always 1.2",
        "p [m^2/s^2] kinematic pressure, divided by the density",
        "array p at points of mesh (run_{id}/ball.vtp), less 5",
        "tau [Pa] x 3 wall shear stress of the fluid, not divided by the density",
        "cp [Pa]",
        "learned as [1], divided by 0.5 rho speed^2",
        "a draw 81 points;",
        "density the feature rho, always 1.2",
    ):
        assert words in text, words
    assert page in (str(trained), f"{trained}")


def test_an_older_model_says_what_it_lacks(trained: TrainedModel) -> None:
    older = replace(trained, recipe=None)
    text = " ".join(str(older).split())
    assert "Lacking - How inputs are made" in text and "slipstream model RUN --store STORE" in text
    assert "normal [1] x 3 computed from the geometry: normals" in text
    assert "cp [Pa] learned as [1], divided by 0.5 rho speed^2" in text
    assert model_facts(older)["recipe"] is None and len(model_facts(older)["lacking"]) == 1


def test_what_is_not_known_is_said(trained: TrainedModel, tmp_path: Path) -> None:
    assert what_is_lacking(trained) == []
    recipe = recipe_of(trained)
    kinematic = replace(trained, recipe=replace(recipe, density=None))
    assert "density of the fluid" in what_is_lacking(kinematic)[0]
    odd = replace(recipe.targets[0], form="unknown")
    unknown = replace(trained, recipe=replace(recipe, targets=(odd, *recipe.targets[1:])))
    assert what_is_lacking(unknown) == ["Whether p is divided by the density of the fluid."]
    rough = replace(recipe, points=replace(recipe.points, exact=False))
    assert "in a regular mesh up to 2.1 times as much" in str(replace(trained, recipe=rough))
    trainer(tmp_path, steps=4).run()
    built_in = " ".join(str(load_model(tmp_path / "run")).split())
    assert "were not read from meshes" in built_in and "How to make density from" in built_in


def features_at(count: int) -> dict[str, Any]:
    drawn = np.random.default_rng(0).random((count, 5))
    named = {"normal": drawn[:, :3], "gap": drawn[:, 3], "height": drawn[:, 4:]}
    return {**named, "speed": 21, "rho": [1.2]}


def test_features_by_name_lists_and_any_numbers(trained: TrainedModel) -> None:
    coords, features = np.random.default_rng(1).random((6, 3)), features_at(6)
    columns = [features["normal"], features["gap"][:, None], features["height"]]
    joined = np.concatenate([*columns, np.full((6, 1), 21.0), np.full((6, 1), 1.2)], 1)
    expected = trained(coords, joined)
    for given in (features, joined.tolist(), {**features, "gap": features["gap"].tolist()}):
        found = trained(coords.tolist(), given)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    tensor = trained(torch.from_numpy(coords), features)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, expected, rtol=1e-6)
    whole = np.arange(18).reshape(6, 3)
    np.testing.assert_array_equal(trained(whole, joined), trained(whole.astype(np.float64), joined))
    batch = {name: np.stack([v, v]) if np.ndim(v) > 1 else v for name, v in features.items()}
    batch["gap"] = np.stack([features["gap"]] * 2)
    np.testing.assert_allclose(trained(np.stack([coords] * 2), batch)[1], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("speed"), r"got no speed \[m/s\] \(a parameter, one number .* U of des"),
        (lambda f: (f.pop("gap"), f.pop("rho")), r"no gap \[m\] \(distance .* rho \[kg/m\^3\]"),
        (lambda f: f.update(other=1), "got 'other' besides"),
        (lambda f: f.update(speed=[1, 2]), r"speed \[m/s\] must have shape \(6, 1\), or be 1 for"),
        (lambda f: f.update(normal="a"), r"normal \[1\] x 3 must have shape \(6, 3\), .* a str"),
    ],
)
def test_missing_features_are_named(trained: TrainedModel, change: Any, message: str) -> None:
    features = features_at(6)
    change(features)
    with pytest.raises(ValueError, match=message):
        trained(np.ones((6, 3)), features)


def test_missing_columns_are_named(trained: TrainedModel) -> None:
    with pytest.raises(ValueError, match=r"missing: normal .*, gap .*, height .*, speed .*, rho"):
        trained(np.ones((6, 3)))
    with pytest.raises(ValueError, match=r"shape \(6, 5\); missing: speed .*, rho \[kg/m\^3\] \("):
        trained(np.ones((6, 3)), np.ones((6, 5)))
    with pytest.raises(ValueError, match=r"got float64 of shape \(6, 2\)$"):
        trained(np.ones((6, 3)), np.ones((6, 2)))
    with pytest.raises(ValueError, match="coords must be .* got a list$"):
        trained([[1, 2, 3], [1, 2]], np.ones((2, 7)))
    with pytest.raises(ValueError, match=r"missing: normal \[1\] x 3 \(computed: normals\)"):
        replace(trained, recipe=None)(np.ones((6, 3)))
