"""The CPU's family against the definition: every layout, size, dtype and way of calling it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slipstream import Membership, Size, Transolver, couple, deslice_tokens, slice_points
from slipstream.evaluation.slices import probing
from slipstream.kernels import chunked, chunked_ops
from slipstream.kernels.membership import Axis
from slipstream.models.variants import VARIANTS

from .parity import (
    Case,
    check_parity,
    errors,
    move_from_initial_values,
    outputs_and_gradients,
)

EXACT = 1e-12
LAYOUTS = ("shared", "per-head", "per-sample")
COUPLED = [name for name, variant in VARIANTS.items() if variant.stream != "pointwise"]
on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="tests of this folder run on CUDA")
pytestmark = on_cpu


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few points are many chunks, in several parts."""
    monkeypatch.setattr(chunked, "FEWEST", 8)
    monkeypatch.setattr(chunked, "WEIGHT_BYTES", 1 << 10)
    monkeypatch.setattr(chunked, "PARTS", 5)


def check_exact(case: Case) -> None:
    """In fp64, outputs and gradients are the reference's."""
    exact = outputs_and_gradients(case, torch.float64, "reference")
    ours = outputs_and_gradients(case, torch.float64, "chunked")
    wrong = {name: error for name, error in errors(ours, exact).items() if error > EXACT}
    assert not wrong, f"{wrong} in {case}"


def layouts() -> Iterator[Case]:
    for weight in LAYOUTS:
        for bias in ("none", *LAYOUTS):
            for shared_query in (False, True):
                yield Case(batch=2, weight=weight, bias=bias, shared_query=shared_query)


@pytest.mark.parametrize("how", ["slots", "points", "pair"])
@pytest.mark.parametrize("case", list(layouts()), ids=str)
def test_every_layout(case: Case, how: str) -> None:
    over: Axis = "points" if how == "points" else "slots"
    check_exact(replace(case, over=over, pair=how == "pair"))


@pytest.mark.parametrize("how", ["slots", "points", "pair"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"points": 1},
        {"points": 2, "batch": 3},
        {"points": 31, "slices": 1},
        {"points": 129, "slices": 5, "width": 3, "values": 7},
        {"points": 65, "heads": 1, "slices": 70},
        {"points": 40, "heads": 5, "slices": 2, "width": 1, "values": 1, "shared_query": True},
    ],
    ids=str,
)
def test_odd_sizes(sizes: dict[str, Any], how: str) -> None:
    over: Axis = "points" if how == "points" else "slots"
    check_exact(Case(**sizes, over=over, pair=how == "pair"))


def test_deslice_over_the_points() -> None:
    """No kernel of a GPU does it."""
    tensors = Case(batch=2, over="points").tensors()
    results = []
    for impl in ("reference", "chunked"):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
        m = _membership(leaves, "points")
        out = deslice_tokens(m, leaves["tokens"], impl=impl)  # type: ignore[arg-type]
        wanted = [leaves[name] for name in ("query", "slot_weight", "temperature", "tokens")]
        results.append([out, *torch.autograd.grad(out.sin().sum(), wanted)])
    for reference, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=EXACT, atol=EXACT)


def _membership(tensors: dict[str, Tensor], over: Axis = "slots") -> Membership:
    return Membership(
        tensors["query"], tensors["slot_weight"], tensors.get("slot_bias"), tensors["temperature"],
        over,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["slots", "points", "pair"])
@pytest.mark.parametrize("shared_query", [False, True])
@pytest.mark.parametrize("slices", [16, 70])
def test_fp32_is_as_close_as_eager(how: str, shared_query: bool, slices: int) -> None:
    over: Axis = "points" if how == "points" else "slots"
    case = Case(points=300, slices=slices, shared_query=shared_query, over=over, pair=how == "pair")
    check_parity(case, impl="chunked")


def models(variant: str, slices: int, dtype: torch.dtype) -> tuple[Transolver, Transolver]:
    """The chunked and the reference, with weights far from their initial values."""
    size = Size(layers=3, width=24, heads=3, slices=slices)
    ours = Transolver(3, 2, 4, variant=variant, size=size).to(dtype)
    reference = Transolver(3, 2, 4, variant=variant, size=size, impl="reference").to(dtype)
    move_from_initial_values(ours)
    reference.load_state_dict(ours.state_dict())
    return ours, reference


def cloud(points: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return tuple(torch.randn(2, points, k, generator=draw, dtype=dtype) for k in (3, 2))  # type: ignore[return-value]


def named_results(model: Transolver, points: int, dtype: torch.dtype) -> dict[str, Tensor]:
    coords, features = cloud(points, dtype)
    inputs = coords.requires_grad_()
    out = model(inputs, features)
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=dtype)
    out.backward(gradient)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return {"output": out.detach(), "coords": inputs.grad, **gradients}  # type: ignore[dict-item]


@pytest.mark.parametrize("slices", [8, 13], ids=["folded", "not folded"])
@pytest.mark.parametrize("variant", COUPLED)
def test_every_variant(variant: str, slices: int) -> None:
    """Head width 8: with 8 slices projections are folded into slots and tokens, with 13 not."""
    ours, reference = models(variant, slices, torch.float64)
    assert ours.kernels == "chunked: no CUDA device (the tensors are on cpu)"
    exact = named_results(reference, 37, torch.float64)
    wrong = {
        name: error
        for name, error in errors(named_results(ours, 37, torch.float64), exact).items()
        if error > EXACT
    }
    assert not wrong


@pytest.mark.parametrize("variant", ["baseline", "untied", "frozen-slice"])
def test_without_gradients_the_output_is_the_same(variant: str) -> None:
    ours, _ = models(variant, 8, torch.float32)
    inputs = cloud(37, torch.float32)
    with_gradients = ours(*inputs).detach()
    with torch.no_grad():
        assert torch.equal(ours(*inputs), with_gradients)
    with torch.inference_mode():
        assert torch.equal(ours(*inputs), with_gradients)


@pytest.mark.parametrize("slices", [8, 13])
def test_no_bit_depends_on_the_number_of_threads(slices: int) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(named_coupling(slices))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(other[name], tensor) for name, tensor in results[0].items())


def named_coupling(slices: int) -> dict[str, Tensor]:
    return outputs_and_gradients(
        Case(points=200, slices=slices, pair=True), torch.float32, "chunked"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("impl", ["chunked", "reference"])
def test_sums_are_fp32_and_tokens_as_the_values(dtype: torch.dtype, impl: Any) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in Case().tensors().items()}
    for over in ("slots", "points"):
        sums = slice_points(_membership(tensors, over), tensors["values"], impl=impl)  # type: ignore[arg-type]
        assert sums.numerator.dtype == sums.mass.dtype == torch.float32
        assert sums.tokens(1e-5).dtype == dtype
    out = deslice_tokens(_membership(tensors), tensors["tokens"], impl=impl)
    assert out.dtype == dtype


@pytest.mark.parametrize("impl", ["chunked", "reference"])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.untraced
def test_sums_of_many_chunks_in_bf16(impl: Any, autocast: bool) -> None:
    """In bf16 sums over 2,048 chunks would be off by 0.3 to 0.6."""
    case = Case(points=2048 * 4)
    exact = _membership(case.tensors())
    whole = slice_points(exact, case.tensors()["values"], impl="reference")
    dtype = torch.float32 if autocast else torch.bfloat16
    tensors = {name: tensor.to(dtype) for name, tensor in case.tensors().items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        chunks = zip(tensors["query"].split(4, 1), tensors["values"].split(4, 1), strict=True)
        total = sum(
            slice_points(replace(_membership(tensors), query=query), values, impl=impl)
            for query, values in chunks
        )
    assert total.mass.dtype == torch.float32  # type: ignore[union-attr]
    error = (total.mass.double() - whole.mass).norm() / whole.mass.norm()  # type: ignore[union-attr]
    assert error < 2e-3  # what rounding the inputs to bf16 leaves


def test_autocast_gives_what_eager_would() -> None:
    ours, reference = models("baseline", 8, torch.float32)
    inputs = cloud(37, torch.float32)
    exact = reference(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        out, eager = ours(*inputs), reference(*inputs)
    assert out.dtype == eager.dtype
    assert (out - exact).norm() <= 1.25 * (eager - exact).norm()


def test_hooks_inside_a_coupling_are_called() -> None:
    """A folded coupling calls neither projections nor slots: somebody who looks on unfolds it."""
    ours, reference = models("baseline", 8, torch.float64)
    inputs, coupling = cloud(37, torch.float64), ours.blocks[1].coupling
    for module in (coupling.query, coupling.values, coupling.output, coupling.slice_slots):
        seen: list[Any] = []
        handle = module.register_forward_hook(lambda *given, seen=seen: seen.append(given))
        out = ours(*inputs)
        handle.remove()
        assert len(seen) == 1
        torch.testing.assert_close(out, reference(*inputs), rtol=1e-11, atol=1e-11)


def test_a_projection_of_another_kind_is_called() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    results = []
    for model in models("baseline", 8, torch.float64):
        coupling = model.blocks[0].coupling
        doubled = Doubled(24, 24).double()
        doubled.load_state_dict(coupling.values.state_dict())
        coupling.values = doubled
        results.append(model(*cloud(37, torch.float64)))
    torch.testing.assert_close(*results, rtol=1e-11, atol=1e-11)


def test_slices_are_seen_as_before() -> None:
    ours, reference = models("frozen-slice", 8, torch.float64)
    seen = []
    for model in (ours, reference):
        with torch.no_grad(), probing(model) as probe:
            model(*cloud(37, torch.float64))
        seen.append(probe.layers)
    assert seen[0].keys() == seen[1].keys() and seen[0]


def test_function_transforms_take_the_reference() -> None:
    ours, reference = models("baseline", 8, torch.float64)
    coords, features = cloud(9, torch.float64)
    results = [
        torch.func.grad(lambda x, model=model: model(x, features).sin().sum())(coords)
        for model in (ours, reference)
    ]
    torch.testing.assert_close(*results)


@pytest.mark.untraced
def test_an_exported_model_is_plain_pytorch() -> None:
    """So that ONNX and other programs can run it."""
    ours, _ = models("baseline", 8, torch.float32)
    inputs = cloud(9, torch.float32)
    exported = torch.export.export(ours, inputs)
    assert not [node for node in exported.graph.nodes if "slipstream" in str(node.target)]
    torch.testing.assert_close(exported.module()(*inputs), ours(*inputs), rtol=1e-4, atol=1e-5)


def test_second_derivatives_name_what_has_them() -> None:
    ours, _ = models("baseline", 13, torch.float64)
    coords, features = cloud(9, torch.float64)
    (gradient,) = torch.autograd.grad(
        ours(coords.requires_grad_(), features).sum(), coords, create_graph=True
    )
    with pytest.raises(RuntimeError, match='impl must be "reference"'):
        gradient.sum().backward()


def test_the_query_may_serve_as_the_values() -> None:
    results = []
    for impl in ("chunked", "reference"):
        tensors = Case(values=16).tensors()
        tensors["query"].requires_grad_()
        m = _membership(tensors)
        out = couple(m, tensors["query"], lambda tokens: tokens.sin(), impl=impl)  # type: ignore[arg-type]
        results.append((out, *torch.autograd.grad(out.cos().sum(), tensors["query"])))
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("masked", [-1e9, torch.finfo(torch.float32).min, -torch.inf])
def test_masked_slots_leave_finite_gradients(masked: float) -> None:
    tensors = {name: tensor.float().requires_grad_() for name, tensor in Case().tensors().items()}
    with torch.no_grad():
        tensors["slot_bias"][:3] = masked
    out = couple(_membership(tensors), tensors["values"], torch.sin, epsilon=1e-5)
    names = ("query", "slot_weight", "slot_bias", "temperature", "values")
    for name, gradient in zip(
        names, torch.autograd.grad(out.sum(), [tensors[n] for n in names]), strict=True
    ):
        assert gradient.isfinite().all(), name


@pytest.mark.untraced
def test_operators_pass_opcheck() -> None:
    tensors = {name: t.float().requires_grad_() for name, t in Case(points=20).tensors().items()}
    query, values, tokens = tensors["query"], tensors["values"], tensors["tokens"]
    slots = chunked_ops._scaled_slots(_membership(tensors))
    slots = tuple(slot.detach().requires_grad_() for slot in slots if slot is not None)
    check = torch.library.opcheck
    for over in ("slots", "points"):
        check(chunked_ops.slice_op.registered, (query, values, *slots, None, over, False))
        check(chunked_ops.deslice_op.registered, (tokens, query, *slots, None, over, True))
    check(chunked_ops.slice_op.registered, (query, None, *slots, None, "slots", True))
    check(chunked_ops.pair_slice.registered, (query, values, *slots, True, False))
    _, _, kept, *carriers = chunked_ops.pair_slice(query, values, *slots, True, False)
    given = (tokens, *(c.detach() for c in carriers), query, *slots, kept.detach())
    check(chunked_ops.pair_deslice.registered, given)


@pytest.mark.parametrize(
    ("heads", "slices", "points"), [(8, 32, 1024), (8, 256, 128), (1, 4, 2048)]
)
def test_chunks_have_a_megabyte_of_weights(
    heads: int, slices: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert chunked.chunk_size(heads, slices, 4) == points
