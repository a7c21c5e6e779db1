from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from slipstream import Size, Transolver
from slipstream.builtin import builtin_source
from slipstream.data.batches import Batch
from slipstream.data.fields import Field, Schema
from slipstream.data.ingest import ingest
from slipstream.data.store import Store, open_store
from slipstream.training.trainer import (
    TrainConfig,
    evaluation_batches,
    fit,
    learning_rate_factor,
    make_optimizer,
    training_batches,
    validate,
)

CPU = torch.device("cpu")
SCHEMA = Schema((Field("x", components=2),), (Field("f"),), (Field("y"),))
GROUPS = SCHEMA.target_groups
SIZE = Size(layers=1, width=8, heads=2, slices=3)


def batches() -> list[Batch]:
    """Two of three samples each; y = f + x[0]."""
    rows = torch.rand(6, 10, 4, generator=torch.Generator().manual_seed(0))
    rows[..., 3] = rows[..., 2] + rows[..., 0]
    return [Batch(part, SCHEMA, ("a", "b", "c"), normalised=True) for part in rows.split(3)]


def endless() -> Iterator[Batch]:
    return itertools.cycle(batches())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    source = builtin_source("poisson", samples=8, points=20)
    ingest(source, tmp_path / "s", fractions={"train": 0.75, "val": 0.25})
    return open_store(tmp_path / "s")


def model() -> Transolver:
    return Transolver(2, 1, 1, size=SIZE)


def test_training_learns_and_repeats_bit_for_bit() -> None:
    finals, losses = [], []
    for _ in range(2):
        m, seen = model(), []
        before = validate(m, batches(), GROUPS).mean()
        fit(m, endless(), GROUPS, TrainConfig(steps=60, learning_rate=0.01), seen.append)
        assert len(seen) == 60
        assert validate(m, batches(), GROUPS).mean() < 0.5 * before
        finals.append(m.state_dict())
        losses.append(seen)
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for a, b in zip(*(f.values() for f in finals), strict=True))


def test_two_steps_are_the_protocol_written_out() -> None:
    config = TrainConfig(steps=2, clip=0.1)
    ours, by_hand = model(), model()
    fit(ours, batches(), GROUPS, config)
    optimizer = make_optimizer(by_hand, config)
    for step, batch in enumerate(batches()):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * learning_rate_factor(step, config)
        error = (by_hand(batch.coords, batch.features) - batch.targets).abs().sum((1, 2))
        loss = (error / batch.targets.abs().sum((1, 2))).mean()
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        assert norm > config.clip, "the clipping must be seen at work"
        for parameter, gradient in zip(by_hand.parameters(), gradients, strict=True):
            parameter.grad = gradient * config.clip / norm
        optimizer.step()
    for a, b in zip(ours.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_learning_rate_rises_then_falls_to_zero() -> None:
    config = TrainConfig(steps=100, warmup=0.1)
    factors = [learning_rate_factor(step, config) for step in range(101)]
    assert factors[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert factors[10] == 1 and factors[100] == pytest.approx(0)
    assert all(a >= b for a, b in itertools.pairwise(factors[9:]))


def test_every_sample_once_an_epoch_in_a_new_order(store: Store) -> None:
    config = TrainConfig(steps=1, batch=2)
    drawn = list(itertools.islice(training_batches(store, config, CPU), 6))
    epochs = [[name for b in drawn[k : k + 3] for name in b.samples] for k in (0, 3)]
    assert all(sorted(epoch) == list(store.ids("train")) for epoch in epochs)
    assert epochs[0] != epochs[1]
    again = next(training_batches(store, config, CPU))
    assert torch.equal(again.rows, drawn[0].rows)
    other = next(training_batches(store, TrainConfig(steps=1, batch=2, seed=1), CPU))
    assert other.samples != drawn[0].samples


def test_batches_are_normalised_by_the_training_split(store: Store) -> None:
    config = TrainConfig(steps=1, batch=6)
    training = next(training_batches(store, config, CPU))
    (validation,) = evaluation_batches(store, "val", CPU)
    for part in (training.features, training.targets):
        assert part.mean((0, 1)).abs().max() < 1e-5
        torch.testing.assert_close(part.std((0, 1), correction=0), torch.ones(part.shape[-1]))
    assert float(training.coords.abs().amax()) == pytest.approx(1)
    assert validation.targets.mean((0, 1)).abs().max() > 1e-3
    assert validation.samples == store.ids("val") and validation.rows.shape == (2, 20, 8)
    assert [len(b.samples) for b in evaluation_batches(store, "train", CPU, batch=4)] == [4, 2]


def test_only_matrices_decay() -> None:
    m = model()
    decayed, free = make_optimizer(m, TrainConfig(steps=1)).param_groups
    assert decayed["weight_decay"] == 5e-5 and free["weight_decay"] == 0
    names = {id(p): name for name, p in m.named_parameters()}
    free_names = {names[id(p)].rpartition(".")[2] for p in free["params"]}
    assert free_names == {"bias", "weight", "temperature", "placeholder"}
    assert all(
        "norm" in names[id(p)] or not names[id(p)].endswith("weight") for p in free["params"]
    )
    assert all(p.ndim == 2 for p in decayed["params"])


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    bad = batches()
    bad[0].rows[0, :, 2] = float("nan")
    with pytest.raises(FloatingPointError, match="the loss of step 1 is nan"):
        fit(model(), bad, GROUPS, TrainConfig(steps=2))


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 0), ("batch", 0), ("learning_rate", -1.0), ("warmup", -0.1)]
)
def test_bad_configs(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        TrainConfig(**{"steps": 1, field: value})  # type: ignore[arg-type]
