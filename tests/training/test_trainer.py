from __future__ import annotations

import itertools

import pytest
import torch

from slipstream import Size, Transolver
from slipstream.training.trainer import (
    Samples,
    TrainConfig,
    fit,
    learning_rate_factor,
    make_optimizer,
    shuffled,
    validate,
)

GROUPS = {"y": (0,)}
SIZE = Size(layers=1, width=8, heads=2, slices=3)


def samples(count: int = 6) -> Samples:
    draw = torch.Generator().manual_seed(0)
    coords = torch.rand(count, 10, 2, generator=draw)
    features = torch.rand(count, 10, 1, generator=draw)
    return Samples(coords, features, features + coords[..., :1])


def model() -> Transolver:
    return Transolver(2, 1, 1, size=SIZE)


def test_training_learns_and_repeats_bit_for_bit() -> None:
    finals, losses = [], []
    for _ in range(2):
        m, seen = model(), []
        before = validate(m, samples(), GROUPS).mean()
        fit(m, samples(), GROUPS, TrainConfig(steps=60, batch=3, learning_rate=0.01), seen.append)
        assert len(seen) == 60
        assert validate(m, samples(), GROUPS).mean() < 0.5 * before
        finals.append(m.state_dict())
        losses.append(seen)
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for a, b in zip(*(f.values() for f in finals), strict=True))


def test_two_steps_are_the_protocol_written_out() -> None:
    config = TrainConfig(steps=2, batch=3, clip=0.1)
    ours, by_hand = model(), model()
    fit(ours, samples(), GROUPS, config)
    optimizer = make_optimizer(by_hand, config)
    for step, index in zip(range(2), shuffled(6, config), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * learning_rate_factor(step, config)
        batch = samples()[index]
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


def test_every_sample_once_an_epoch_in_a_new_order() -> None:
    epochs = [
        torch.cat(
            list(itertools.islice(shuffled(6, TrainConfig(steps=1, batch=2)), 3 * k, 3 * k + 3))
        )
        for k in range(2)
    ]
    assert all(sorted(epoch.tolist()) == list(range(6)) for epoch in epochs)
    assert not torch.equal(*epochs)
    assert len(next(shuffled(2, TrainConfig(steps=1, batch=5)))) == 2


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
    bad = samples()
    bad.features[0] = float("nan")
    with pytest.raises(FloatingPointError, match="the loss of step 1 is nan"):
        fit(model(), bad, GROUPS, TrainConfig(steps=2, batch=6))


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 0), ("batch", 0), ("learning_rate", -1.0), ("warmup", -0.1)]
)
def test_bad_configs(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        TrainConfig(**{"steps": 1, field: value})  # type: ignore[arg-type]
