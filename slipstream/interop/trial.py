"""Which constants a physics attention computes with, found by a trial of a small copy in fp64.

What is added to the mass, and to what range temperatures are clamped, stands in the code of a
forward and in none of its parameters. So a copy of the module computes a few points with random
parameters, and so does our forward with every known pair of constants; one must agree.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.core.runtime import generator
from slipstream.interop.attention_forward import Attention, Clamp, physics_attention
from slipstream.interop.recognise import Unlike

EPSILONS = (1e-5, 1e-2)
CLAMPS: tuple[Clamp, ...] = (None, (0.5, 5.0), (0.1, 5.0))
TEMPERATURES = (0.04, 0.3, 8.0)
"""Outside each of the ranges and inside."""
AGREES = 1e-9
"""Largest difference relative to the largest output. Another constant makes 1e-6 or more."""
_POINTS = 19


def with_constants(module: nn.Module, attention: Attention) -> Attention:
    """The attention with the constants of its module, and with what its forward returns.

    Raises Unlike where no known constants give what the module gives, in training or evaluation.
    """
    small = _copy(module)
    plain = replace(attention, impl="auto", precision=None)
    trials = list(_trials(small, attention))
    for epsilon, clamp in product(EPSILONS, CLAMPS):
        found = replace(plain, epsilon=epsilon, clamp=clamp)
        if all(_agrees(found, small, *trial) for trial in trials):
            pair = isinstance(_own(small, trials[0][0]), tuple)
            return replace(attention, epsilon=epsilon, clamp=clamp, returns_pair=pair)
    raise Unlike(
        "it computes something else than a Transolver's attention with known constants (its"
        " attention over the slots may be causal)"
    )


def _copy(module: nn.Module) -> Any:
    """A copy in fp64 on the CPU, with random parameters and neither dropout nor hooks."""
    try:
        small: Any = copy.deepcopy(module).to("cpu", torch.float64)
    except Exception as raised:
        raise Unlike(f"it cannot be copied: {raised}") from None
    for part in small.modules():
        for hooks in (part._forward_hooks, part._forward_pre_hooks):
            hooks.clear()
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    if getattr(small, "use_fused_slice", False):
        small.use_fused_slice = False  # flashslice's kernels need a GPU; its eager path is the same
    with torch.no_grad():
        for name, parameter in small.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator(0, name), device="cpu")
            parameter.copy_(drawn / max(1, parameter.shape[-1]) ** 0.5)
    return small


def _trials(small: Any, attention: Attention) -> Iterator[tuple[Tensor, float, Tensor]]:
    """Inputs, a temperature, and what the copy gives. Global random numbers are left alone."""
    draw = generator(0, "trial")
    x = torch.randn(2, _POINTS, attention.width, generator=draw, dtype=torch.float64, device="cpu")
    with torch.random.fork_rng(devices=[]), torch.autocast("cpu", enabled=False):
        for temperature, training in product(TEMPERATURES, (False, True)):
            _set_temperatures(small.train(training), temperature)
            try:
                own = _own(small, x)
            except Exception as raised:
                raise Unlike(f"its forward failed on {_POINTS} points: {raised}") from None
            out = own[0] if isinstance(own, tuple) else own
            if not isinstance(out, Tensor) or out.shape != x.shape:
                raise Unlike("its forward does not return a tensor of the shape of its input")
            yield x, temperature, out


@torch.no_grad()
def _own(small: Any, x: Tensor) -> Any:
    return small.forward(x)


@torch.no_grad()
def _agrees(attention: Attention, small: Any, x: Tensor, temperature: float, out: Tensor) -> bool:
    _set_temperatures(small, temperature)
    with torch.autocast("cpu", enabled=False):
        difference = (physics_attention(attention, small, x) - out).abs().max()
    return bool(difference <= AGREES * out.abs().max())


@torch.no_grad()
def _set_temperatures(small: nn.Module, value: float) -> None:
    """The same for slice and deslice, a little apart for each head."""
    for name, parameter in small.named_parameters():
        if name.endswith("temperature"):
            steps = torch.linspace(1.0, 1.2, parameter.numel(), device="cpu")
            parameter.copy_((value * steps).view(parameter.shape))
