"""Lean memory against normal: the same outputs and gradients, from one kept tensor a layer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slipstream import VARIANTS, Size, Transolver
from slipstream.bench.subjects import spread_slots
from slipstream.kernels.membership import TokenSums
from slipstream.models import lean, load_plugin
from slipstream.models.coupling import Coupling
from slipstream.models.lean import lean_forward

from ..training.small import small
from .test_sweeps import cloud, trained

Gradients = dict[str, Tensor]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lean.CHUNK, "cpu", 7)


def gradients(model: Transolver, output: Tensor, *inputs: Tensor) -> Gradients:
    """Of a fixed direction, to every parameter and input."""
    draw = torch.Generator().manual_seed(3)
    given = torch.randn(output.shape, generator=draw, dtype=torch.float64).to(output.dtype)
    named = dict(model.named_parameters()) | {f"input {i}": x for i, x in enumerate(inputs)}
    named = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
    found = torch.autograd.grad(output, list(named.values()), given)
    return dict(zip(named, found, strict=True))


def errors(found: Gradients, exact: Gradients) -> dict[str, float]:
    """Of each the norm of the difference, relative to its own or a thousandth of the largest."""
    assert found.keys() == exact.keys()
    least = 1e-3 * max(float(tensor.norm()) for tensor in exact.values())
    return {
        name: float((found[name].double() - tensor).norm()) / max(float(tensor.norm()), least)
        for name, tensor in exact.items()
    }


@pytest.mark.parametrize(
    ("variant", "impl"),
    [*((name, "auto") for name in VARIANTS), ("untied", "reference"), ("untied-ln", "reference")],
)
def test_lean_is_normal_in_any_chunks(variant: str, impl: str) -> None:
    model, (coords, features) = trained(variant, impl=impl), cloud(9, batch=2)
    coords.requires_grad_()
    normal = model(coords, features)
    expected = gradients(model, normal, coords)
    for chunk in (1, 7, 9):
        output = lean_forward(model, coords, features, chunk=chunk)
        torch.testing.assert_close(output, normal, rtol=1e-12, atol=1e-12)
        found = errors(gradients(model, output, coords), expected)
        assert max(found.values()) < 1e-12, (chunk, found)


@pytest.mark.parametrize("variant", ["baseline", "untied-ln"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.untraced
def test_single_precision_is_as_near_to_fp64_as_normal(variant: str, dtype: str) -> None:
    """In many chunks, over several clouds: a single number is near by chance.

    What slice and deslice give to the gradients of slots cancels in part; it is rounded apart here,
    and together in normal mode. All else is nearer than normal, as sums of chunks are shorter.
    """
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    model = spread_slots(Transolver(3, 2, 4, variant, size=Size(layers=3, width=32, heads=2)))
    rows = cloud(240)[0].unflatten(1, (4, 60))[0]
    for coords in rows[:, None]:
        features = coords[..., :2].flip(1)
        exact = gradients(model.double(), model(coords, features))
        given = coords.float(), features.float()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            outputs = lean_forward(model.float(), *given, chunk=6), model(*given)
        for total, output in zip((ours, theirs), outputs, strict=True):
            for name, error in errors(gradients(model, output), exact).items():
                total[name] = total.get(name, 0.0) + error**2
    floor = 4 * (2.0**-9 if dtype == "bf16" else 2.0**-21) ** 2
    ratios = {name: (ours[name] / max(theirs[name], floor)) ** 0.5 for name in ours}
    assert median(ratios.values()) < 1.05 and max(ratios.values()) < 2, ratios


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.untraced
def test_lean_keeps_one_tensor_of_every_layer(variant: str, small_chunks: None) -> None:
    """And of frozen variants the query, of others nothing: not even the lifted points."""
    kept = {}
    for layers in (2, 5):
        model = Transolver(3, 2, 4, variant, size=Size(width=32, heads=2, slices=4, layers=layers))
        model.memory = "lean"
        parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        storages: dict[int, Tensor] = {}

        def keep(saved: Tensor, storages: dict[int, Tensor] = storages) -> Tensor:
            storages[saved.untyped_storage().data_ptr()] = saved
            return saved

        coords, features = (x.float() for x in cloud(70))
        bf16 = torch.autocast("cpu", torch.bfloat16)
        with bf16, torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            model(coords, features)
        rows = [t for at, t in storages.items() if at not in parameters and t.shape[1:2] == (7,)]
        kept[layers] = sum(t.numel() for t in rows if t.shape[-1] > 3) / 70 / 32
    each = 0 if variant in ("slice-once", "mlp-only", "mlp-only-wide") else 1
    assert kept[5] - kept[2] == 3 * each
    frozen = variant.startswith("frozen-slice")
    assert kept[2] == (2 * each + 1 + frozen if each else 1 + (variant == "slice-once"))


def test_sums_are_mixed_once_and_chunks_are_computed_twice(
    small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reduces sums over processes lies where they are mixed."""
    counts = {"mixed": 0, "sums": 0, "update": 0}
    for name in counts:
        method = getattr(Coupling, name)

        def counted(*given: object, name: str = name, method: object = method) -> object:
            counts[name] += 1
            return method(*given)  # type: ignore[operator]

        monkeypatch.setattr(Coupling, name, counted)
    model, (coords, features) = trained("baseline"), cloud(14)
    model.memory = "lean"
    model(coords, features).sum().backward()
    assert counts == {"mixed": 3, "sums": 3 * 2 * 2, "update": 3 * 2 * 2}


def test_lean_twice_is_the_same_to_the_bit(small_chunks: None) -> None:
    model, (coords, features) = trained("untied-ln").float(), cloud(40)
    model.memory = "lean"
    twice = [gradients(model, model(coords.float(), features.float())) for _ in range(2)]
    assert all(torch.equal(twice[0][name], twice[1][name]) for name in twice[0])


def test_gradients_reach_what_is_not_frozen_once(small_chunks: None) -> None:
    model, (coords, features) = trained("frozen-slice"), cloud(20)
    frozen = {"lift.expand.weight", "blocks.0.coupling.query.weight", "blocks.1.mlp.expand.bias"}
    seen: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
        if name not in frozen:
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    for memory in ("normal", "lean"):
        model.memory = memory  # type: ignore[assignment]
        model.zero_grad()
        model(coords, features).square().sum().backward()
        found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        expected = found if memory == "normal" else expected
    assert found.keys() == {name for name, _ in model.named_parameters()} - frozen
    assert len(seen) == 2 * len(found) == 2 * len(set(seen))
    assert max(errors(found, expected).values()) < 1e-12


def test_lean_inside_a_checkpoint_and_without_gradients(small_chunks: None) -> None:
    model, (coords, features) = trained("baseline"), cloud(20)
    normal = gradients(model, model(coords, features))
    with torch.no_grad():
        expected = model(coords, features)
    model.memory = "lean"
    again = checkpoint(model, coords, features, use_reentrant=False)
    assert max(errors(gradients(model, again), normal).values()) < 1e-12
    with torch.no_grad():
        assert torch.equal(model(coords, features), expected), "predictions are those of normal"


def test_a_plug_in_is_lean_if_it_has_the_steps(
    registry: None, small_chunks: None, no_shape_checks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_plugin(ROOT / "examples" / "mean_pool.py")
    model, (coords, features) = trained("mean-pool"), cloud(30)
    expected = gradients(model, model(coords, features))
    model.memory = "lean"
    assert max(errors(gradients(model, model(coords, features)), expected).values()) < 1e-12
    block = model.blocks[1]
    block.hands_on = True
    monkeypatch.setattr(block.coupling, "membership", lambda x, previous: "its own")
    with pytest.raises(ValueError, match="memory must be 'normal' for a model whose layers hand"):
        model(coords, features)
    block.coupling = torch.nn.Identity()
    with pytest.raises(ValueError, match="'mean-pool' must have the methods membership, sums, mix"):
        model(coords, features)


def test_lean_is_refused_in_one_sentence(no_shape_checks: None) -> None:
    model = trained("baseline")
    with pytest.raises(ValueError, match="memory must be one of normal, lean, got 'less'"):
        model.memory = "less"  # type: ignore[assignment]
    model.memory, model.recompute = "lean", True
    with pytest.raises(ValueError, match="recompute must be false where memory is lean"):
        model(*cloud(5))
    with pytest.raises(ValueError, match="recompute must be false where memory is lean"):
        small(memory="lean", recompute=True)
    with pytest.raises(ValueError, match="memory must be one of .*, got 'less'"):
        small(memory="less")


def test_the_sums_of_all_chunks_reach_the_reducer(
    small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reducer that is put before the mixing sees each layer's sums once, complete."""
    seen: list[float] = []
    mixed = Coupling.mixed

    def reducing(coupling: Coupling, sums: TokenSums) -> Tensor:
        seen.append(float(sums.mass.detach().sum()))
        return mixed(coupling, sums)

    monkeypatch.setattr(Coupling, "mixed", reducing)
    model, (coords, features) = trained("untied"), cloud(20)
    model.memory = "lean"
    model(coords, features).sum().backward()
    heads = 2
    assert seen == pytest.approx([20 * heads] * 3)


CODE = """
import functools, torch
from slipstream import Size, Transolver
from slipstream.models import lean

lean.CHUNK["cpu"] = 40
lean._compiled = functools.cache(
    lambda step: torch.compile(step, fullgraph=True, backend="eager")
)
counters = torch._dynamo.utils.counters
model = Transolver(3, 2, 4, size=Size(layers=1, width=16, heads=2, slices=4))
model.memory = "lean"
whole = torch.compile(model, backend="eager")
graphs = []
for points in (90, 100, 131):
    coords, features = torch.rand(1, points, 3), torch.rand(1, points, 2)
    found = []
    for network in (whole, model):
        model.zero_grad()
        network(coords, features).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    slack = 1e-7 * max(float(each.abs().max()) for each in found[1])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=slack)
    graphs.append(counters["stats"]["unique_graphs"])
assert 4 <= graphs[1] == graphs[2], graphs
print("compiled by chunks")
"""


@pytest.mark.untraced
def test_the_steps_on_a_chunk_are_compiled() -> None:
    """One graph each; other numbers of points and of chunks need no other graphs."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT, env=os.environ
    )
    assert "compiled by chunks" in done.stdout, done.stderr[-2000:]
