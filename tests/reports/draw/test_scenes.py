from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.data.store import Field, Schema
from slipstream.evaluation.slices import Match
from slipstream.reports.draw import scenes
from slipstream.reports.draw.canvas import camera
from slipstream.reports.draw.scenes import make_scene, match_runs, read_scenes
from slipstream.reports.study.gather import RunData, gather
from slipstream.runs.prediction_file import Prediction, read_prediction, write_prediction

SURFACE = Schema(
    (Field("position", "m", components=3),),
    (Field("speed", "m/s"), Field("normal", components=3)),
    (Field("pressure", "Pa"), Field("shear", "Pa", components=3)),
)


def prediction(variant: str, points: int = 30, schema: Schema = SURFACE) -> Prediction:
    draw = torch.Generator().manual_seed(len(variant))
    fixed = torch.Generator().manual_seed(0)
    rows = torch.rand(points, schema.width, generator=fixed)
    truth = rows[:, schema.columns("targets")]
    return Prediction(
        "flow", variant, 0, 7, "test", "s1", schema, {f.name: 0.25 for f in schema.targets},
        rows[:, schema.columns("coords")], rows[:, schema.columns("features")], truth,
        truth + torch.rand(truth.shape, generator=draw),
    )  # fmt: skip


def test_scalars_and_lengths_of_vectors() -> None:
    made = {name: prediction(name) for name in ("baseline", "mlp-only")}
    scene = make_scene(made)
    assert scene.kind == "surface" and scene.unit == "m" and scene.variants == tuple(made)
    assert scene.name == "flow, test sample s1" and scene.coords.dtype == np.float32
    pressure, shear = scene.fields
    one = made["mlp-only"]
    assert (pressure.name, shear.name, shear.unit) == ("pressure", "|shear|", "Pa")
    np.testing.assert_array_equal(pressure.truth, one.truth[:, 0])
    np.testing.assert_allclose(shear.truth, one.truth[:, 1:].norm(dim=1), rtol=1e-6)
    np.testing.assert_allclose(shear.predictions["mlp-only"], one.values[:, 1:].norm(dim=1), 1e-6)
    difference = (one.values - one.truth)[:, 1:].norm(dim=1)
    np.testing.assert_allclose(shear.errors["mlp-only"], difference, rtol=1e-5)
    np.testing.assert_array_equal(scene.normals, one.features[:, 1:])
    assert shear.relative == {"baseline": 0.25, "mlp-only": 0.25}


@pytest.mark.parametrize(
    "feature",
    [
        Field("n_out", components=3, computed="normals"),
        Field("normals", components=3),  # of a file that does not say what was computed
    ],
)
def test_a_surface_is_known_by_its_schema(feature: Field, tmp_path: Path) -> None:
    """The drafted card calls the normals `normals`."""
    schema = replace(SURFACE, features=(Field("speed", "m/s"), feature))
    made = prediction("baseline", schema=schema)
    write_prediction(tmp_path / "a.safetensors", made)
    scene = make_scene({"baseline": read_prediction(tmp_path / "a.safetensors")})
    assert scene.kind == "surface"
    np.testing.assert_array_equal(scene.normals, made.features[:, 1:])


def test_a_volume_in_a_plane() -> None:
    flat = Schema((Field("x", "m", components=2),), (), (Field("p"),))
    scene = make_scene({"baseline": prediction("baseline", schema=flat)})
    assert scene.kind == "volume" and scene.normals is None
    assert scene.coords.shape == (30, 3) and not scene.coords[:, 2].any()


def test_a_volume_knows_how_far_its_body_is() -> None:
    volume = Schema(
        (Field("position", "m", components=3),),
        (Field("freestream", "m/s", components=3), Field("signed_distance", "m")),
        (Field("p"),),
    )
    made = prediction("baseline", schema=volume)
    scene = make_scene({"baseline": made})
    assert scene.kind == "volume" and scene.wall_distance is not None
    np.testing.assert_array_equal(scene.wall_distance, made.features[:, 3])
    assert make_scene({"baseline": prediction("baseline")}).wall_distance is None


def test_large_samples_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "MOST_POINTS", 12)
    scene = make_scene({"baseline": prediction("baseline")})
    assert len(scene.coords) == len(scene.fields[0].truth) == len(scene.normals) == 12  # type: ignore[arg-type]


@pytest.fixture
def runs(study: Path) -> tuple[RunData, ...]:
    return gather([study]).runs


def test_a_study_is_pictured_on_one_sample(runs: tuple[RunData, ...]) -> None:
    problems: list[str] = []
    (scene,) = read_scenes(runs, problems)
    assert problems == [] and scene.variants == ("baseline", "no-token-attention", "mlp-only")
    assert [field.name for field in scene.fields] == ["potential", "|field|"]
    (file,) = runs[0].predictions().values()
    first = read_prediction(file).values[:, 0]
    np.testing.assert_array_equal(scene.fields[0].predictions["baseline"], first)


def test_files_that_do_not_fit_are_told_and_left_out(runs: tuple[RunData, ...]) -> None:
    (first,) = runs[0].predictions().values()
    first.write_bytes(b"short")
    (other,) = runs[2].predictions().values()
    moved = read_prediction(other)
    write_prediction(other, replace(moved, coords=moved.coords + 1))
    problems: list[str] = []
    (scene,) = read_scenes(runs, problems)
    assert scene.variants == ("baseline", "mlp-only"), "the second seed stands in"
    assert "poisson baseline seed 0 is not pictured: " in problems[0]
    assert "must be of the points that the others were predicted at" in problems[1]


def test_slices_of_two_variants_are_matched(runs: tuple[RunData, ...]) -> None:
    (found,) = match_runs(runs, ("baseline", "no-token-attention"))
    assert found.tops[0].shape == found.tops[1].shape == (3, 32)
    assert found.entropies[0].shape == (32,) and 0 < found.entropies[0].max() <= np.log(3) + 1e-3
    first, second = found.tops[0][0], found.tops[1][0]
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert found.similarities[0] == pytest.approx(cosine, rel=1e-5)
    assert list(found.similarities) == sorted(found.similarities, reverse=True)
    assert found.median <= found.similarities[2]
    assert match_runs(runs, ("baseline", "mlp-only")) == []
    assert match_runs(runs, ("baseline", "untied")) == []


def test_of_a_body_the_slices_on_the_side_shown_come_first() -> None:
    draw = np.random.default_rng(0)
    normals = draw.normal(size=(400, 3)).astype(np.float32)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    coords = normals * np.float32([2.0, 1.0, 1.0])
    toward = camera(coords)[2]
    here = np.maximum(normals @ toward, 0)
    there = np.maximum(-normals @ toward, 0)
    functions = np.stack([there, here, here**2, there**2], 1).astype(np.float32)
    pairs = [Match(i, i, 1 - i / 10) for i in range(4)]
    found = scenes._seen_first(pairs, functions, coords, normals)
    assert [pair.first for pair in found] == [1, 2, 0, 3]
