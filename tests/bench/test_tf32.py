"""TF32 products of torch, imitated where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from slipstream.bench.tf32 import rounded_to_tf32, tf32_products

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has TF32 of its own")


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_rounding() -> None:
    x = torch.tensor([1.0, 1 + 2**-11, 1 + 2**-12, -1 - 2**-11, 3e-20, torch.inf])
    kept = torch.tensor([1.0, 1 + 2**-10, 1.0, -1 - 2**-10])
    assert torch.equal(rounded_to_tf32(x)[:4], kept)
    assert rounded_to_tf32(x)[4] == pytest.approx(3e-20, rel=2**-11)
    assert rounded_to_tf32(x)[5] == torch.inf


def test_products_and_their_gradients_are_of_rounded_factors() -> None:
    x, y = drawn(2, 5, 7), drawn(2, 7, 3).requires_grad_()
    with tf32_products(True):
        out = torch.einsum("bij,bjk->bik", x, y)
        (gradient,) = torch.autograd.grad(out, y, out.detach())
    rounded = rounded_to_tf32(x)
    assert torch.equal(out, rounded @ rounded_to_tf32(y.detach()))
    assert torch.equal(gradient, rounded.mT @ rounded_to_tf32(out.detach()))
    assert not torch.equal(out, x @ y)


@pytest.mark.parametrize(("product", "lead"), [(torch.addmm, ()), (torch.baddbmm, (1,))])
def test_what_is_added_to_a_product_is_not_rounded(
    product: Callable[..., torch.Tensor], lead: tuple[int, ...]
) -> None:
    bias, x, y = drawn(*lead, 5, 3), drawn(*lead, 5, 7), drawn(*lead, 7, 3)
    with tf32_products(True):
        out = product(bias, x, y)
    assert torch.equal(out, product(bias, rounded_to_tf32(x), rounded_to_tf32(y)))


def test_other_dtypes_and_what_is_not_allowed_stay() -> None:
    x, y = drawn(5, 7), drawn(7, 3)
    exact, half = x.double() @ y.double(), x.bfloat16() @ y.bfloat16()
    with tf32_products(True):
        assert torch.equal(x.double() @ y.double(), exact)
        assert torch.equal(x.bfloat16() @ y.bfloat16(), half)
    with tf32_products(False):
        assert torch.equal(x @ y, torch.mm(x, y))
    assert not torch.backends.cuda.matmul.allow_tf32
