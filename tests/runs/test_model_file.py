from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import slipstream
from slipstream.data.store import Reference
from slipstream.runs.checkpoint import read_tensors, write_tensors
from slipstream.runs.model_file import TrainedModel, load_model, write_model

from ..training.small import same, small, trainer


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    trainer(path, optim__learning_rate=0.01).run()
    return path


def test_it_says_what_it_is(run: Path) -> None:
    found = slipstream.load_model(run / "run" / "model.safetensors")
    assert isinstance(found, TrainedModel) and not found.model.training
    again = trainer(run, optim__learning_rate=0.01)
    again.run()
    assert found.config == again.config == small(optim__learning_rate=0.01)
    assert found.schema == again.store.schema and found.normaliser == again.normaliser
    assert found.metric == again.state.best
    assert found.about["data_hash"] == again.provenance.data_hash
    assert found.about["versions"]["torch"] == torch.__version__
    saved = read_tensors(run / "run" / "model.safetensors", "model")[1]
    assert same(saved, weights_of(found))


def weights_of(found: TrainedModel) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in found.model.named_parameters()}


def test_it_predicts_in_physical_units(run: Path) -> None:
    found = load_model(run / "run", impl="reference")
    made = trainer(run)
    rows = torch.from_numpy(made.store.array(made.store.ids("val")[0]).copy())[None]
    normal = made.normaliser.rows.forward(rows)
    with torch.no_grad():
        expected = found.model(normal[..., :3], normal[..., 3:4])
    expected = made.normaliser.targets.inverse(expected)
    assert torch.equal(found(rows[..., :3], rows[..., 3:4]), expected)
    assert found.model.how["impl"] == "reference"


def test_arrays_and_single_clouds_are_taken_like_tensors(run: Path) -> None:
    found = load_model(run / "run", impl="reference")
    store = trainer(run).store
    rows = store.array(store.ids("val")[0])  # read from a file that must not be written to
    tensor = torch.from_numpy(rows.copy())
    expected = found(tensor[None, :, :3], tensor[None, :, 3:4])
    single = found(rows[:, :3], rows[:, 3:4])
    assert isinstance(single, np.ndarray) and single.dtype == np.float32
    np.testing.assert_array_equal(single, expected[0])
    batch = found(rows[None, :, :3].astype(np.float64), rows[None, :, 3:4])
    np.testing.assert_array_equal(batch, expected)
    assert torch.equal(found(tensor[:, :3], tensor[:, 3:4]), expected[0])
    np.testing.assert_array_equal(found.as_stored(rows[:, :3], rows[:, 3:4]), single)
    scaled = found.normalised(rows[::-1, :3], rows[::-1, 3:4])
    assert scaled.shape == single.shape


@pytest.mark.parametrize(
    ("coords", "features", "message"),
    [
        (
            np.ones((5, 3)),
            None,
            r"features must be density \[1\] x 1: an array or tensor of shape \(N, 1\) or"
            r" \(B, N, 1\), got none",
        ),
        (np.ones((5, 3)), np.ones((5, 2)), r"density .* got float64 of shape \(5, 2\)"),
        (torch.ones(5, 4), torch.ones(5, 1), r"coords must be position \[1\] x 3: .* \(5, 4\)"),
        (np.ones((5, 3)), np.ones((4, 1)), r"at the points of coords, shape \(5, 3\), got .*4, 1"),
        (np.ones((5, 3), complex), np.ones((5, 1)), "coords must be .* got complex128"),
        (np.full((5, 3), "a"), np.ones((5, 1)), "coords must be .* got <U1 of shape"),
        (np.ones(3), np.ones(1), r"coords must be .* got float64 of shape \(3,\)"),
    ],
)
def test_what_is_missing_is_named(run: Path, coords: Any, features: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(run / "run")(coords, features)


def test_divided_targets_come_out_undivided(run: Path) -> None:
    found = load_model(run / "run")
    potential = replace(
        found.schema.targets[0], divided=Reference({"density": 2.0}, factor=0.5, unit="V")
    )
    schema = replace(found.schema, targets=(potential, *found.schema.targets[1:]))
    assert schema.targets[0].undivided_unit == "V" and schema.targets[1].undivided_unit == "1"
    divided = replace(found, schema=schema, recipe=None)
    rows = np.random.default_rng(0).random((6, 4), np.float32)
    stored = found(rows[:, :3], rows[:, 3:])
    np.testing.assert_array_equal(divided.as_stored(rows[:, :3], rows[:, 3:]), stored)
    whole = divided(rows[:, :3], rows[:, 3:])
    np.testing.assert_allclose(whole[:, 0], stored[:, 0] * 0.5 * rows[:, 3] ** 2, rtol=1e-5)
    np.testing.assert_array_equal(whole[:, 1:], stored[:, 1:])
    write_model(run / "divided.safetensors", divided)
    assert load_model(run / "divided.safetensors").schema == schema


def test_other_files_are_refused(run: Path, tmp_path: Path) -> None:
    path = run / "run" / "model.safetensors"
    header, tensors = read_tensors(path, "model")
    with pytest.raises(ValueError, match="must be a model, got no such file"):
        load_model(tmp_path)
    save_file({"w": torch.ones(1)}, tmp_path / "a")
    with pytest.raises(ValueError, match="must be a model, got a file of another program"):
        load_model(tmp_path / "a")
    with pytest.raises(ValueError, match="must be a model, got checkpoint"):
        load_model(run / "run" / "checkpoints" / "step-00000012.safetensors")
    write_tensors(
        tmp_path / "b", "model", {k: v for k, v in header.items() if k != "fields"}, tensors
    )
    with pytest.raises(ValueError, match="it must have the field fields, got none"):
        load_model(tmp_path / "b")
    renamed = {**header, "config": small(model__variant="no-token-attention").to_json()}
    write_tensors(tmp_path / "c", "model", renamed, tensors)
    with pytest.raises(ValueError, match=r"mix.key.weight does not belong to it"):
        load_model(tmp_path / "c")
