"""The definition against a second one, written out in loops; and its gradients."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from slipstream import Membership, TokenSums
from slipstream.kernels import api, reference
from slipstream.kernels.membership import Axis

from .cases import (
    BIAS_LAYOUTS,
    WEIGHT_LAYOUTS,
    B,
    G,
    H,
    N,
    V,
    membership,
    parts,
    tokens,
    values,
)

OVER: tuple[Axis, ...] = ("slots", "points")
slice_points = partial(api.slice_points, impl="reference")
deslice_tokens = partial(api.deslice_tokens, impl="reference")
every_layout = pytest.mark.parametrize(
    ("weight", "bias", "query_heads"),
    [(w, b, q) for w in WEIGHT_LAYOUTS for b in BIAS_LAYOUTS for q in (1, H)],
)


def weights_by_hand(m: Membership) -> Tensor:
    """The slice weights, one number at a time."""
    raw = torch.empty(B, H, N, G, dtype=torch.float64)
    for b, h, n, g in torch.cartesian_prod(*map(torch.arange, (B, H, N, G))).tolist():
        query = m.query[b, n, h % m.query.shape[2]]
        slot = m.slot_weight.expand(B, H, -1, -1)[b, h, g]
        bias = 0.0 if m.slot_bias is None else m.slot_bias.expand(B, H, -1)[b, h, g]
        raw[b, h, n, g] = ((slot * query).sum() + bias) / m.temperature[h]
    exponential = raw.exp()
    axis = 3 if m.over == "slots" else 2
    return exponential / exponential.sum(axis, keepdim=True)


@pytest.mark.parametrize("over", OVER)
@every_layout
def test_layouts_agree_with_the_sums_by_hand(
    over: Axis, weight: str, bias: str, query_heads: int
) -> None:
    with torch.no_grad():
        m = Membership(*parts(weight, bias, query_heads), over)
        w = weights_by_hand(m)
        torch.testing.assert_close(reference.weights(m), w, rtol=1e-13, atol=0)
        sums = slice_points(m, values())
        numerator = torch.einsum("bhng,bnhv->bhgv", w, values())
        torch.testing.assert_close(sums.numerator, numerator, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(sums.mass, w.sum(2), rtol=1e-13, atol=0)
        out = torch.einsum("bhng,bhgv->bnhv", w, tokens())
        torch.testing.assert_close(deslice_tokens(m, tokens()), out, rtol=1e-12, atol=1e-14)


@pytest.mark.untraced
@pytest.mark.parametrize(("over", "query_heads"), [("slots", 1), ("slots", H), ("points", H)])
@pytest.mark.parametrize("bias", BIAS_LAYOUTS)
@pytest.mark.parametrize("weight", WEIGHT_LAYOUTS)
def test_gradcheck(over: Axis, weight: str, bias: str, query_heads: int) -> None:
    def sliced(*args: Tensor) -> tuple[Tensor, ...]:
        sums = slice_points(Membership(*args[:4], over), args[4])
        rest = () if sums.log_normalizer is None else (sums.log_normalizer,)
        return sums.numerator, sums.mass, *rest

    def desliced(*args: Tensor) -> Tensor:
        return deslice_tokens(Membership(*args[:4], over), args[4])

    membership_parts = parts(weight, bias, query_heads, points=3)
    assert torch.autograd.gradcheck(sliced, (*membership_parts, values(points=3)))
    assert torch.autograd.gradcheck(desliced, (*membership_parts, tokens()))


def test_weights_sum_to_one_over_their_axis() -> None:
    torch.testing.assert_close(
        reference.weights(membership("slots")).sum(3), torch.ones(B, H, N).double()
    )
    torch.testing.assert_close(slice_points(membership("points"), values()).mass,
                               torch.ones(B, H, G).double())  # fmt: skip


@pytest.mark.parametrize("over", OVER)
@given(cut=st.integers(1, N - 1), scale=st.sampled_from([1.0, 300.0]))
@settings(max_examples=20)
def test_sums_over_chunks_add_up(over: Axis, cut: int, scale: float) -> None:
    """Also where the exponentials of a chunk would overflow, or vanish beside the other's."""
    query, slot_weight, slot_bias, temperature = parts()

    def sums(points: slice) -> TokenSums:
        m = Membership(query[:, points] * scale, slot_weight, slot_bias, temperature, over)
        return slice_points(m, values()[:, points])

    whole, both = sums(slice(None)), sums(slice(cut)) + sums(slice(cut, None))
    torch.testing.assert_close(both.numerator, whole.numerator, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(both.mass, whole.mass, rtol=1e-11, atol=1e-13)
    inputs = (query, slot_weight, temperature)
    gradients = (torch.autograd.grad(s.tokens(1e-5).square().sum(), inputs) for s in (both, whole))
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)


def test_tokens_are_numerator_over_mass_plus_epsilon() -> None:
    sums = slice_points(membership(), values())
    expected = sums.numerator / (sums.mass + 0.5).unsqueeze(-1)
    assert torch.equal(sums.tokens(0.5), expected)


@pytest.mark.parametrize("over", OVER)
def test_large_logits_stay_finite(over: Axis) -> None:
    query, slot_weight, slot_bias, temperature = (p.detach() for p in parts() if p is not None)
    m = Membership(query * 1e4, slot_weight, slot_bias, temperature, over)
    sums = slice_points(m, values())
    assert sums.numerator.isfinite().all() and deslice_tokens(m, tokens()).isfinite().all()


def test_smallest_sizes() -> None:
    one = torch.ones(1, 1, 1, 1)
    m = Membership(one, torch.ones(1, 1), None, torch.ones(1))
    sums = slice_points(m, 3 * one)
    assert sums.numerator.item() == 3 and sums.mass.item() == 1
    assert deslice_tokens(m, 2 * one).item() == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_floating_dtype(dtype: torch.dtype) -> None:
    cast = [None if p is None else p.detach().to(dtype) for p in parts()]
    sums = slice_points(Membership(*cast), values().to(dtype))  # type: ignore[arg-type]
    exact = slice_points(membership(), values())
    assert sums.numerator.dtype == torch.float32 and sums.tokens().dtype == dtype
    error = (sums.numerator.double() - exact.numerator).norm() / exact.numerator.norm()
    assert float(error.detach()) < 4 * torch.finfo(dtype).eps


def test_autocast_keeps_the_softmax_in_fp32() -> None:
    """Products in bf16, softmax in fp32, as an eager Transolver has it; and all sums in fp32."""
    query, slot_weight, slot_bias, temperature = (
        p.detach().float() for p in parts() if p is not None
    )
    with torch.autocast("cpu", torch.bfloat16):
        m = Membership(query.bfloat16(), slot_weight, slot_bias, temperature)
        w = reference.weights(m)
        sums = slice_points(m, values().float().bfloat16())
        out = deslice_tokens(m, tokens().float())
    assert w.dtype == torch.float32
    torch.testing.assert_close(w.sum(-1), torch.ones(B, H, N), rtol=1e-6, atol=0)
    assert out.dtype == torch.bfloat16
    assert sums.numerator.dtype == sums.mass.dtype == torch.float32
    logits = torch.nn.functional.linear(
        query.bfloat16(), slot_weight.bfloat16(), slot_bias.bfloat16()
    )
    eager = (logits.transpose(1, 2) / temperature.view(1, H, 1, 1)).softmax(-1)
    torch.testing.assert_close(w, eager, rtol=1e-6, atol=0)


def test_autocast_rounds_the_gradient_of_the_sums_as_that_of_any_product() -> None:
    """Else the yardstick of bf16 kernels would be more exact than an eager Transolver is."""
    query, slot_weight, slot_bias, temperature = (
        p.detach().float() for p in parts() if p is not None
    )
    v = values().detach().float().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        m = Membership(query.bfloat16(), slot_weight, slot_bias, temperature)
        w = reference.weights(m)
        numerator = slice_points(m, v, impl="reference").numerator
    given = torch.randn(numerator.shape, generator=torch.Generator().manual_seed(3))
    (gradient,) = torch.autograd.grad(numerator, v, given)
    rounded, unrounded = (
        torch.matmul(w.bfloat16().float(), g).transpose(1, 2).bfloat16()
        for g in (given.bfloat16().float(), given)
    )
    assert (gradient != rounded).float().mean() < 0.01  # sums in another order
    assert (gradient != unrounded).float().mean() > 0.1


def test_query_shared_by_the_heads_is_the_expanded_query() -> None:
    query, slot_weight, slot_bias, temperature = parts("per-head", "per-head", 1)
    shared = Membership(query, slot_weight, slot_bias, temperature)
    expanded = Membership(query.expand(-1, -1, H, -1), slot_weight, slot_bias, temperature)
    assert math.isclose(
        slice_points(shared, values()).numerator.sum().item(),
        slice_points(expanded, values()).numerator.sum().item(),
        rel_tol=1e-13,
    )
    assert slice_points(shared, values()).numerator.shape == (B, H, G, V)
