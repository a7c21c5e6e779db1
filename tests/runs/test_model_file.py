from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import slipstream
from slipstream.runs.checkpoint import read_tensors, write_tensors
from slipstream.runs.model_file import TrainedModel, load_model

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
