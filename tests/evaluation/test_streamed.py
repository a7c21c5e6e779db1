"""Whole samples in chunks: the numbers and the prediction of one pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.data.store import open_store
from slipstream.evaluation import streamed
from slipstream.evaluation.measure import MEASURES, MeasuredErrors, make_dataset, measure
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.slices import probing
from slipstream.metrics import Order
from slipstream.runs.evaluation_file import Protocol, prediction_file
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.prediction_file import read_prediction
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.streaming import Streaming

FULL = EvaluationRequest(device="cpu", protocol=Protocol(full=True))


@pytest.fixture
def run(study: Path) -> RunFolder:
    return RunFolder(study / "runs/poisson/baseline/seed-0")


def measured(trained: TrainedModel, protocol: Protocol, chunk: int | None) -> MeasuredErrors:
    assert trained.config.data.store is not None
    dataset = make_dataset(open_store(trained.config.data.store), trained, protocol)
    return measure(trained, dataset, protocol, chunk=chunk)


@pytest.mark.parametrize("variant", ["baseline", "no-token-attention", "mlp-only"])
@pytest.mark.parametrize("chunk", [1, 7, 31])
def test_errors_in_chunks_are_those_of_one_pass(made_study: Path, variant: str, chunk: int) -> None:
    """Samples have 32 points."""
    trained = load_model(made_study / f"runs/poisson/{variant}/seed-0")
    whole = measured(trained, Protocol(full=True), None)
    parts = measured(trained, Protocol(full=True), chunk)
    assert not whole.tokens and set(parts.tokens) == set(parts.samples())
    for name in MEASURES:
        (one,), (other,) = whole.errors[name], parts.errors[name]
        assert one.groups == other.groups and list(one.samples) == list(other.samples)
        for sample, errors in one.samples.items():
            assert other.samples[sample] == pytest.approx(errors, rel=1e-6)


def test_draws_as_in_training_are_not_streamed(made_study: Path) -> None:
    trained = load_model(made_study / "runs/poisson/baseline/seed-0")
    assert not measured(trained, Protocol(), chunk=7).tokens


@pytest.mark.parametrize(("name", "order"), [("L1", 1), ("L2", 2)])
def test_errors_are_added_up_in_fp64(made_study: Path, name: str, order: Order) -> None:
    trained = load_model(made_study / "runs/poisson/baseline/seed-0")
    assert trained.config.data.store is not None
    store = open_store(trained.config.data.store)
    sample = StoredSample(store, store.ids("test")[0])
    parts: list[torch.Tensor] = []
    Streaming(trained, 3, normalised=True).predict(
        sample.points(), lambda first, end, part: parts.append(part)
    )
    values = trained.normaliser.targets.inverse(torch.cat(parts, 1)).double()[0, :, 1:]
    truth = sample.rows(0, 32).targets.double()[0, :, 1:]
    by_hand = ((values - truth).norm(p=order) / truth.norm(p=order)).item()
    kinds: streamed.Kinds = {name: ({"field": (1, 2, 3)}, order)}
    errors, _ = streamed.streamed_errors(trained, sample, kinds, chunk=3)
    assert errors[name].samples[sample.name] == (pytest.approx(by_hand, rel=1e-12),)


def test_an_evaluation_in_chunks_is_that_of_one_pass(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = evaluate_runs([run], FULL)
    (sample,) = whole.pictures
    at_once = read_prediction(prediction_file(run, sample, full=True))
    monkeypatch.setattr("slipstream.models.sweep_plan.CPU_CHUNK", 7)
    (parts,) = evaluate_runs([run], replace(FULL, again=True, pictures=(sample,)))
    for one, other in zip(whole.numbers, parts.numbers, strict=True):
        assert other.name == one.name and other.mean == pytest.approx(one.mean, rel=1e-6)
    found = read_prediction(prediction_file(run, sample, full=True))
    for name in ("coords", "features", "truth"):
        assert torch.equal(getattr(found, name), getattr(at_once, name))
    torch.testing.assert_close(found.values, at_once.values, rtol=1e-5, atol=1e-6)
    assert found.errors == pytest.approx(at_once.errors, rel=1e-6)
    assert found.weights is not None and at_once.weights is not None
    torch.testing.assert_close(found.weights, at_once.weights[:7], rtol=0, atol=1e-3)
    assert [layer.name for layer in parts.slices] == [layer.name for layer in whole.slices]


def test_a_prediction_of_very_many_points_is_of_the_first_ones(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = load_model(run.path)
    assert trained.config.data.store is not None
    store = open_store(trained.config.data.store)
    sample = StoredSample(store, store.ids("test")[0])
    rows = sample.rows(0, sample.count)
    whole = trained.as_stored(*rows.inputs)[0]
    tokens = trained.encode(*rows.inputs, chunk=9)
    monkeypatch.setattr(streamed, "MOST_FULL_POINTS", 20)
    values, probe = streamed.streamed_prediction(trained, sample, tokens, weight_points=4, chunk=12)
    torch.testing.assert_close(values, whole[:20], rtol=1e-5, atol=1e-6)
    with probing(trained.model, 4) as of_all:
        trained.as_stored(*rows.inputs)
    assert probe.weights is not None and of_all.weights is not None
    torch.testing.assert_close(probe.weights, of_all.weights)


def test_a_stored_sample_is_read_in_spans(made_study: Path) -> None:
    trained = load_model(made_study / "runs/poisson/baseline/seed-0")
    assert trained.config.data.store is not None
    store = open_store(trained.config.data.store)
    sample = StoredSample(store, store.ids("test")[1])
    array = np.array(store.array(sample.name))
    assert sample.count == len(array) == 32
    assert np.array_equal(sample.rows(5, 9).rows[0].numpy(), array[5:9])
    points = sample.points(10, 30)
    coords, features = points.read(2, 6)
    assert points.count == 20 and np.array_equal(coords[0].numpy(), array[12:16, :3])
    assert np.array_equal(features[0].numpy(), array[12:16, 3:4])
