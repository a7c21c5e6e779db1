"""Small fp64 models with weights far from their start, so that nothing is nearly degenerate."""

from __future__ import annotations

import torch
from torch import nn

from slipstream import VARIANTS, Size, Transolver
from slipstream.kernels.plan import How
from slipstream.models.coupling import Coupling

HOW: How = {"impl": "auto", "precision": None}
COUPLED = [name for name, variant in VARIANTS.items() if variant.stream != "pointwise"]
TRANSOLVER_COUPLINGS = [
    name for name in COUPLED if VARIANTS[name].stream == "coupled" and name != "untied-ln"
]


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Weights of the size of a trained model's, positive temperatures; in place, in fp64."""
    draw = torch.Generator().manual_seed(seed)
    module.double()
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
        if name.endswith("temperature"):
            parameter.data = 0.5 + 0.2 * noise.sigmoid()
        elif "norm" in name and name.endswith("weight"):
            parameter.data = 1 + 0.1 * noise
        else:
            parameter.data = noise / max(1, parameter.shape[-1]) ** 0.5
    return module


def random_model(variant: str, size: Size, feature_dim: int = 2, out_dim: int = 4) -> Transolver:
    model = Transolver(3, feature_dim, out_dim, variant=variant, size=size)
    randomise(model)
    return model


def random_coupling(variant: str, size: Size) -> Coupling:
    coupling = Coupling(VARIANTS[variant], size, 0, HOW)
    randomise(coupling)
    return coupling


def rank(matrix: torch.Tensor, tolerance: float = 1e-10) -> int:
    """Number of singular values above `tolerance` times the largest; 0 for a zero matrix."""
    values = torch.linalg.svdvals(matrix)
    return int((values > tolerance * values[0].clamp(min=1e-300)).sum())
