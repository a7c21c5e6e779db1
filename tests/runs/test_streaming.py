from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.data.store import Reference
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.tokens import Tokens, load_tokens

from ..training.small import trainer


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    path = tmp_path_factory.mktemp("model")
    trainer(path, optim__learning_rate=0.01).run()
    return load_model(path / "run")


def cloud(count: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.random((count, 3)).astype(np.float32), draw.random((count, 1)).astype(np.float32)


def test_decode_of_encode_is_the_model(trained: TrainedModel) -> None:
    coords, features = cloud(500)
    whole = trained(coords, features)
    for chunk in (None, 64):
        tokens = trained.encode(coords, features, chunk=chunk)
        fields = trained.decode(coords, features, tokens=tokens, chunk=chunk)
        assert isinstance(fields, np.ndarray) and fields.shape == whole.shape
        np.testing.assert_allclose(fields, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max())
    as_tensors = trained.decode(torch.tensor(coords), torch.tensor(features), tokens=tokens)
    assert isinstance(as_tensors, torch.Tensor)
    np.testing.assert_allclose(as_tensors.numpy(), fields, rtol=1e-5, atol=1e-6)


def test_features_by_name_are_cut_into_chunks(trained: TrainedModel) -> None:
    coords, features = cloud(100)
    name = trained.schema.features[0].name
    tokens = trained.encode(coords, {name: features[:, 0]}, chunk=30)
    given = trained.decode(coords, {name: features[:, 0]}, tokens=tokens, chunk=30)
    np.testing.assert_allclose(given, trained(coords, features), rtol=1e-4, atol=1e-5)
    one = trained.decode(coords, {name: 0.5}, tokens=trained.encode(coords, {name: 0.5}, chunk=7))
    np.testing.assert_allclose(
        one, trained(coords, np.full_like(features, 0.5)), rtol=1e-4, atol=1e-5
    )


def test_divided_targets_come_back_undivided(trained: TrainedModel) -> None:
    first, *rest = trained.schema.targets
    by = Reference({trained.schema.features[0].name: 2.0}, 3.0, "Pa")
    schema = replace(trained.schema, targets=(replace(first, divided=by), *rest))
    divided = replace(trained, schema=schema, recipe=None)
    coords, features = cloud(90)
    tokens = divided.encode(coords, features, chunk=40)
    fields = divided.decode(coords, features, tokens=tokens, chunk=40)
    np.testing.assert_allclose(fields, divided(coords, features), rtol=1e-4, atol=1e-5)
    assert not np.allclose(fields, trained(coords, features))


def test_tokens_are_kept_in_a_file(trained: TrainedModel, tmp_path: Path) -> None:
    coords, features = cloud(50)
    tokens = trained.encode(coords, features)
    tokens.save(tmp_path / "a.safetensors")
    again = load_tokens(tmp_path / "a.safetensors")
    assert again.points == 50 and again.clouds == 1
    assert np.array_equal(
        trained.decode(coords, features, tokens=again),
        trained.decode(coords, features, tokens=tokens),
    )
    with pytest.raises(ValueError, match="must be a tokens, got model"):
        load_tokens(_model_file(trained, tmp_path))
    other = replace(again, weights="0" * 64)
    with pytest.raises(ValueError, match="tokens must be of this model, weights .* got those of 0"):
        trained.decode(coords, features, tokens=other)


def _model_file(trained: TrainedModel, folder: Path) -> Path:
    from slipstream.runs.model_file import write_model

    write_model(folder / "model.safetensors", trained)
    return folder / "model.safetensors"


def test_the_mean_of_subsets_counts_their_points() -> None:
    several = [Tokens((torch.full((1, 1, 2, 2), v),), n, "w") for v, n in ((1.0, 30), (4.0, 60))]
    mean = Tokens.mean(several, "two subsets")
    assert mean.points == 90 and torch.allclose(mean.layers[0], torch.tensor(3.0))


def test_bad_points_are_named(trained: TrainedModel) -> None:
    coords, _ = cloud(10)
    with pytest.raises(ValueError, match="missing: "):
        trained.encode(coords)
    with pytest.raises(ValueError, match="coords must be .* got float32 of shape \\(10,\\)"):
        trained.encode(coords[:, 0])
