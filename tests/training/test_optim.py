from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from slipstream import VARIANTS, Size, Transolver
from slipstream.runs.config import OptimConfig
from slipstream.training.optim import (
    learning_rate,
    load_optimizer,
    make_optimizer,
    optimizer_tensors,
    set_learning_rate,
    update,
)

from .small import small

SIZE = Size(layers=2, width=8, heads=2, slices=3)


def test_the_learning_rate_warms_up_and_decays_to_zero() -> None:
    config = small(steps=1000, optim__warmup=0.01)
    rates = [learning_rate(step, config) for step in range(1, 1001)]
    assert rates[0] == pytest.approx(1e-4) and rates[9] == pytest.approx(1e-3)
    assert max(rates) == 1e-3 and rates[10] == 1e-3
    assert rates[10:] == sorted(rates[10:], reverse=True)
    half = 10 + 990 // 2
    assert rates[half] == pytest.approx(5e-4, rel=1e-2)
    assert 0 < rates[-1] < 1e-8 + 1e-3 * (math.pi / 990) ** 2 / 4 + 1e-12


def test_a_longer_schedule_is_not_finished() -> None:
    whole, part = small(steps=100), small(steps=40, schedule=100)
    assert all(learning_rate(s, whole) == learning_rate(s, part) for s in range(1, 41))


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_matrices_decay(variant: str) -> None:
    model = Transolver(3, 1, 4, variant=variant, size=SIZE)
    optimizer = make_optimizer(model, OptimConfig(weight_decay=0.5))
    names = {p: name for name, p in model.named_parameters()}
    decays = {names[p]: g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert len(decays) == len(names)
    for name, decay in decays.items():
        kind = name.rpartition(".")[2]
        free = kind in ("bias", "temperature", "placeholder") or "norm" in name
        assert decay == (0.0 if free else 0.5), name


def line() -> nn.Linear:
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
    return model


def test_a_step_is_that_of_adamw_on_the_clipped_gradient() -> None:
    model, other = line(), line()
    config = OptimConfig(weight_decay=0.1, clip=1.0)
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, 0.01)
    plain = torch.optim.AdamW(other.parameters(), lr=0.01, weight_decay=0.1, foreach=False)
    for gradient in ([30.0, 40.0], [0.1, 0.2]):
        model.weight.grad = torch.tensor([gradient])
        norm, skipped = update(model, optimizer, torch.tensor(1.0), config.clip)
        length = math.hypot(*gradient)
        assert norm.item() == pytest.approx(length) and skipped.item() == 0
        other.weight.grad = torch.tensor([gradient]) / max(1.0, length)
        plain.step()
        torch.testing.assert_close(model.weight, other.weight, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("loss", "gradient"), [(1.0, math.nan), (1.0, math.inf), (math.nan, 1.0), (math.inf, 1.0)]
)
def test_a_step_that_is_not_finite_changes_nothing(loss: float, gradient: float) -> None:
    model = line()
    optimizer = make_optimizer(model, OptimConfig())
    model.weight.grad = torch.ones(1, 2)
    update(model, optimizer, torch.tensor(1.0), 5.0)
    before = {k: v.clone() for k, v in optimizer_tensors(model, optimizer).items()}
    weight = model.weight.detach().clone()
    model.weight.grad = torch.tensor([[gradient, 1.0]])
    _, skipped = update(model, optimizer, torch.tensor(loss), 5.0)
    assert skipped.item() == 1 and torch.equal(model.weight, weight)
    after = optimizer_tensors(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert before["weight.step"].item() == 1


def test_a_state_goes_on_in_another_optimizer() -> None:
    found = []
    for resumed in (False, True):
        model = line()
        optimizer = make_optimizer(model, OptimConfig())
        for step in range(4):
            if resumed and step == 2:
                saved = {k: v.clone() for k, v in optimizer_tensors(model, optimizer).items()}
                optimizer = make_optimizer(model, OptimConfig())
                load_optimizer(model, optimizer, saved)
            model.weight.grad = torch.tensor([[1.0, -step]])
            update(model, optimizer, torch.tensor(1.0), 5.0)
        found.append(model.weight.detach())
    assert torch.equal(*found)
    with pytest.raises(ValueError, match=r"must have weight.exp_avg_sq, got none"):
        load_optimizer(model, optimizer, {"weight.exp_avg": torch.ones(1, 2)})


@pytest.mark.parametrize(
    ("name", "damaged", "sentence"),
    [
        ("exp_avg", torch.ones(2, 1), r"shape \(1, 2\), got \(2, 1\)"),
        ("exp_avg_sq", torch.ones(1, 2).half(), "dtype torch.float32, got torch.float16"),
        ("step", torch.ones(1), r"shape \(\), got \(1,\)"),
    ],
)
def test_a_state_of_other_shape_or_dtype_is_refused(
    name: str, damaged: torch.Tensor, sentence: str
) -> None:
    model = line()
    optimizer = make_optimizer(model, OptimConfig())
    model.weight.grad = torch.ones(1, 2)
    update(model, optimizer, torch.tensor(1.0), 5.0)
    saved = {**optimizer_tensors(model, optimizer), f"weight.{name}": damaged}
    with pytest.raises(ValueError, match=f"the optimiser's weight.{name} must have {sentence}"):
        load_optimizer(model, optimizer, saved)
