"""Who is measured: our fused kernels, the reference, and the authors' package if installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from slipstream.bench.cases import Case
from slipstream.kernels.plan import How
from slipstream.models.coupling import Coupling
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size, variant_named

Subject = Literal["fused", "reference", "flashslice"]
COORDS, FEATURES, OUTPUTS = 3, 5, 4


def has_peer() -> bool:
    return importlib.util.find_spec("flashslice") is not None


def build(case: Case, subject: Subject) -> nn.Module:
    if subject == "flashslice":
        return _peer(case)
    size = Size(layers=case.layers, slices=case.slices)
    precision = case.precision if subject == "fused" else None
    if case.what == "model":
        return Transolver(
            COORDS, FEATURES, OUTPUTS, variant=case.variant, size=size, impl=subject,
            precision=precision,
        )  # fmt: skip
    how: How = {"impl": subject, "precision": precision}
    torch.manual_seed(0)
    layer = Coupling(variant_named(case.variant), size, 0, how)
    for name, parameter in layer.named_parameters():
        if name.endswith("temperature"):
            nn.init.constant_(parameter, 0.5)
        elif "slots" in name:
            nn.init.normal_(parameter, std=0.3)
    return layer


def make_step(case: Case, subject: Subject, device: str = "cuda") -> Callable[[], Tensor]:
    """A training step (forward, backward, gradients dropped) or an inference step."""
    module = build(case, subject).to(device)
    call: Any = torch.compile(module) if case.compiled else module
    draw = torch.Generator().manual_seed(0)
    if case.what == "model":
        widths: tuple[int, ...] = (COORDS, FEATURES)
    else:
        widths = (Size().width,)
    inputs = [torch.rand(1, case.points, w, generator=draw).to(device) for w in widths]
    for tensor in inputs:
        tensor.requires_grad_(case.what == "layer" and case.training)

    def forward() -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=case.dtype == "bf16"):
            found = call(*inputs)
        return found[0] if isinstance(found, tuple) else found

    def train() -> Tensor:
        loss = forward().float().square().mean()
        loss.backward()
        for tensor in (*module.parameters(), *inputs):
            tensor.grad = None
        return loss

    return train if case.training else torch.no_grad()(forward)


def _peer(case: Case) -> nn.Module:
    """flashslice has its precision in a global; it is set here, right before it is used."""
    package = importlib.import_module("flashslice")
    importlib.import_module("flashslice.kernels").set_dot_mode(case.precision)
    if case.variant not in ("baseline", "no-token-attention"):
        raise ValueError(f"variant must be baseline or no-token-attention, got {case.variant!r}")
    plain = case.variant == "no-token-attention"
    if case.what == "layer":
        return package.Physics_Attention_Irregular_Mesh(
            256, heads=8, dim_head=32, slice_num=case.slices, use_fused_slice=True
        )
    return package.Transolver(
        space_dim=COORDS, fun_dim=FEATURES, out_dim=OUTPUTS, n_hidden=256, n_heads=8,
        n_layers=case.layers, slice_num=case.slices, mlp_ratio=2, no_token_attention=plain,
        use_fused_slice=True,
    )  # fmt: skip
