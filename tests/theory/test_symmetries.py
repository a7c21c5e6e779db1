"""A point cloud has no order, and a point counted twice is still one point of the mean."""

from __future__ import annotations

import pytest
import torch

from slipstream import VARIANTS, Membership, Size, slice_points
from slipstream.kernels.membership import Axis
from slipstream.models.variants import EPSILON

from .common import COUPLED, random_model

SIZE = Size(layers=3, width=12, heads=3, slices=4)


def cloud(points: int = 17) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    coords = torch.randn(2, points, 3, generator=draw, dtype=torch.float64)
    return coords, torch.randn(2, points, 2, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("variant", VARIANTS)
def test_permutation_equivariance(variant: str) -> None:
    coords, features = cloud()
    order = torch.randperm(17, generator=torch.Generator().manual_seed(5))
    model = random_model(variant, SIZE)
    with torch.no_grad():
        torch.testing.assert_close(
            model(coords[:, order], features[:, order]),
            model(coords, features)[:, order],
            rtol=1e-11,
            atol=1e-12,
        )


@pytest.mark.parametrize("over", ["slots", "points"])
def test_duplicating_points_changes_tokens_only_through_epsilon(over: Axis) -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, 9, 2, 3, generator=draw, dtype=torch.float64)
    values = torch.randn(1, 9, 2, 5, generator=draw, dtype=torch.float64)
    slot_weight = torch.randn(4, 3, generator=draw, dtype=torch.float64)
    temperature = torch.tensor([0.4, 0.8], dtype=torch.float64)

    def sums(copies: int):  # noqa: ANN202
        m = Membership(query.repeat(1, copies, 1, 1), slot_weight, None, temperature, over)
        return slice_points(m, values.repeat(1, copies, 1, 1))

    once, twice = sums(1), sums(2)
    torch.testing.assert_close(twice.tokens(), once.tokens(), rtol=1e-13, atol=1e-14)
    if over == "slots":
        predicted = once.numerator / (once.mass + EPSILON / 2)[..., None]
        torch.testing.assert_close(twice.tokens(EPSILON), predicted, rtol=1e-13, atol=1e-14)
        assert not torch.allclose(twice.tokens(EPSILON), once.tokens(EPSILON), rtol=1e-9, atol=0)


@pytest.mark.parametrize("variant", COUPLED)
def test_duplicating_points_hardly_changes_a_model(variant: str) -> None:
    coords, features = cloud()
    model = random_model(variant, SIZE)
    with torch.no_grad():
        once = model(coords, features)
        twice = model(coords.repeat(1, 2, 1), features.repeat(1, 2, 1))[:, :17]
    change = float((twice - once).norm() / once.norm())
    if variant == "untied-ln":
        assert change < 1e-13
    else:
        assert 1e-9 < change < 1e-3
