"""Lean memory where the model is being compiled. Importing this imports the compiler: seconds."""

from __future__ import annotations

import torch

from slipstream.core.shapes import Float
from slipstream.models.lean import lean_forward
from slipstream.models.steps import SteppedModel


@torch.compiler.disable(reason="the steps on a chunk are compiled, not the loop over chunks")  # type: ignore[untyped-decorator]
def lean_forward_compiled(
    model: SteppedModel, coords: Float[torch.Tensor, "B N d"], features: torch.Tensor | None
) -> Float[torch.Tensor, "B N k"]:
    """`lean_forward`, outside the graph of the model; it compiles the steps on a chunk."""
    return lean_forward(model, coords, features, compiled=True)
