"""Whether a design is like the training: the score, the file, the verdict, and `--strict`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.core.configs import overlay
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import ingest, open_store
from slipstream.experiments import experiment
from slipstream.inference.calibrate import CalibrationRequest
from slipstream.inference.likeness import Judge, calibrate_likeness, measure_likeness
from slipstream.inference.likeness_score import POINTS, Neighbourhood, describe
from slipstream.inference.mesh_fields import InputChoices, mesh_fields
from slipstream.inference.predict import recipe_of
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.ensemble import as_ensemble
from slipstream.runs.folder import RunFolder
from slipstream.runs.likeness_file import NAME, read_likeness, write_likeness
from slipstream.runs.model_file import TrainedModel, load_model, write_model
from slipstream.runs.streaming import PhysicalPoints
from slipstream.training.session import train

from ..conftest import Command
from ..data.mesh_folders import ball, save, with_fields
from ..evaluation.own_bodies import SMALL

CPU = ("--device", "cpu")
TRAIN, VAL = 50, 20
CARD = """
schema: 1
name: ellipsoids
files: {mesh: "{id}.vtp"}
location: cell
coords: {name: position, unit: m}
features:
  - {name: normal, computed: normals}
targets:
  - {name: p, unit: m^2/s^2, from: {array: p}}
parameters:
  - {file: designs.csv, id: run, features: [{name: U_inf, unit: m/s, from: U}]}
"""


def design(seed: int) -> Any:
    """An ellipsoid with random axes, along the stream the longest."""
    axes = np.random.default_rng(seed).uniform((1.0, 0.5, 0.3), (1.3, 0.7, 0.45))
    return ellipsoid(*axes.tolist())


def ellipsoid(*axes: float) -> Any:
    mesh = ball()
    mesh.points *= np.array(axes, np.float32)
    return with_fields(mesh, "cell")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on fifty ellipsoids, with its likeness file. To be read, not changed."""
    folder = tmp_path_factory.mktemp("likeness")
    names = [f"{k:02d}" for k in range(TRAIN + VAL)]
    for k, name in enumerate(names):
        save(design(k), folder / "raw" / f"{name}.vtp")
    rows = ["run,U", *(f"{name},{20 + k % 11}" for k, name in enumerate(names))]
    (folder / "raw" / "designs.csv").write_text("\n".join(rows))
    lists = json.dumps({"train": names[:TRAIN], "val": names[TRAIN:]})
    (folder / "card.yaml").write_text(f"{CARD}splits: {{lists: {lists}}}\n")
    ingest(MeshSource(folder / "raw", read_card(folder / "card.yaml")), folder / "store")
    config = overlay(experiment("own"), {**SMALL, "data.store": str(folder / "store")})
    train(config, folder / "run", device="cpu")
    calibrate_likeness([RunFolder(folder / "run")], CalibrationRequest(device="cpu"))
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def weights_of(trained: TrainedModel) -> str:
    return weights_hash(dict(trained.model.named_parameters()))


def judged(run: Path, mesh: Any, folder: Path, **parameters: float) -> Any:
    models = as_ensemble(run, device="cpu")
    save(mesh, folder / "mesh.vtp")
    choices = InputChoices(parameters={"U_inf": 25.0, **parameters})
    fields = mesh_fields(folder / "mesh.vtp", recipe_of(models.first), choices)
    return Judge([run], models).judge(fields)


def test_a_description_is_of_the_points_and_not_of_their_order_or_number(made: Path) -> None:
    trained = load_model(made, device="cpu")
    x = torch.randn(900, 3)
    normals = torch.nn.functional.normalize(x, dim=-1)
    features = torch.cat([normals, torch.full((900, 1), 25.0)], 1)

    def of(rows: torch.Tensor) -> Any:
        return describe(trained, PhysicalPoints.of(x[rows], features[rows]))

    whole = of(torch.arange(900))
    layer = trained.model.stepped_layers()[0]
    inputs = trained.normalised_inputs(trained.inputs(x, features))
    stream = trained.model.begin(*inputs)
    lifted = stream.x[0].detach().double()
    masses = layer.sums(stream)[1].mass.detach().double().flatten() / 900
    expected = torch.cat([lifted.mean(0), lifted.std(0, correction=0), masses])
    np.testing.assert_allclose(whole, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert masses.sum() == pytest.approx(layer.sums(stream)[1].mass.shape[1], rel=1e-5)
    features[:, 3] = 21.0  # a parameter is described by its own range
    np.testing.assert_array_equal(of(torch.arange(900)), whole)
    features[:, 3] = 25.0
    shuffled = torch.randperm(900)
    np.testing.assert_allclose(of(shuffled), whole, rtol=1e-5, atol=1e-6)
    twice = torch.arange(900).repeat(20)  # more than one chunk
    np.testing.assert_allclose(of(twice), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variant", ["untied-ln", "mlp-only", "slice-once"])
def test_variants_are_described_whatever_the_number_of_points(made: Path, variant: str) -> None:
    size = Size(layers=2, width=16, heads=2, slices=3)
    model = Transolver(coord_dim=3, feature_dim=4, out_dim=1, variant=variant, size=size)
    trained = replace(load_model(made, device="cpu"), model=model)
    x = torch.randn(900, 7)
    once, often = (
        describe(trained, PhysicalPoints.of(x[rows, :3], x[rows, 3:]))
        for rows in (torch.arange(900), torch.arange(900).repeat(20))
    )
    assert len(once) >= 2 * size.width
    np.testing.assert_allclose(often, once, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [20, 120])
def test_scores_follow_the_density_of_the_training(count: int) -> None:
    draw = np.random.default_rng(0)
    dense = draw.normal(0, 0.1, (count // 2, 6))
    sparse = draw.normal(0, 1.0, (count // 2, 6)) + [20, 0, 0, 0, 0, 0]
    known = np.concatenate([dense, sparse])
    # The same step, out of the dense group and within the sparse one.
    step = np.array([0, 1, -1, 1, -1, 1]) * 0.7
    steps = np.stack([dense.mean(0) + step, sparse.mean(0) + step])
    scores, order = Neighbourhood(known).scores(steps)
    assert scores[0] > 3 and scores[1] < 1.5
    assert set(order[0]) <= set(range(count // 2))
    assert 0.7 < np.median(Neighbourhood(known).own_scores()) < 1.5
    units = np.array([1, 10, 100, 20, 1, 1])
    again, _ = Neighbourhood(known * units + 7).scores(steps * units + 7)
    np.testing.assert_allclose(again, scores, rtol=1e-6)


def test_training_samples_that_are_all_equal_or_one() -> None:
    same = Neighbourhood(np.ones((60, 4)))
    scores, _ = same.scores(np.stack([np.ones(4), np.full(4, 2.0)]))
    assert scores[0] == 0 and scores[1] > 1e6 and np.isfinite(scores).all()
    with pytest.raises(ValueError, match="at least 2 training samples"):
        Neighbourhood(np.ones((1, 4)))


def test_designs_of_the_family_and_others(made: Path, tmp_path: Path) -> None:
    verdicts = [judged(made, design(1000 + k), tmp_path) for k in range(25)]
    alarms = [one for one in verdicts if one.verdict != "like training"]
    assert len(alarms) <= 4, [one.reasons for one in alarms]
    assert not any(one.verdict == "outside" for one in verdicts)
    slender = judged(made, ellipsoid(1.15, 0.3, 0.19), tmp_path)
    assert slender.verdict in ("unusual", "outside") and slender.percentile == 1.0
    assert f"farther than 100 % of {VAL} held-out samples; nearest: " in slender.reasons[0]
    assert len(slender.nearest) == 3 and set(slender.nearest) <= {f"{k:02d}" for k in range(TRAIN)}
    two = ball().translate((0, 0.9, 0)) + ball().translate((0, -0.9, 0))
    two.points *= np.float32(0.4)
    assert judged(made, with_fields(two, "cell"), tmp_path).verdict == "outside"


def test_the_nearest_training_sample_is_itself(made: Path, tmp_path: Path) -> None:
    own = judged(made, design(7), tmp_path, U_inf=27.0)
    assert own.nearest[0] == "07" and own.verdict == "like training"


def test_plain_checks_are_reasons(made: Path, tmp_path: Path) -> None:
    beyond = judged(made, design(7), tmp_path, U_inf=32.0)
    assert beyond.verdict in ("unusual", "outside")
    assert any("U_inf [m/s] is outside of its range in training" in r for r in beyond.reasons)
    far = judged(made, design(7), tmp_path, U_inf=60.0)
    assert far.verdict == "outside"
    assert any("U_inf [m/s] is far outside of its range" in r for r in far.reasons)
    large = design(7)
    large.points *= np.float32(1.9)
    extent = judged(made, large, tmp_path, U_inf=27.0)
    assert any("outside of the training's extent" in reason for reason in extent.reasons)


def test_few_held_out_samples_promise_nothing(made: Path, run: Path, tmp_path: Path) -> None:
    likeness = read_likeness(made, weights_of(load_model(made)))
    assert likeness is not None and likeness.scores.shape == (VAL,)
    few = replace(likeness, held_out=likeness.held_out[:6], scores=likeness.scores[:6])
    write_likeness(run, few)
    own = judged(run, ellipsoid(1.15, 0.3, 0.19), tmp_path)
    assert own.verdict in ("unusual", "outside")
    assert own.compared == f"6 held-out and {TRAIN} training samples"
    assert "with 6 held-out samples, fewer than 19, it cannot be promised" in own.reasons[-1]


def test_samples_and_meshes_are_described_alike(made: Path) -> None:
    trained, store = load_model(made, device="cpu"), open_store(made.parent / "store")
    known = measure_likeness(trained, store, "val")
    assert known.training == tuple(store.splits["train"]) and known.points == POINTS
    choices = InputChoices(parameters={"U_inf": 23.0})
    fields = mesh_fields(made.parent / "raw" / "03.vtp", recipe_of(trained), choices)
    own = describe(trained, fields.as_points())
    np.testing.assert_allclose(own, known.descriptions[3], rtol=1e-4, atol=1e-5)


def test_the_file_is_read_back_and_damage_is_refused(run: Path) -> None:
    weights = weights_of(load_model(run))
    likeness = read_likeness(run, weights)
    assert likeness is not None
    content, file = (run / NAME).read_bytes(), run / NAME
    write_likeness(run, likeness)
    again = read_likeness(run, weights)
    assert again is not None and again.content == likeness.content
    np.testing.assert_array_equal(again.descriptions, likeness.descriptions)
    with pytest.raises(ValueError, match=r"must be of the model's weights, hash 000000000000, got"):
        read_likeness(run, "0" * 64)
    for damaged in (content[:-8], content[:-1] + b"\x01", b"", b"{}"):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"likeness\.safetensors"):
            read_likeness(run, weights)
    wrong: list[dict[str, Any]] = [
        {"training": likeness.training[:-1]},
        {"scores": likeness.scores[:-1]},
        {"scores": -likeness.scores},
        {"descriptions": likeness.descriptions * np.nan},
    ]
    for part in wrong:
        write_likeness(run, replace(likeness, **part))
        with pytest.raises(ValueError, match="(training|scores) must"):
            read_likeness(run, weights)
    file.unlink()
    assert read_likeness(run, weights) is None


def predicted(command: Command, run: Path, out: Path, *places: Any) -> Any:
    return command("predict", run, *places, "--out", out, "--set", "U_inf=25", *CPU)


def test_predict_says_it_and_strict_refuses(run: Path, command: Command, tmp_path: Path) -> None:
    save(design(1001), tmp_path / "alike.vtp")
    save(ellipsoid(1.15, 0.3, 0.19), tmp_path / "other.vtp")
    alike, other, out = tmp_path / "alike.vtp", tmp_path / "other.vtp", tmp_path / "out"
    said = predicted(command, run, out, alike, other)
    text = " ".join(said.out.split())
    assert said.code == 0 and "alike: like training: farther from it than" in text
    assert "other: " in text and "unlike that of any training sample" in text
    assert predicted(command, run, out, other, "--strict").code == 2  # kept, and refused
    strict = tmp_path / "strict"
    alone = predicted(command, run, strict, other, "--strict")
    assert alone.code == 2 and "must be like the training (--strict), got" in alone.err
    assert not strict.exists() or not list(strict.glob("*.vtp"))
    both = predicted(command, run, strict, alike, other, "--strict", "--json")
    assert both.code == 1 and [p.name for p in strict.glob("*.vtp")] == ["alike.vtp"]
    first, second = json.loads(both.out)["predictions"]
    assert first["likeness"]["verdict"] == "like training" and second["status"] == "failed"


def test_a_model_without_the_file_says_so(run: Path, command: Command, tmp_path: Path) -> None:
    (run / NAME).unlink()
    mesh, out = tmp_path / "other.vtp", tmp_path / "out"
    save(ellipsoid(1.15, 0.3, 0.19), mesh)
    said = " ".join(predicted(command, run, out, mesh).out.split())
    assert f"Likeness to the training was not calibrated: slipstream calibrate {run}" in said
    strict = predicted(command, run, tmp_path / "strict", mesh, "--strict")
    assert strict.code == 2 and "slipstream calibrate" in strict.err
    assert command("calibrate", run, *CPU).code == 0 and (run / NAME).is_file()
    kept = json.loads(predicted(command, run, out, mesh, "--json").out)["predictions"][0]
    assert kept["status"] == "kept" and kept["likeness"]["verdict"] in ("unusual", "outside")


def test_other_weights_are_said_and_not_used(run: Path, command: Command, tmp_path: Path) -> None:
    trained = load_model(run)
    with torch.no_grad():
        next(trained.model.parameters()).add_(1e-3)
    write_model(run / "model.safetensors", trained)
    save(design(3), tmp_path / "a.vtp")
    said = " ".join(predicted(command, run, tmp_path / "out", tmp_path / "a.vtp").out.split())
    assert "must be of the model's weights" in said and "like training" not in said


def test_bounds_are_no_promise_for_another_design(
    run: Path, command: Command, tmp_path: Path
) -> None:
    command("calibrate", run, *CPU)
    save(ellipsoid(1.15, 0.3, 0.19), tmp_path / "other.vtp")
    said = predicted(command, run, tmp_path / "out", tmp_path / "other.vtp")
    text = " ".join(said.out.split())
    assert "The bounds are no promise for meshes that are not like the training: other." in text
