"""What the ranks of test_sharding.py do: a model of shards beside one of all points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slipstream.core.collectives import common_total
from slipstream.kernels.membership import TokenSums
from slipstream.models import Constants, lean, load_plugin
from slipstream.models.constants import DEFAULT
from slipstream.models.sharding import OverRanks, shard_points
from slipstream.models.sweeps import Points, Sweeping, stream_through
from slipstream.models.transolver import Transolver
from slipstream.models.variants import VARIANTS, Size

POINTS = 23
SIZE = Size(layers=2, width=16, heads=2, slices=4)
CUTS = {
    2: {"even": (0, 11), "uneven": (0, 3), "first empty": (0, 0), "last empty": (0, 23)},
    3: {"even": (0, 8, 16), "uneven": (0, 1, 9), "middle empty": (0, 5, 5)},
}
"""The first point of each rank, by the number of ranks."""
MODES = {(2, "uneven"): ("normal", "recompute", "lean"), (2, "first empty"): ("normal", "lean")}
"""What a step keeps, where it is not all, in chunks of CHUNK: more of them on one rank."""
CHUNK = 4
OTHERS = Constants(epsilon=0.5, temperatures=(0.6, 0.8), activation="gelu-tanh", causal=True)
OF_THREE = ("baseline", "frozen-slice", "untied-ln", "slice-once", "mlp-only", "mean-pool")
"""Variants that are cut in three too: each way of slicing, and none."""
EXACT = 1e-12

Result = tuple[Tensor, dict[str, Tensor]]
"""Outputs and gradients."""


def made(
    variant: str, dtype: torch.dtype = torch.float64, size: Size = SIZE, **how: Any
) -> Transolver:
    """A model far from its initial values: its couplings matter."""
    model = Transolver(3, 2, 2, variant, size=size, **how)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model.to(dtype)


def cloud(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    widths = (3, 2, 2)
    parts = [torch.rand(2, POINTS, k, generator=draw, dtype=torch.float64) for k in widths]
    return tuple(part.to(dtype) for part in parts)  # type: ignore[return-value]


def loss_of(errors: Tensor) -> Tensor:
    """Of sums over all points, divided after that, as the relative errors are."""
    return (errors / (1 + errors.sum(-1, keepdim=True))).sqrt().sum()


def alone(model: Transolver, low: bool = False) -> Result:
    coords, features, target = cloud(model.placeholder.dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        outputs = model(coords, features)
    loss_of((outputs.to(target.dtype) - target).square().sum(1)).backward()
    return outputs.detach(), gradients(model)


def together(
    model: Any, group: dist.ProcessGroup, span: slice, whole: Tensor, low: bool = False
) -> Result:
    """Outputs, those of other ranks taken from `whole`, and gradients added up over the ranks."""
    coords, features, target = (part[:, span] for part in cloud(model.placeholder.dtype))
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        own = model(coords, features)
    sums = (own.to(target.dtype) - target).square().sum(1)
    loss_of(common_total(sums, group)).backward()
    outputs = whole.clone()
    outputs[:, span] = own.detach()
    found = gradients(model)
    for gradient in found.values():
        dist.all_reduce(gradient, group=group)
    return outputs, found


def gradients(model: Any) -> dict[str, Tensor]:
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert len(found) == len(list(model.parameters())), "every parameter has a gradient"
    model.zero_grad(set_to_none=True)
    return {name.removeprefix("_orig_mod."): gradient for name, gradient in found.items()}


def difference(one: Result, other: Result) -> float:
    """The largest, outputs and gradients together."""
    pairs = [(one[0], other[0]), *((one[1][name], other[1][name]) for name in one[1])]
    return max(float((a - b).abs().max()) for a, b in pairs)


def spans(ranks: int) -> Iterator[tuple[str, list[slice]]]:
    for name, firsts in CUTS[ranks].items():
        yield name, [slice(*ends) for ends in pairwise((*firsts, POINTS))]


def memory_of(keeps: str) -> lean.Memory:
    return "lean" if keeps == "lean" else "normal"


@contextmanager
def counted(model: Transolver) -> Iterator[list[int]]:
    """The widths of the sums that its couplings complete."""
    seen: list[int] = []
    modules = [m for m in model.modules() if isinstance(getattr(m, "complete_sums", 0), OverRanks)]
    for module in modules:
        complete = module.complete_sums

        def count(sums: TokenSums, complete: OverRanks = complete) -> TokenSums:
            seen.append(sums.numerator.shape[-1])
            return complete(sums)

        module.complete_sums = count
    yield seen


def check_variants(rank: int, plugin: str) -> None:
    """All variants in groups of two and of three, then what is asked of a few."""
    load_plugin(plugin)
    lean.CHUNK["cpu"] = CHUNK
    pair = dist.new_group([0, 1])
    for variant in VARIANTS:
        if variant in OF_THREE:
            assert dist.group.WORLD is not None
            check_variant(variant, rank, dist.group.WORLD)
        if rank < 2:
            check_variant(variant, rank, pair)
    if rank < 2:
        check_constants(rank, pair)
        check_compiled(rank, pair)
        check_fp32(rank, pair)
        check_autocast(rank, pair)
        check_streamed(rank, pair)


def check_variant(variant: str, rank: int, group: dist.ProcessGroup) -> None:
    ranks = dist.get_world_size(group)
    for impl in ("auto", "reference") if ranks == 2 and variant in OF_THREE else ("auto",):
        model = made(variant, impl=impl)
        expected = alone(model)
        for case, own in spans(ranks):
            if impl == "reference" and case not in ("uneven", "first empty"):
                continue
            for keeps in MODES.get((ranks, case), ("normal",)):
                model.recompute, model.memory = keeps == "recompute", memory_of(keeps)
                shard_points(model, group)
                with counted(model) as seen:
                    found = together(model, group, own[rank], expected[0])
                error = difference(found, expected)
                assert error <= EXACT, f"{variant} {impl} {case} {keeps}: {error}"
                couplings = len(model.stepped_layers())
                again = model.recompute and model.once is None  # which no checkpoint is made of
                assert len(seen) == couplings * (1 + again), f"{variant} {keeps}: {seen}"
        model.recompute, model.memory = False, "normal"
        shard_points(model, None)
        assert difference(alone(model), expected) == 0, "as it was before"


def check_constants(rank: int, group: dist.ProcessGroup) -> None:
    """Of other programs, all at once: each changes what is computed, and lean memory knows them."""
    own = dict(spans(2))["uneven"]
    for variant in ("baseline", "untied", "frozen-slice", "slice-once"):
        expected = alone(made(variant, constants=OTHERS))
        for name, value in OTHERS.differing().items():
            without = replace(OTHERS, **{name: getattr(DEFAULT, name)})
            changed = difference(alone(made(variant, constants=without)), expected)
            assert changed > 1e-6, f"{variant} {name} {value}: {changed}"
        for memory in ("normal", "lean"):
            model = made(variant, constants=OTHERS)
            model.memory = memory_of(memory)
            shard_points(model, group)
            error = difference(together(model, group, own[rank], expected[0]), expected)
            assert error <= EXACT, f"{variant} {memory}: {error}"


def check_compiled(rank: int, group: dist.ProcessGroup) -> None:
    """One graph forward and one backward, with both kinds of reducing and an empty shard."""
    model = made("untied-ln", size=replace(SIZE, layers=1))
    expected = alone(model)
    shard_points(model, group)
    own = dict(spans(2))["first empty"]
    whole = torch.compile(model, fullgraph=True, backend="aot_eager")
    error = difference(together(whole, group, own[rank], expected[0]), expected)
    assert error <= EXACT, f"{error}"


def check_fp32(rank: int, group: dist.ProcessGroup) -> None:
    """No farther from fp64 than one process is, but for the order of sums."""
    for variant in ("baseline", "untied-ln", "slice-once"):
        exact, single = (alone(made(variant, dtype)) for dtype in (torch.float64, torch.float32))
        model = made(variant, torch.float32)
        shard_points(model, group)
        found = together(model, group, slice(*((0, 9), (9, POINTS))[rank]), single[0])
        ours, theirs = (distance(result, exact) for result in (found, single))
        assert ours <= 2 * theirs + 1e-7, f"{variant}: {ours} and {theirs}"


def distance(one: Result, other: Result) -> float:
    def flat(result: Result) -> Tensor:
        return torch.cat([t.double().flatten() for t in (result[0], *result[1].values())])

    return float((flat(one) - flat(other)).norm() / flat(other).norm())


def check_autocast(rank: int, group: dist.ProcessGroup) -> None:
    for variant in ("baseline", "untied-ln"):
        model = made(variant, torch.float32)
        single = alone(model, low=True)
        shard_points(model, group)
        own = slice(*((0, 9), (9, POINTS))[rank])
        assert distance(together(model, group, own, single[0], low=True), single) < 0.05


def check_streamed(rank: int, group: dist.ProcessGroup) -> None:
    """Chunks of each rank's points: whoever drives the steps need not know of the ranks."""
    for variant in ("untied", "untied-ln", "slice-once", "mean-pool"):
        model = made(variant)
        with torch.no_grad():
            expected = model(*cloud()[:2])
        shard_points(model, group)
        first, end = ((0, 9), (9, POINTS))[rank]
        coords, features = (part[:, first:end] for part in cloud()[:2])
        points = Points(end - first, lambda a, b, c=coords, f=features: (c[:, a:b], f[:, a:b]))
        parts: list[Tensor] = []
        stream_through(model, points, Sweeping(4), lambda a, b, part, to=parts: to.append(part))
        torch.testing.assert_close(torch.cat(parts, 1), expected[:, first:end], rtol=0, atol=EXACT)
