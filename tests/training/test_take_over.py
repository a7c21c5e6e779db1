"""Runs that start from a trained model: the same function in physical units, refusals, resume."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.audit.run_audit import audit_run
from slipstream.bench.kills import finish_run
from slipstream.core.configs import overlay
from slipstream.data.store import Field, RowBlocks, Schema, Store, ingest, open_store
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.take_over import initial_model
from slipstream.training.session import train
from slipstream.training.trainer import Trainer

from ..evaluation.made_runs import failures, sentence
from .small import CPU, small

POSITION, SPEED = Field("position", "m", components=2), Field("speed", "m/s")
PRESSURE, HEAT = Field("pressure", "Pa"), Field("heat", "W")
OLD = Schema((POSITION,), (SPEED, Field("angle", "rad")), (PRESSURE, Field("shear", "Pa")))
NEW = Schema((POSITION,), (Field("height", "m"), SPEED), (HEAT, PRESSURE))
OTHER = Schema((Field("place", "m"),), (), (PRESSURE,))


class Waves:
    """Samples of a schema, whose statistics `scale` and `seed` move."""

    name = "waves"

    def __init__(self, schema: Schema, scale: float, seed: int) -> None:
        self.schema, self.scale, self.seed = schema, scale, seed

    @property
    def options(self) -> dict[str, float]:
        return {"scale": self.scale, "seed": self.seed}

    def ids(self) -> list[str]:
        return [str(k) for k in range(8)]

    def splits(self) -> dict[str, list[str]]:
        return {"train": self.ids()[:5], "val": self.ids()[5:]}

    def files(self, sample: str) -> dict[str, Path]:
        return {}

    def read(self, sample: str) -> RowBlocks:
        draw = np.random.default_rng((self.seed, int(sample)))
        rows = draw.normal(self.scale, self.scale, (40, self.schema.width)).astype(np.float32)
        return RowBlocks(len(rows), iter([rows]))


def made(path: Path, schema: Schema, scale: float = 1.0, seed: int = 0) -> Store:
    ingest(Waves(schema, scale, seed), path)
    return open_store(path)


def config_on(store: Store, **changes: object) -> RunConfig:
    base = overlay(small(), {"data.problem": None, "data.builtin": None, "data.points": 20})
    return overlay(base, {"data.store": str(store.path), **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model of OLD in old/, and stores of OLD and NEW in moved/ and new/."""
    path = tmp_path_factory.mktemp("take-over")
    train(config_on(made(path / "store", OLD)), path / "old", device="cpu")
    made(path / "moved", OLD, 3.0, 1)
    made(path / "new", NEW, 2.0, 2)
    return path


def starting(folder: Path, store: str, **changes: object) -> RunConfig:
    initial, _ = initial_model(folder / "old")
    given = {"initial": {"model": initial.model, "weights": initial.weights}, **changes}
    return config_on(open_store(folder / store), **given)


def at_start(config: RunConfig, path: Path) -> TrainedModel:
    """The model of a run before its first step."""
    assert config.data.store is not None
    trainer = Trainer(config, open_store(config.data.store), RunFolder(path), CPU)
    return trainer._trained({"step": 0, "error": 1.0, "by_group": {}})


def test_the_function_in_physical_units_is_that_of_the_model(folder: Path, tmp_path: Path) -> None:
    old, now = load_model(folder / "old"), at_start(starting(folder, "moved"), tmp_path)
    assert now.normaliser != old.normaliser
    coords, features = torch.randn(30, 2) * 3, torch.randn(30, 2) * 3
    torch.testing.assert_close(now(coords, features), old(coords, features), rtol=1e-4, atol=1e-4)


def test_other_fields_are_new_and_said_to_be(folder: Path, tmp_path: Path) -> None:
    old, now = load_model(folder / "old"), at_start(starting(folder, "new"), tmp_path)
    coords, speed = torch.randn(30, 2) * 3, torch.randn(30, 1) * 3
    angle = torch.full((30, 1), old.normaliser.features.shift[1])
    expected = old(coords, torch.cat((speed, angle), -1))[:, :1]
    got = now(coords, torch.cat((torch.randn(30, 1), speed), -1))[:, 1:]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    train(starting(folder, "new"), tmp_path / "r", device="cpu")
    said = RunFolder(tmp_path / "r").history("start")[0]["initial"]
    assert [s.split(": ")[1] for s in said[1:]] == ["height.", "angle.", "heat.", "shear."]
    found = audit_run(tmp_path / "r")
    assert failures(found) == {} and "started at the values of" in sentence(found, "initial values")


def test_frozen_parameters_stay_and_a_run_goes_on_without_the_model(
    folder: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(folder / "old", gone)
    initial, _ = initial_model(gone)
    freeze = {"optim.freeze": ["lift.*", "blocks.0.*"], "data.store": str(folder / "moved")}
    values = {"initial": {"model": initial.model, "weights": initial.weights}, **freeze}
    config = config_on(open_store(folder / "moved"), **values)
    train(config, tmp_path / "whole", device="cpu")
    shutil.rmtree(gone)
    part = RunFolder(shutil.copytree(tmp_path / "whole", tmp_path / "part"))
    for file in (part.checkpoint_file(8), part.checkpoint_file(12), part.model_file):
        file.unlink()
    train(None, part.path, device="cpu")
    one, other = load_model(tmp_path / "whole"), load_model(part.path)
    for (name, value), own in zip(
        one.model.named_parameters(), other.model.parameters(), strict=True
    ):
        assert torch.equal(value, own), name
    found = audit_run(tmp_path / "whole")
    assert failures(found) == {}
    said = str([finding.notes for finding in found.findings])
    assert "not compared with the model" in said and "frozen: lift.*, blocks.0.*" in said


@pytest.mark.parametrize("points", [1, 2], ids=["data", "points"])
def test_two_lean_processes_start_from_a_model_as_one(
    folder: Path, tmp_path: Path, points: int
) -> None:
    """Two samples at once, one on each rank, and the points of each sample over both ranks."""
    initial, source = initial_model(folder / "old")
    changes = {
        "initial": {"model": initial.model, "weights": initial.weights}, "steps": 6,
        "precision": "fp64", "optim.freeze": ["blocks.0.mlp.*"],
    }  # fmt: skip
    store = open_store(folder / "moved")
    one = config_on(store, **changes, batch=2)
    ranks = {"memory": "lean", "mesh.points": points, "batch": points}
    train(one, tmp_path / "one", device="cpu")
    both = RunFolder(tmp_path / "both")
    finish_run(config_on(store, **changes, **ranks), both, "cpu", 2)
    models = [load_model(path).model for path in (tmp_path / "one", both.path)]
    expected, got = (dict(model.named_parameters()) for model in models)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=0, atol=1e-10)
    taken = source.model.get_parameter("blocks.0.mlp.expand.weight").double()
    assert torch.equal(got["blocks.0.mlp.expand.weight"], taken)
    (start,) = both.history("start")
    alone = {"data": 2, "points": 1}
    assert (start["processes"], start.get("mesh", alone)["points"]) == (2, points)
    assert failures(audit_run(both.path)) == {}


def test_other_constants_are_refused(folder: Path, tmp_path: Path) -> None:
    changed = {"model.constants": {"epsilon": 0.01}}
    with pytest.raises(ValueError, match="model.constants must be that of the model to start from"):
        train(starting(folder, "moved", **changed), tmp_path / "r", device="cpu")


def test_bad_input_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    for changes, sentence_of in (
        ({"model.variant": "untied"}, "model.variant must be that of the model to start from"),
        ({"model.size": {"slices": 4}}, "model.size must be that of the model to start from"),
        ({"optim.freeze": ["no.*"]}, "optim.freeze must match parameters of the model"),
        ({"optim.freeze": ["*"]}, "must leave a parameter to train"),
        ({"initial": {"model": str(folder / "old"), "weights": "0"}}, "must have the weights 0"),
    ):
        with pytest.raises(ValueError, match=sentence_of):
            train(starting(folder, "moved", **changes), tmp_path / "r", device="cpu")
    made(tmp_path / "other", OTHER)
    config = starting(folder, "moved", **{"data.store": str(tmp_path / "other")})
    with pytest.raises(ValueError, match="the store must have an input of the model"):
        train(config, tmp_path / "r", device="cpu")
    assert not (tmp_path / "r").exists()
