"""The kernel that projects, adds and normalises, and its gradients, against plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from slipstream import Size, Transolver
from slipstream.kernels import project_norm
from slipstream.kernels.pending import Pending, finished
from slipstream.kernels.pointwise import add_norm, may_project

from .parity import DEVICE

INPUTS = ("stream", "rows", "projection", "bias", "inner bias", "weight", "norm bias")


@pytest.fixture(autouse=True, scope="module")
def unwritten_memory_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def drawn(
    shape: tuple[int, ...], depth: int, width: int, dtype: torch.dtype, stream: torch.dtype
) -> dict[str, Tensor]:
    """Leaves that are the same numbers in every dtype, in the order of INPUTS."""
    draw = torch.Generator().manual_seed(0)
    shapes = (
        (*shape, width),
        (*shape, depth),
        (width, depth),
        (width,),
        (depth,),
        (width,),
        (width,),
    )
    scales = (1.0, 1.0, depth**-0.5, 1.0, 1.0, 1.0, 1.0)
    leaves = {}
    for name, size, scale in zip(INPUTS, shapes, scales, strict=True):
        numbers = (torch.randn(size, generator=draw) * scale).bfloat16()
        kind = stream if name == "stream" else dtype if name in ("rows", "projection") else None
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        leaves[name] = numbers.to(DEVICE, kind or wide).requires_grad_()
    return leaves


def computed(
    shape: tuple[int, ...],
    depth: int,
    width: int,
    how: str,
    gelu: str | None = None,
    stream: torch.dtype = torch.float32,
    used: tuple[bool, bool] = (True, True),
) -> dict[str, Tensor]:
    """Sum and norm, and the gradients of a fixed functional of them: fused, eager or exact."""
    dtype = torch.float64 if how == "exact" else torch.bfloat16
    leaves = drawn(shape, depth, width, dtype, torch.float64 if how == "exact" else stream)
    norm = nn.LayerNorm(width, device=DEVICE)
    norm.weight, norm.bias = nn.Parameter(leaves["weight"]), nn.Parameter(leaves["norm bias"])
    inner_bias = None if gelu is None else leaves["inner bias"]
    update = Pending(
        leaves["rows"], leaves["bias"], leaves["projection"], inner_bias, gelu == "tanh"
    )
    if how == "fused":
        with torch.autocast(DEVICE, torch.bfloat16):
            summed, normed = add_norm(leaves["stream"], update, norm, impl="fused")
        assert normed.dtype == torch.bfloat16
    else:
        summed = leaves["stream"] + finished(update)
        normed = torch.nn.functional.layer_norm(
            summed.double() if how == "exact" else summed.float(), (width,), norm.weight, norm.bias
        )
        normed = normed if how == "exact" else normed.bfloat16()
    draw = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(summed.shape, generator=draw).bfloat16().to(DEVICE) for _ in range(2)]
    parts = zip((summed, normed), cotangents, used, strict=True)
    sum((t.double() * c.double()).sum() for t, c, use in parts if use).backward()  # type: ignore[union-attr]
    leaves |= {"weight": norm.weight, "norm bias": norm.bias}
    gradients = {f"gradient of {n}": t.grad for n, t in leaves.items() if t.grad is not None}
    return {"summed": summed.detach(), "normed": normed.detach(), **gradients}


def check(fused: dict[str, Tensor], eager: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    assert fused.keys() == eager.keys() == exact.keys()
    for name, truth in exact.items():
        size = float(truth.norm()) + 1e-3
        ours, plain = (float((t[name].double() - truth).norm()) / size for t in (fused, eager))
        assert ours <= 1.25 * plain + 2.0**-10, (name, ours, plain)


@pytest.mark.parametrize("gelu", [None, "erf", "tanh"])
@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "depth", "width"), [((1, 1), 32, 32), ((2, 77), 64, 128), ((1, 130), 256, 64)]
)
def test_as_exact_as_eager(
    shape: tuple[int, ...], depth: int, width: int, gelu: str | None, stream: torch.dtype
) -> None:
    fused, eager, exact = (
        computed(shape, depth, width, how, gelu, stream) for how in ("fused", "eager", "exact")
    )
    assert len(exact) == (8 if gelu is None else 9)
    check(fused, eager, exact)
    assert fused["summed"].dtype == stream
    assert fused["gradient of rows"].dtype == torch.bfloat16


@pytest.mark.parametrize("used", [(True, False), (False, True)])
def test_an_output_that_is_not_used(used: tuple[bool, bool]) -> None:
    fused, exact = (computed((1, 9), 64, 32, how, "erf", used=used) for how in ("fused", "exact"))
    for name, truth in exact.items():
        found = fused[name].double()
        assert float((found - truth).norm()) <= 0.02 * float(truth.norm()) + 1e-3, name


def test_two_runs_agree_to_the_bit() -> None:
    first, second = (computed((2, 300), 64, 32, "fused", "erf") for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_without_points() -> None:
    fused = computed((2, 0), 64, 32, "fused", "erf")
    assert fused["normed"].shape == (2, 0, 32)
    assert not any(bool(t.any()) for t in fused.values())


def test_without_gradients_the_sum_is_written_over_the_stream() -> None:
    leaves = drawn((1, 40), 64, 32, torch.float32, torch.float32)  # the interpreter cuts bf16 off
    update = Pending(leaves["rows"], leaves["bias"], leaves["projection"], leaves["inner bias"])
    norm = nn.LayerNorm(32, device=DEVICE)
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
        apart = add_norm(leaves["stream"].clone(), update, norm, impl="fused")
        stream = leaves["stream"].clone()
        summed, normed = add_norm(stream, update, norm, impl="fused", reuse=True)
    assert summed is stream and torch.equal(summed, apart[0]) and torch.equal(normed, apart[1])


@pytest.mark.parametrize("gelu", [False, True])
def test_operator_passes_opcheck(gelu: bool) -> None:
    leaves = drawn((2, 5), 64, 32, torch.bfloat16, torch.float32)
    stream, rows, projection, bias, inner_bias, weight, norm_bias = leaves.values()
    parameters = (projection, bias, weight, norm_bias, 1e-5, False)
    arguments = (stream, rows, inner_bias if gelu else None, *parameters)
    torch.library.opcheck(project_norm.project_norm.registered, arguments)


def test_where_it_may_run() -> None:
    x = torch.zeros(1, 5, 64, dtype=torch.bfloat16, device=DEVICE)
    assert may_project(x, nn.Linear(64, 32), "fused")
    assert not may_project(x, nn.Linear(64, 48), "fused")
    assert not may_project(x, nn.Linear(80, 32), "fused")
    assert not may_project(x, nn.Linear(64, 32, bias=False), "fused")
    assert not may_project(x.float(), nn.Linear(64, 32), "fused")
    assert not may_project(x, nn.Linear(64, 32), "reference")


def test_a_model_in_bf16_ends_every_layer_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice a layer, but for the first norm; a checkpointed layer adds its last update itself."""
    seen: list[bool] = []
    launch = project_norm._launch_forward

    def counted(stream: Tensor, inner: Tensor, parameters: tuple, outputs: tuple) -> None:  # type: ignore[type-arg]
        seen.append(parameters[0] is not None)
        launch(stream, inner, parameters, outputs)

    monkeypatch.setattr(project_norm, "_launch_forward", counted)
    model = Transolver(3, 0, 2, size=Size(layers=2, width=32, heads=2, slices=8), impl="fused")
    coords = torch.rand(1, 30, 3, device=DEVICE)
    outputs = {}
    for recompute in (False, True):
        model.to(DEVICE).recompute = recompute
        seen.clear()
        with torch.autocast(DEVICE, torch.bfloat16):
            outputs[recompute] = model(coords)
        assert seen == ([False, False] if recompute else [False, True, False, True])
    torch.testing.assert_close(outputs[True], outputs[False], rtol=0.02, atol=0.02)
    seen.clear()
    model(coords)
    assert not seen
