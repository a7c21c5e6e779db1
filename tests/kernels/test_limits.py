"""What the kernels cannot do is said, never left out; and unusual inputs come out right."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from slipstream import Membership, Size, Transolver, couple, deslice_tokens, slice_points
from slipstream.core.runtime import generator
from slipstream.kernels import primitives
from slipstream.kernels.api import compute_dtype, with_statistics
from slipstream.kernels.membership import MASKED
from slipstream.kernels.operands import Operands
from slipstream.kernels.pointwise import add_norm

from .parity import DEVICE, Case, check_parity

POINTS, HEADS, WIDTH = 12, 2, 16


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, *shape)).to(DEVICE)


def membership(slices: int, query: Tensor | None = None, over: str = "slots") -> Membership:
    query = numbers(1, POINTS, HEADS, WIDTH) if query is None else query
    slots = numbers(slices, query.shape[-1], seed=1), numbers(slices, seed=2)
    temperature = torch.full((query.shape[2],), 0.7, device=DEVICE)
    parts = (part.to(query.dtype) for part in (*slots, temperature))
    return Membership(query, *parts, over)  # type: ignore[arg-type]


def small_model(impl: str) -> Transolver:
    size = Size(layers=2, width=32, heads=2, slices=16)
    return Transolver(3, 1, 2, size=size, impl=impl).to(DEVICE)  # type: ignore[arg-type]


@pytest.mark.parametrize("slices", [16, 20])
def test_second_derivatives_are_an_error(slices: int) -> None:
    query = numbers(1, POINTS, HEADS, WIDTH).requires_grad_()
    made = membership(slices, query)
    out = couple(made, query, lambda tokens: tokens, impl="fused")
    (first,) = torch.autograd.grad(out.sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives are not among"):
        first.square().sum().backward()


def test_second_derivatives_of_a_model_are_an_error() -> None:
    coords = numbers(1, POINTS, 3).requires_grad_()
    out = small_model("fused")(coords, numbers(1, POINTS, 1))
    (first,) = torch.autograd.grad(out.sum(), coords, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives are not among"):
        first.square().sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_forward_mode_is_an_error() -> None:
    model, features = small_model("fused"), numbers(1, POINTS, 1)
    coords, tangent = numbers(1, POINTS, 3), torch.ones(1, POINTS, 3, device=DEVICE)
    with pytest.raises(NotImplementedError, match="forward-mode derivatives are not among"):
        torch.func.jvp(lambda x: model(x, features), (coords,), (tangent,))
    with forward_ad.dual_level(), torch.no_grad():
        dual = forward_ad.make_dual(coords, tangent)
        with pytest.raises(NotImplementedError, match='impl must be "reference" for them'):
            model(dual, features)
        by_reference = forward_ad.unpack_dual(small_model("reference")(dual, features))
        assert by_reference.tangent is not None


@pytest.mark.usefixtures("no_shape_checks")
def test_sizes_may_be_symbols() -> None:
    def coupled(query: Tensor, weight: Tensor, bias: Tensor, temperature: Tensor) -> Tensor:
        return couple(Membership(query, weight, bias, temperature), query, lambda tokens: tokens)

    made = membership(20)
    given = (made.query, made.slot_weight, made.slot_bias, made.temperature)
    traced = make_fx(coupled, tracing_mode="symbolic")(*given)
    torch.testing.assert_close(traced(*given), coupled(*given))  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_shape_checks")
def test_a_precision_that_is_none_is_refused() -> None:
    made = membership(20)
    with pytest.raises(ValueError, match="precision must be one of"):
        slice_points(made, made.query, precision=["bf16"])  # type: ignore[arg-type]


def test_statistics_may_have_any_strides() -> None:
    made = with_statistics(membership(20), impl="fused")
    assert made.statistics is not None
    few = replace(made, query=made.query[:, :6], statistics=made.statistics[..., :6])
    values = numbers(1, POINTS, HEADS, WIDTH, seed=3)[:, :6]
    anew = replace(few, statistics=None)
    found, expected = (slice_points(m, values, impl="fused") for m in (few, anew))
    torch.testing.assert_close(found.numerator, expected.numerator)
    tokens = numbers(1, HEADS, 20, WIDTH)
    found, expected = (deslice_tokens(m, tokens, impl="fused") for m in (few, anew))
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="statistics must have dtype torch.float32, got"):
        replace(made, statistics=made.statistics.double())


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("update", [(16,), (1, 16), (4, 3, 16)])
def test_the_norm_of_a_sum_that_broadcasts(update: tuple[int, ...]) -> None:
    stream, layer = numbers(4, 3, 16), nn.LayerNorm(16).to(DEVICE)
    layer.weight = nn.Parameter(torch.arange(32.0, device=DEVICE)[::2])
    ways = (add_norm(stream, numbers(*update), layer, impl=i) for i in ("fused", "reference"))
    for found, expected in zip(*ways, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_norm_of_another_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        add_norm(numbers(4, 16), None, nn.LayerNorm(8).to(DEVICE), impl="fused")


def test_sums_over_the_points_are_fp32() -> None:
    made = membership(20, numbers(1, POINTS, HEADS, WIDTH).half(), over="points")
    sums = slice_points(made, made.query, impl="fused")
    both = sums + sums
    assert both.numerator.dtype == both.mass.dtype == torch.float32
    assert both.tokens().dtype == torch.float16
    torch.testing.assert_close(both.numerator, sums.numerator, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("slices", [16, 5, 80])
@pytest.mark.parametrize(
    ("between_points", "between_heads"), [(WIDTH, (1 << 30) + 64), ((1 << 28) + 64, WIDTH)]
)
def test_heads_and_points_may_lie_more_than_two_billion_numbers_apart(
    slices: int, between_points: int, between_heads: int
) -> None:
    """Memory that nobody writes to is not taken; 4 to 6 GB of addresses are."""
    last = (POINTS - 1) * between_points + 2 * between_heads
    assert last > 2**31
    try:
        memory = torch.empty(last + 4096, dtype=torch.float16, device=DEVICE)
    except RuntimeError:
        pytest.skip("no such addresses here")
    query = memory.as_strided((1, POINTS, 3, WIDTH), (0, between_points, between_heads, 1))
    query.copy_(numbers(1, POINTS, 3, WIDTH))
    far = membership(slices, query)
    near = replace(far, query=query.contiguous())
    for made in (near, far):
        made.query.requires_grad_()
    outs = [couple(m, m.query, lambda tokens: tokens, impl="fused") for m in (near, far)]
    assert torch.equal(*outs)
    (expected,), (found,) = (
        torch.autograd.grad(out.sum(), made.query)
        for out, made in zip(outs, (near, far), strict=True)
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize("masked", [1, 64, 79])
def test_slots_whose_bias_is_minus_infinity(masked: int) -> None:
    made = membership(80)
    assert made.slot_bias is not None
    made.slot_bias[:masked] = -torch.inf
    tokens = numbers(1, HEADS, 80, WIDTH)
    for impl in ("blocked", "reference"):
        found = slice_points(made, made.query, impl=impl), deslice_tokens(made, tokens, impl=impl)
        if impl == "blocked":
            sums, out = found
            assert sums.numerator.isfinite().all() and not sums.mass[..., :masked].any()
        torch.testing.assert_close(found[0].numerator, sums.numerator)
        torch.testing.assert_close(found[1], out)


def test_formulas_stand_in_where_the_gpu_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled model's plan does not know the GPU."""
    monkeypatch.setattr(Operands, "fits", lambda *_: False)
    check_parity(Case(slices=20, width=8, values=12, pair=True))


def test_double_precision_stays_what_it_is_under_autocast() -> None:
    made = membership(20, numbers(1, POINTS, HEADS, WIDTH).double())
    with torch.autocast(torch.device(DEVICE).type, torch.bfloat16):
        assert compute_dtype(made.query) == torch.float64
        assert couple(made, made.query, lambda tokens: tokens).dtype == torch.float64


class _Zeros(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return torch.zeros_like(input)


def test_norms_of_ones_own_and_hooks_are_called() -> None:
    coords, features = numbers(1, POINTS, 3), numbers(1, POINTS, 1)
    model = small_model("fused")
    called: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_hook(lambda module, given, made: called.append(module))
    with torch.no_grad():
        model(coords, features)
    assert len(called) == 5
    for register in ("forward_pre", "full_backward", "full_backward_pre"):
        norm = small_model("fused").head_norm
        called.clear()
        getattr(norm, f"register_{register}_hook")(lambda module, *_: called.append(module))
        _, normed = add_norm(numbers(1, POINTS, 32).requires_grad_(), None, norm, impl="fused")
        normed.sum().backward()
        assert called == [norm], register
    plain, own = small_model("reference"), small_model("fused")
    plain.head_norm = own.head_norm = _Zeros(32).to(DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(own(coords, features), plain(coords, features))
        assert (own(coords, features) == own.head.bias).all()


@pytest.mark.parametrize("how", ["after", "before", "everywhere"])
def test_what_a_hook_keeps_of_a_block_stays(how: str) -> None:
    model = small_model("fused")
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(module: nn.Module, given: tuple[Tensor, ...], made: tuple[Tensor, ...] = ()) -> None:
        stream = (made or given)[0]
        kept.append((stream, stream.clone()))

    handles = []
    if how == "everywhere":
        handles.append(
            nn.modules.module.register_module_forward_hook(
                lambda module, given, made: (
                    keep(module, given, made) if module in set(model.blocks) else None
                )
            )
        )
    for block in model.blocks:
        if how == "after":
            handles.append(block.register_forward_hook(keep))
        elif how == "before":
            handles.append(block.register_forward_pre_hook(keep))
    with torch.no_grad():
        model(numbers(1, POINTS, 3), numbers(1, POINTS, 1))
    for handle in handles:
        handle.remove()
    assert len(kept) == 2 and all(torch.equal(stream, then) for stream, then in kept)


@pytest.mark.parametrize("least", [torch.finfo(torch.float32).min, -float("inf"), -1e9])
@pytest.mark.parametrize("slices", [16, 20, 70])
def test_gradients_with_masked_slots(slices: int, least: float) -> None:
    made = membership(slices)
    assert made.slot_bias is not None
    bias = made.slot_bias.clone()
    bias[:3] = least
    values = numbers(1, POINTS, HEADS, WIDTH, seed=3)
    without = Membership(made.query, made.slot_weight[3:], made.slot_bias[3:], made.temperature)
    found = []
    for impl, one in (("fused", replace(made, slot_bias=bias)), ("reference", without)):
        parts = [part.clone().requires_grad_() for part in (one.query, one.temperature)]
        asked = replace(one, query=parts[0], temperature=parts[1])
        out = couple(asked, values, torch.sin, epsilon=1e-5, impl=impl)  # type: ignore[arg-type]
        found.append(torch.autograd.grad(out.square().sum(), parts))
    for masked, absent in zip(*found, strict=True):
        assert (masked - absent).norm() < 1e-5 * absent.norm()


def test_tensors_without_values() -> None:
    model = small_model("auto").to("meta")
    assert model.kernels == "reference: no CUDA device (the tensors are on meta)"
    out = model(torch.empty(1, 5, 3, device="meta"), torch.empty(1, 5, 1, device="meta"))
    assert out.shape == (1, 5, 2) and out.device.type == "meta"


@pytest.mark.parametrize("impl", ["fused", "reference"])
def test_mix_must_return_as_many_tokens(impl: str) -> None:
    values = numbers(1, POINTS, HEADS, WIDTH)
    with pytest.raises(ValueError, match="the tokens that mix returns must have shape"):
        couple(membership(16), values, lambda tokens: tokens[..., :1], impl=impl)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the tokens that mix returns must be on device"):
        couple(membership(16), values, lambda tokens: tokens.to("meta"), impl=impl)  # type: ignore[arg-type]


def test_one_tile_is_refused_with_the_sizes() -> None:
    with pytest.raises(ValueError, match=r'"fused" or "blocked" here.* not G = 20, D = 16, V = 16'):
        slice_points(membership(20), numbers(1, POINTS, HEADS, WIDTH), impl="single-tile")
    with pytest.raises(ValueError, match="weights over the slots, not over the points"):
        over = membership(16, over="points")
        slice_points(over, numbers(1, POINTS, HEADS, WIDTH), impl="single-tile")


def test_sums_of_chunks_by_sum() -> None:
    made, values = membership(16), numbers(1, POINTS, HEADS, WIDTH)
    whole = slice_points(made, values)
    chunks = (slice(0, 5), slice(5, POINTS))
    parts = [slice_points(replace(made, query=made.query[:, c]), values[:, c]) for c in chunks]
    torch.testing.assert_close(sum(parts).numerator, whole.numerator)  # type: ignore[union-attr]
    for other in (1, None):
        with pytest.raises(TypeError, match="unsupported operand"):
            other + whole  # type: ignore[operator]
    with pytest.raises(TypeError):
        whole + 3  # type: ignore[operator]


def test_all_families_hold_masked_slots_at_one_bias() -> None:
    """Device code cannot import it: a changed kernel file would compile every tile anew."""
    assert primitives.MASKED.value == MASKED
