"""Residual and LayerNorm in one kernel, against plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from slipstream.kernels import norm
from slipstream.kernels.pending import Pending
from slipstream.kernels.pointwise import add_norm

from .parity import DEVICE


@pytest.fixture(autouse=True, scope="module")
def unwritten_memory_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def found(
    rows: tuple[int, ...],
    width: int,
    impl: str,
    dtype: torch.dtype = torch.float32,
    update_dtype: torch.dtype | None = torch.float32,
    used: tuple[bool, bool] = (True, True),
    has_bias: bool = False,
) -> dict[str, Tensor]:
    """Both outputs, and the gradients of a fixed functional of those that are `used`."""
    draw = torch.Generator().manual_seed(0)
    layer = nn.LayerNorm(width, dtype=dtype, device=DEVICE)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(1 + torch.randn(width, generator=draw))
    drawn = [3 + torch.randn(*rows, width, generator=draw) for _ in range(4)]
    stream = drawn[0].to(DEVICE, dtype).requires_grad_()
    update = None
    if update_dtype is not None:
        # Rounded alike whatever it is held in, so that dtypes can be compared.
        rounded = drawn[1].half().to(DEVICE, update_dtype if dtype != torch.float64 else dtype)
        update = rounded.requires_grad_()
    bias = None
    if has_bias:
        bias = drawn[1][0, 0].half().to(DEVICE, dtype).requires_grad_()
    added = update if update is None or bias is None else Pending(update, bias)
    summed, normed = add_norm(stream, added, layer, impl=impl)  # type: ignore[arg-type]
    pairs = zip((summed, normed), drawn[2:], used, strict=True)
    sum((t * cotangent.to(t)).sum() for t, cotangent, use in pairs if use).backward()  # type: ignore[union-attr]
    leaves = {"stream": stream, "update": update, "weight": layer.weight, "bias": layer.bias}
    leaves["bias of the update"] = bias
    gradients = {f"gradient of {n}": t.grad for n, t in leaves.items() if t is not None}
    named = {"summed": summed.detach(), "normed": normed.detach(), **gradients}
    return {name: t for name, t in named.items() if t is not None}


@pytest.mark.parametrize("rows", [(1, 1), (2, 5), (1, 77)])
@pytest.mark.parametrize("width", [5, 16, 30, 256])
@pytest.mark.parametrize(
    ("update_dtype", "has_bias"),
    [(None, False), (torch.float32, False), (torch.float32, True), (torch.float16, False)],
)
def test_as_exact_as_eager(
    rows: tuple[int, ...], width: int, update_dtype: torch.dtype | None, has_bias: bool
) -> None:
    exact = found(rows, width, "reference", torch.float64, update_dtype, has_bias=has_bias)
    eager = found(rows, width, "reference", torch.float32, update_dtype, has_bias=has_bias)
    fused = found(rows, width, "fused", torch.float32, update_dtype, has_bias=has_bias)
    assert fused.keys() == exact.keys()
    for name, truth in exact.items():
        assert fused[name].dtype == eager[name].dtype, name
        size = float(truth.norm()) + 1e-3
        ours = float((fused[name].double() - truth).norm()) / size
        plain = float((eager[name].double() - truth).norm()) / size
        assert ours <= 1.25 * plain + 1e-6, name


@pytest.mark.parametrize("used", [(True, False), (False, True)])
@pytest.mark.parametrize(
    ("update_dtype", "has_bias"), [(None, False), (torch.float16, False), (torch.float32, True)]
)
def test_an_output_that_is_not_used(
    used: tuple[bool, bool], update_dtype: torch.dtype | None, has_bias: bool
) -> None:
    plain = found((1, 9), 16, "reference", torch.float32, update_dtype, used, has_bias)
    fused = found((1, 9), 16, "fused", torch.float32, update_dtype, used, has_bias)
    for name, gradient in plain.items():
        torch.testing.assert_close(fused[name], gradient, rtol=1e-3, atol=1e-3)


def test_two_runs_agree_to_the_bit() -> None:
    first, second = (found((2, 300), 30, "fused") for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("has_update", [False, True])
def test_operator_passes_opcheck(has_update: bool) -> None:
    stream = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True)
    update = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True) if has_update else None
    weight, bias = (torch.randn(16, device=DEVICE, requires_grad=True) for _ in range(2))
    for update_bias in (None, bias) if has_update else (None,):
        arguments = (stream, update, update_bias, weight, bias, 1e-5, torch.float32)
        torch.library.opcheck(norm.add_norm.registered, arguments)


def test_strided_streams() -> None:
    layer = nn.LayerNorm(16, device=DEVICE)
    stream = torch.randn(1, 16, 9, device=DEVICE).transpose(1, 2)
    _, fused = add_norm(stream, stream, layer, impl="fused")
    _, plain = add_norm(stream, stream, layer, impl="reference")
    torch.testing.assert_close(fused, plain)


def test_too_wide_or_double_is_plain() -> None:
    for stream in (torch.randn(1, 2, 4096), torch.randn(1, 2, 16, dtype=torch.float64)):
        layer = nn.LayerNorm(stream.shape[-1], dtype=stream.dtype, device=DEVICE)
        stream = stream.to(DEVICE)
        _, normed = add_norm(stream, None, layer, impl="fused")
        assert torch.equal(normed, layer(stream))


def test_the_norm_is_of_the_sum_as_it_is_stored() -> None:
    draw = torch.Generator().manual_seed(0)
    stream, update = (torch.randn(1, 40, 16, generator=draw).half().to(DEVICE) for _ in range(2))
    layer = nn.LayerNorm(16, device=DEVICE)
    summed, normed = add_norm(stream, update, layer, impl="fused")
    again = add_norm(summed, None, layer, impl="fused")[1]
    assert summed.dtype == normed.dtype == torch.float16 and torch.equal(normed, again)


def test_reuse_writes_over_the_stream_where_no_gradient_is_wanted() -> None:
    layer = nn.LayerNorm(16, device=DEVICE)
    stream, update = (torch.randn(1, 40, 16, device=DEVICE) for _ in range(2))
    before = stream.clone()
    kept, _ = add_norm(stream, update, layer, impl="fused", reuse=True)
    assert torch.equal(stream, before) and torch.equal(kept, before + update)
    with torch.no_grad():
        expected = add_norm(stream, update, layer, impl="fused")
        found = add_norm(stream, update, layer, impl="fused", reuse=True)
    assert found[0] is stream and torch.equal(stream, before + update)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_reuse_leaves_strided_and_fake_streams_alone() -> None:
    layer = nn.LayerNorm(16, device=DEVICE)
    stream = torch.randn(1, 16, 9, device=DEVICE).transpose(1, 2)
    before = stream.clone()
    with torch.no_grad():
        summed, _ = add_norm(stream, stream, layer, impl="fused", reuse=True)
        assert torch.equal(stream, before) and torch.equal(summed, 2 * before)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = mode.from_tensor(before.contiguous())
            assert add_norm(fake, fake, layer, impl="fused", reuse=True)[0] is not fake
