"""Corollary ("depth does not repair mlp-only"): a stack of pointwise maps is pointwise."""

from __future__ import annotations

import pytest
import torch

from slipstream import Size

from .common import COUPLED, random_model

POINTS, MOVED = 9, 4


def outputs_before_and_after_moving_one_point(
    variant: str, size: Size
) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    coords = torch.randn(1, POINTS, 3, generator=draw, dtype=torch.float64)
    features = torch.randn(1, POINTS, 2, generator=draw, dtype=torch.float64)
    moved = features.clone()
    moved[0, MOVED] += 1.0
    with torch.no_grad():
        model = random_model(variant, size)
        return model(coords, features)[0], model(coords, moved)[0]


@pytest.mark.parametrize("variant", ["mlp-only", "mlp-only-wide"])
@pytest.mark.parametrize(("layers", "width"), [(1, 8), (4, 8), (16, 8), (2, 64), (32, 16)])
def test_mlp_only_is_pointwise_at_every_depth_and_width(
    variant: str, layers: int, width: int
) -> None:
    before, after = outputs_before_and_after_moving_one_point(
        variant, Size(layers=layers, width=width, heads=2, slices=3)
    )
    others = torch.arange(POINTS) != MOVED
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[MOVED], after[MOVED])


@pytest.mark.parametrize("variant", COUPLED)
@pytest.mark.parametrize("layers", [1, 3])
def test_every_coupled_variant_reaches_every_other_point(variant: str, layers: int) -> None:
    before, after = outputs_before_and_after_moving_one_point(
        variant, Size(layers=layers, width=8, heads=2, slices=3)
    )
    assert ((before - after).abs().amax(-1) > 1e-9).all()
