"""Proposition 1: with all slice logits zero, the coupling is the global mean, at every G.

The slice functions are then 1/G, every token is the mean of the values, and with the constant core
scaled so that the slots' shares sum to one the coupling of an averaging neural operator results.
The layer adds 1e-5 to the mass N/G of a slot, so "scaled" here includes the factor (mass + 1e-5) /
mass.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from slipstream import VARIANTS, Size
from slipstream.models.coupling import Coupling
from slipstream.models.linear_no import LinearNoCoupling
from slipstream.models.slice_once import SliceOnce
from slipstream.models.variants import EPSILON

from .common import HOW, TRANSOLVER_COUPLINGS, randomise

BATCH, POINTS, WIDTH, HEADS = 2, 23, 6, 3
SLICES = [1, 2, 5, 32, 100]


def identity(linear: nn.Linear, scale: float = 1.0) -> None:
    linear.weight.data = scale * torch.eye(linear.out_features, dtype=torch.float64)
    if linear.bias is not None:
        linear.bias.data.zero_()


def zero_logits(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if "slots" in name and not name.endswith("temperature"):
            parameter.data.zero_()


def points() -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, POINTS, WIDTH, generator=draw, dtype=torch.float64)


def assert_is_the_mean(update: torch.Tensor, x: torch.Tensor) -> None:
    mean = x.mean(1, keepdim=True).expand_as(x)
    torch.testing.assert_close(update, mean, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("slices", SLICES)
@pytest.mark.parametrize("variant", TRANSOLVER_COUPLINGS)
def test_zero_logits_make_every_coupling_the_global_mean(variant: str, slices: int) -> None:
    size = Size(layers=1, width=WIDTH, heads=HEADS, slices=slices)
    coupling = Coupling(VARIANTS[variant], size, 0, HOW)
    randomise(coupling)  # attention maps and temperatures stay random: they must not matter
    zero_logits(coupling)
    mass = POINTS / slices
    identity(coupling.values)
    identity(coupling.output)
    identity(coupling.mix.value, (mass + EPSILON) / mass)
    assert_is_the_mean(coupling(points())[0], points())


@pytest.mark.parametrize("key_ratio", [1, 3])
def test_also_for_linear_no(key_ratio: int) -> None:
    size = Size(layers=1, width=WIDTH, heads=HEADS, key_ratio=key_ratio)
    coupling = LinearNoCoupling(size, HOW)
    randomise(coupling)
    zero_logits(coupling)
    identity(coupling.query)
    identity(coupling.value)
    coupling.output = nn.Identity()  # type: ignore[assignment]
    assert_is_the_mean(coupling(points())[0], points())


@pytest.mark.parametrize("slices", SLICES)
def test_also_for_slice_once(slices: int) -> None:
    body = SliceOnce(Size(layers=1, width=WIDTH, heads=HEADS, slices=slices), HOW)
    randomise(body)
    zero_logits(body)
    body.token_blocks = nn.ModuleList()
    mass = POINTS / slices
    shrunk = mass / (mass + EPSILON)
    assert_is_the_mean((body(points()) - points()) / shrunk, points())


def test_other_logits_do_not() -> None:
    coupling = Coupling(
        VARIANTS["no-token-attention"],
        Size(layers=1, width=WIDTH, heads=HEADS, slices=5),
        0,
        HOW,
    )
    randomise(coupling)
    identity(coupling.values)
    identity(coupling.output)
    identity(coupling.mix.value)
    mean = points().mean(1, keepdim=True)
    assert float((coupling(points())[0] - mean).detach().abs().max()) > 0.01
