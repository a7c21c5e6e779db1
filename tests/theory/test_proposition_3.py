"""Proposition 3 (ii): one coupling transmits at most G c functionals of the field.

What a set of receivers learns of a disjoint set of senders is the Jacobian of their outputs by the
senders' inputs. Its rank is at most G c for one coupling, at most L G c for a stack that couples at
each of L layers, at most G c for `slice-once` at every token depth, and 0 for `mlp-only`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from slipstream import Size

from .common import random_coupling, random_model, rank

SLICES, WIDTH, HEADS = 3, 4, 2
BUDGET = SLICES * WIDTH
SENDERS, RECEIVERS, FEATURES = 24, 24, 4


def size(layers: int) -> Size:
    return Size(layers=layers, width=WIDTH, heads=HEADS, slices=SLICES)


def cross_jacobian_rank(function: nn.Module | object, channels: int) -> int:
    """Rank of d(outputs at the receivers) / d(inputs at the senders)."""
    draw = torch.Generator().manual_seed(3)
    receivers = torch.randn(1, RECEIVERS, channels, generator=draw, dtype=torch.float64)

    def at_receivers(senders: Tensor) -> Tensor:
        return function(torch.cat((senders, receivers), 1))[0, SENDERS:].flatten()  # type: ignore[operator]

    senders = torch.randn(1, SENDERS, channels, generator=draw, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(at_receivers, senders)
    return rank(jacobian.flatten(1))


def model_rank(variant: str, layers: int) -> int:
    model = random_model(variant, size(layers), feature_dim=FEATURES, out_dim=4)
    draw = torch.Generator().manual_seed(4)
    coords = torch.randn(1, SENDERS + RECEIVERS, 3, generator=draw, dtype=torch.float64)
    return cross_jacobian_rank(lambda features: model(coords, features), FEATURES)


@pytest.mark.parametrize("variant", ["baseline", "no-token-attention", "untied"])
def test_one_coupling_transmits_exactly_its_budget(variant: str) -> None:
    coupling = random_coupling(variant, size(1))
    assert cross_jacobian_rank(lambda x: coupling(x)[0], WIDTH) == BUDGET


def test_slice_once_does_not_grow_with_token_depth() -> None:
    ranks = [model_rank("slice-once", depth) for depth in (1, 2, 4, 8)]
    assert 0 < ranks[0] <= BUDGET and len(set(ranks)) == 1, ranks


@pytest.mark.parametrize("variant", ["baseline", "no-token-attention", "frozen-slice"])
def test_a_stack_grows_with_depth_within_its_budget(variant: str) -> None:
    ranks = [model_rank(variant, layers) for layers in (1, 2, 3)]
    assert ranks[0] < ranks[1] < ranks[2], ranks
    assert all(got <= layers * BUDGET for layers, got in enumerate(ranks, start=1)), ranks


def test_mlp_only_carries_nothing() -> None:
    assert [model_rank("mlp-only", layers) for layers in (1, 4)] == [0, 0]
