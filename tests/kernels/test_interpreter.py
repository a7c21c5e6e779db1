"""The interpreter's dot product rounds as a GPU's: an element does not depend on its tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from slipstream.kernels.primitives import rounded_to_bf16, rounded_to_tf32

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run on the GPU here")


@triton.jit
def round_all(x, out, N: tl.constexpr, TO: tl.constexpr):  # noqa: ANN001, ANN201
    offsets = tl.arange(0, N)
    if TO == "bf16":
        rounded = rounded_to_bf16(tl.load(x + offsets))
    else:
        rounded = rounded_to_tf32(tl.load(x + offsets))
    tl.store(out + offsets, rounded)


def rounded(x: torch.Tensor, to: str) -> torch.Tensor:
    out = torch.empty_like(x)
    round_all[(1,)](x, out, N=len(x), TO=to)
    return out


def numbers(count: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(count, generator=draw) * torch.randn(count, generator=draw).mul(20).exp2()


def test_rounding_to_bf16() -> None:
    """As torch rounds: to nearest, ties to even."""
    ties = (torch.arange(128, 139).float() + 0.5) / 8
    x = torch.cat((numbers(500), ties, torch.tensor([0.0])))
    assert torch.equal(rounded(x, "bf16"), x.bfloat16().float())


def test_rounding_to_tf32() -> None:
    """To the nearest of the numbers with eleven binary digits, ties away from zero."""
    ties = (torch.arange(1024, 1032).float() + 0.5) * torch.tensor([1, -1]).repeat(4)
    special = torch.tensor([0.0, torch.inf, -torch.inf, 1.0])
    x = torch.cat((numbers(500), ties, special))
    fraction, exponent = torch.frexp(x.double())
    nearest = torch.ldexp((fraction.abs() * 2048 + 0.5).floor() / 2048 * fraction.sign(), exponent)
    expected = torch.where(x.isfinite(), nearest.float(), x)
    assert torch.equal(rounded(x, "tf32"), expected)
    assert torch.equal(rounded(x.bfloat16(), "tf32").float(), x.bfloat16().float())


def test_an_element_of_a_product_does_not_depend_on_the_tile() -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.normal(size=size).astype(np.float32) for size in ((64, 40), (40, 64)))

    def dot(rows: int, columns: int) -> np.ndarray:
        zero = np.zeros((rows, columns), np.float32)
        handles = [TensorHandle(x, tl.float32) for x in (a[:rows], b[:, :columns], zero)]
        return InterpreterBuilder().create_dot(*handles, None, 0).data

    whole = dot(64, 64)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)
    for rows, columns in ((1, 1), (13, 7), (16, 64), (64, 16), (33, 33)):
        np.testing.assert_array_equal(dot(rows, columns), whole[:rows, :columns])
