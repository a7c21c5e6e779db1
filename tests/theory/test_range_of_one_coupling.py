"""Section 2: the range of one coupling is the span of the slice functions, attention or not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from slipstream import VARIANTS, Size
from slipstream.kernels import reference

from .common import TRANSOLVER_COUPLINGS, random_coupling

SIZE = Size(layers=1, width=12, heads=3, slices=4)
POINTS = 40


def distance_from_span(update: torch.Tensor, weights: torch.Tensor) -> float:
    """Largest relative distance of a head's outputs (N, D) from the span of its slots (N, G)."""
    worst = 0.0
    for head in range(SIZE.heads):
        basis = torch.linalg.qr(weights[0, head]).Q
        outputs = update[0, :, head]
        rest = outputs - basis @ (basis.T @ outputs)
        worst = max(worst, float(rest.norm() / outputs.norm()))
    return worst


@pytest.mark.parametrize("variant", TRANSOLVER_COUPLINGS)
def test_outputs_lie_in_the_span_of_the_slice_functions(variant: str) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1, POINTS, SIZE.width, generator=draw, dtype=torch.float64)
    coupling = random_coupling(variant, SIZE)
    coupling.output = nn.Identity()  # type: ignore[assignment]
    with torch.no_grad():
        update, membership = coupling(x)
        if coupling.deslice_slots is not None:
            membership = coupling.deslice_slots(membership.query)
        weights = reference.weights(membership)
    update = update.unflatten(-1, (SIZE.heads, -1))
    assert distance_from_span(update, weights) < 1e-12
    elsewhere = torch.randn(update.shape, generator=draw, dtype=torch.float64)
    assert distance_from_span(elsewhere, weights) > 0.5
    if VARIANTS[variant].deslice == "own":
        sliced_by = reference.weights(coupling(x)[1]).detach()
        assert distance_from_span(update, sliced_by) > 1e-3
