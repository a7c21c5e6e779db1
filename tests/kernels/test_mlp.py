"""Linear, GELU, linear with the kernel's GELU, against plain PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from slipstream.kernels import mlp
from slipstream.kernels.pending import Pending, finished
from slipstream.kernels.pointwise import linear_gelu_linear
from slipstream.models.layers import Mlp

from .parity import DEVICE


@pytest.fixture(autouse=True, scope="module")
def unwritten_memory_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def drawn(shape: tuple[int, ...], hidden: int, dtype: torch.dtype) -> tuple[Tensor, nn.ModuleList]:
    draw = torch.Generator().manual_seed(0)
    layers = nn.ModuleList([nn.Linear(shape[-1], hidden), nn.Linear(hidden, 7)])
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw).half())
    x = torch.randn(shape, generator=draw).half()
    return x.to(DEVICE, dtype).requires_grad_(), layers.to(DEVICE, dtype)


def found(
    shape: tuple[int, ...], hidden: int, impl: str, dtype: torch.dtype, tanh: bool = False
) -> dict[str, Tensor]:
    x, layers = drawn(shape, hidden, dtype)
    expand, contract = layers
    out = linear_gelu_linear(x, expand, contract, tanh=tanh, impl=impl)  # type: ignore[arg-type]
    assert isinstance(out, Pending) == (impl == "fused")
    out = finished(out)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    out.backward(cotangent.to(out))
    named = {f"gradient of {name}": p.grad for name, p in layers.named_parameters()}
    named |= {"output": out.detach(), "gradient of x": x.grad}
    return {name: tensor for name, tensor in named.items() if tensor is not None}


@pytest.mark.parametrize(
    ("shape", "hidden"),
    [((1, 1, 3), 5), ((2, 70, 16), 5), ((2, 70, 16), 64), ((1, 700, 16), 64)],
)
@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_as_exact_as_eager(
    shape: tuple[int, ...], hidden: int, tanh: bool, dtype: torch.dtype
) -> None:
    """The last shape has more blocks of rows than there are programs, which take turns."""
    exact = found(shape, hidden, "reference", torch.float64, tanh)
    eager = found(shape, hidden, "reference", dtype, tanh)
    fused = found(shape, hidden, "fused", dtype, tanh)
    assert fused.keys() == exact.keys()
    for name, truth in exact.items():
        assert fused[name].dtype == dtype
        size = float(truth.norm()) + 1e-3
        ours = float((fused[name].double() - truth).norm()) / size
        plain = float((eager[name].double() - truth).norm()) / size
        assert ours <= 1.25 * plain + max(1e-6, torch.finfo(dtype).eps), name


def test_the_normal_distribution_of_half_precision_is_off_by_less_than_1e_7() -> None:
    """And the GELU by that times x, besides its rounding."""
    x = torch.linspace(-12, 12, 4001, dtype=torch.float16, device=DEVICE)[:, None]
    one = torch.ones(1, 1, dtype=x.dtype, device=DEVICE)
    with torch.no_grad():
        found, _ = mlp.mlp(x, one, torch.zeros(1, device=DEVICE), one, False, False)
    truth = torch.nn.functional.gelu(x.double())
    rounding = 2.0**-11 * truth.abs() + 2.0**-25
    assert bool(((found.double() - truth).abs() <= rounding + 1e-7 * x.double().abs()).all())


def test_two_runs_agree_to_the_bit() -> None:
    first, second = (found((2, 300, 16), 30, "fused", torch.float32) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_without_points() -> None:
    fused = found((2, 0, 16), 30, "fused", torch.float32)
    assert fused["output"].shape == (2, 0, 7)
    assert not any(bool(t.any()) for t in fused.values())


def test_without_gradients_the_hidden_tensor_is_not_kept() -> None:
    x, (expand, contract) = drawn((1, 40, 16), 64, torch.float32)
    kept = mlp.mlp(x, expand.weight, expand.bias, contract.weight, False, True)
    with torch.no_grad():
        out, hidden = mlp.mlp(x, expand.weight, expand.bias, contract.weight, False, False)
    assert hidden.numel() == 0 and torch.equal(out, kept[0])
    assert kept[1].shape == (1, 40, 64)


def test_operator_passes_opcheck() -> None:
    x, (expand, contract) = drawn((2, 9, 4), 6, torch.float32)
    arguments = (x, expand.weight, expand.bias, contract.weight, False, True)
    torch.library.opcheck(mlp.mlp.registered, arguments)


def test_hooks_see_what_they_are_hung_on() -> None:
    for place in ("", "expand", "contract"):
        model = Mlp(4, 8, 4).to(DEVICE)
        seen: list[int] = []
        model.get_submodule(place).register_forward_hook(lambda *_, seen=seen: seen.append(1))
        out = model.update(torch.randn(1, 5, 4, device=DEVICE), "fused")
        assert seen == [1] and isinstance(out, Tensor), place


def test_the_bias_is_added_in_the_dtype_of_the_product() -> None:
    product = torch.full((1, 2), 1.0, dtype=torch.bfloat16)
    out = finished(Pending(product, torch.full((2,), math.pi)))
    assert out.dtype == torch.bfloat16
    assert float(out[0, 0]) == pytest.approx(1 + math.pi, rel=2 * 2.0**-8)  # rounded twice
