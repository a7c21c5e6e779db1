"""The subjects of measurements: our kernels, the reference, the authors' package if installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from slipstream.bench.cases import Case
from slipstream.core.runtime import generator
from slipstream.kernels.plan import How, Impl
from slipstream.models.coupling import Coupling
from slipstream.models.layers import draw_initial_values
from slipstream.models.linear_no import LinearNoCoupling
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size, variant_named

Subject = Literal["reference", "fused", "flashslice"]
COORDS, FEATURES, OUTPUTS = 3, 5, 4
PEER_FLAGS = {
    "baseline": {},
    "no-token-attention": {"no_token_attention": True},
    "untied": {"untie_slice_weights": True},
    "mlp-only": {"mlp_only": True},
}
"""The variants for which flashslice 0.3.0 has kernels, with its arguments for them."""


def has_peer() -> bool:
    return importlib.util.find_spec("flashslice") is not None


def build(case: Case, impl: Impl, precision: str | None = None) -> nn.Module:
    """The model or layer of a case, on the CPU."""
    size = Size(layers=case.layers, slices=case.slices, heads=case.heads)
    how: How = {"impl": impl, "precision": precision}
    if case.what == "model":
        model = Transolver(COORDS, FEATURES, OUTPUTS, variant=case.variant, size=size, **how)
        model.recompute = case.checkpointed
        model.memory = "lean" if case.lean else "normal"
        model.stream_precision = case.stream
        return model
    variant = variant_named(case.variant)
    layer: nn.Module
    if variant.normalised_over == "points":
        layer = LinearNoCoupling(size, how)
    else:
        layer = Coupling(variant, size, 0, how)
    draw_initial_values(layer, 0)
    return layer


def plan_of(case: Case, impl: Impl, precision: str | None, device: str) -> str:
    """The kernels that a case runs, as `Transolver.kernels` says it."""
    size = Size(layers=1, slices=case.slices, heads=case.heads)
    model = Transolver(
        COORDS, FEATURES, OUTPUTS, variant=case.variant, size=size, impl=impl, precision=precision
    )
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=case.dtype == "bf16"):
        return model.to(device).kernels


@torch.no_grad()
def spread_slots(module: nn.Module) -> nn.Module:
    """Spread the slots as training does; with initial values all slots weigh nearly the same."""
    for name, parameter in module.named_parameters():
        if "slots" in name and not name.endswith("temperature"):
            drawn = torch.randn(parameter.shape, generator=generator(1, name))
            parameter.copy_(0.3 * drawn)
    return module


class Checkpointed(nn.Module):
    """A block whose activations are computed again in the backward pass; it draws no random
    numbers, so their state need not be preserved."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return checkpoint(
            self.block, *inputs, use_reentrant=False, preserve_rng_state=False, **named
        )


def checkpoint_blocks(model: nn.Module) -> nn.Module:
    """Checkpoint each of `model.blocks`, as ours and the peer's models have them."""
    blocks = model.blocks
    assert isinstance(blocks, nn.ModuleList)
    for index, block in enumerate(blocks):
        blocks[index] = Checkpointed(block)
    return model


def draw_inputs(case: Case, batch: int = 1, number: int = 0) -> list[Tensor]:
    """Random inputs of a case: coordinates and features of a model, or channels of a layer."""
    draw = generator(number, "inputs")
    if case.what == "model":
        return [torch.rand(batch, case.points, w, generator=draw) for w in (COORDS, FEATURES)]
    # Random numbers for millions of points would take longer than the measurement: rows repeat.
    some = torch.randn(batch, min(case.points, 1 << 16), Size().width, generator=draw)
    return [some.repeat(1, -(-case.points // some.shape[1]), 1)[:, : case.points].contiguous()]


def make_step(case: Case, subject: Subject, device: str = "cuda") -> Callable[[], Tensor]:
    """A training step (forward, backward, gradients dropped) or an inference step.

    Raises ValueError, with the reason, if the peer has no such case.
    """
    if subject == "flashslice":
        module = _peer(case).to(device)
    else:
        precision = case.precision if subject == "fused" else None
        module = build(case, subject, precision).to(device)
    call: Any = torch.compile(module) if case.compiled else module
    inputs = [tensor.to(device) for tensor in draw_inputs(case)]
    for tensor in inputs:
        tensor.requires_grad_(case.what == "layer" and case.training)
    kind = torch.device(device).type

    def forward() -> Tensor:
        with torch.autocast(kind, torch.bfloat16, enabled=case.dtype == "bf16"):
            output = call(*inputs)
        return output[0] if isinstance(output, tuple) else output

    def train() -> Tensor:
        loss = forward().float().square().mean()
        loss.backward()
        for tensor in (*module.parameters(), *inputs):
            tensor.grad = None
        return loss.detach()

    return train if case.training else torch.no_grad()(forward)


def _peer(case: Case) -> nn.Module:
    """The peer's model or layer. Its precision is a global of flashslice, which is set here."""
    if case.variant not in PEER_FLAGS:
        raise ValueError(f"flashslice has no kernels for the variant {case.variant!r}")
    package = importlib.import_module("flashslice")
    importlib.import_module("flashslice.kernels").set_dot_mode(case.precision)
    width = Size().width
    if case.what == "layer":
        return package.Physics_Attention_Irregular_Mesh(
            width, heads=case.heads, dim_head=width // case.heads, slice_num=case.slices,
            use_fused_slice=True,
        )  # fmt: skip
    model = package.Transolver(
        space_dim=COORDS, fun_dim=FEATURES, out_dim=OUTPUTS, n_hidden=width, n_heads=case.heads,
        n_layers=case.layers, slice_num=case.slices, mlp_ratio=Size().mlp_ratio,
        use_fused_slice=case.variant != "mlp-only", **PEER_FLAGS[case.variant],
    )  # fmt: skip
    return checkpoint_blocks(model) if case.checkpointed or case.lean else model
