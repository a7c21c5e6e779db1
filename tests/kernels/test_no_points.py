"""Points that are all elsewhere: sums are zero, outputs empty, gradients of what is shared zero."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slipstream import Membership, couple, deslice_tokens, slice_points
from slipstream.kernels import api
from slipstream.kernels.membership import Axis
from slipstream.kernels.plan import Impl
from slipstream.kernels.pointwise import add_norm

from ..conftest import DEVICE

IMPLS: tuple[Impl, ...] = ("reference", "single-tile", "blocked")
FAMILIES = IMPLS if DEVICE == "cuda" else (*IMPLS, "chunked")
B, H, G, D = 2, 3, 16, 16


def made(points: int, over: Axis = "slots") -> tuple[Membership, Tensor, list[Tensor]]:
    """A membership of so many points, values, and all that has a gradient."""
    draw = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(DEVICE).requires_grad_()

    query, values = randn(B, points, H, D), randn(B, points, H, D)
    weight, bias = randn(G, D), randn(G)
    temperature = torch.full((H,), 0.7, device=DEVICE).requires_grad_()
    membership = Membership(query, weight, bias, temperature, over)
    return membership, values, [query, values, weight, bias, temperature]


def check_zero_gradients(leaves: list[Tensor]) -> None:
    assert all(leaf.grad is not None and not leaf.grad.any() for leaf in leaves)
    for leaf in leaves:
        leaf.grad = None


@pytest.mark.parametrize("impl", FAMILIES)
def test_without_points_the_sums_are_zero(impl: Impl) -> None:
    membership, values, leaves = made(0)
    sums = slice_points(membership, values, impl=impl)
    assert sums.numerator.shape == (B, H, G, D) and not sums.numerator.any()
    assert sums.mass.shape == (B, H, G) and not sums.mass.any()
    (sums.numerator.sum() + sums.mass.sum()).backward()
    check_zero_gradients(leaves)
    tokens = torch.ones(B, H, G, D, device=DEVICE, requires_grad=True)
    out = deslice_tokens(membership, tokens, impl=impl)
    assert out.shape == (B, 0, H, D)
    out.sum().backward()
    check_zero_gradients([leaves[0], *leaves[2:], tokens])
    out = couple(membership, values, lambda tokens: 2 * tokens, epsilon=1e-5, impl=impl)
    assert out.shape == (B, 0, H, D)
    out.sum().backward()
    check_zero_gradients(leaves)


@pytest.mark.parametrize("impl", [impl for impl in FAMILIES if impl != "single-tile"])
def test_they_add_nothing_to_weights_over_the_points(impl: Impl) -> None:
    membership, values, leaves = made(0, "points")
    none = slice_points(membership, values, impl=impl)
    assert none.log_normalizer is not None
    assert not none.numerator.any() and (none.log_normalizer == -torch.inf).all()
    some = slice_points(*made(5, "points")[:2], impl=impl)
    both = some + none
    for one, other in ((some.numerator, both.numerator), (some.mass, both.mass)):
        torch.testing.assert_close(one, other)
    # As the ranks exchange them: scaled to the largest normaliser of any rank.
    whole = none.reduced(lambda mine: mine + _of_some(mine, some), lambda _: some.log_normalizer)
    torch.testing.assert_close(whole.numerator, some.numerator)
    (whole.numerator.sum() + whole.log_normalizer.sum()).backward()  # type: ignore[union-attr]
    check_zero_gradients(leaves)


def _of_some(mine: Tensor, some: api.TokenSums) -> Tensor:
    """What a rank with all points sends, its largest normaliser being the largest of all."""
    ones = torch.ones_like(some.mass)[..., None]
    sent = torch.cat((some.numerator, some.mass[..., None], ones), -1).detach()
    assert sent.shape == mine.shape
    return sent


def test_the_norm_has_no_points_either() -> None:
    layer = torch.nn.LayerNorm(8, device=DEVICE)
    for impl in ("reference", "fused"):
        stream = torch.zeros(2, 0, 8, device=DEVICE, requires_grad=True)
        summed, normed = add_norm(stream, stream * 2, layer, impl=impl)
        assert summed.shape == normed.shape == (2, 0, 8)
        (summed.sum() + normed.sum()).backward()
        assert layer.weight.grad is not None and not layer.weight.grad.any()
        layer.zero_grad()


def test_statistics_of_no_points() -> None:
    membership, values, _ = made(0)
    known = api.with_statistics(membership, impl="blocked", precision=None)
    assert known.statistics is not None and known.statistics.shape == (2, B, H, 0)
    assert not slice_points(known, values, impl="blocked").mass.any()
    assert replace(known, statistics=None).statistics is None
