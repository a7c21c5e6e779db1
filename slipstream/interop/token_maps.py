"""Token attention replaced, layer by layer, by the linear map that fits its action best.

In a layer, attention makes tokens Y (T, D) of tokens X (T, D), those of all heads, slots and
samples. The map W (D, D), shared by the heads, with the smallest sum of m |X W^T - Y|^2, where m is
the mass of a slot, is W^T = (X^T M X)^-1 X^T M Y. X are the tokens of the model whose earlier
layers are replaced already, Y what this layer's attention makes of the same tokens.

Where the model is to have fewer slices (`fewer_slices`), X are the tokens of the slices it keeps,
and Y the attention among all of them: the mean by mass of those that become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from slipstream.data.batches import Batch
from slipstream.models.coupling import Coupling, TokenLinear
from slipstream.models.steps import Steps, Stream
from slipstream.models.transolver import Block, Transolver
from slipstream.models.variants import VARIANTS, Variant

Clouds = Callable[[], Iterable[Batch]]
"""The same normalised clouds at every call."""


@dataclass(frozen=True)
class LayerFit:
    """How well the map of a layer fits its attention."""

    layer: int
    residual: float
    """|X W^T - Y| over |Y|, weighted as the fit is; 0 is the same, 1 as bad as no tokens."""
    tokens: int


def without_attention(variant: Variant) -> Variant:
    """The variant that lacks the token attention and nothing else.

    Raises ValueError where a variant has none, or no such partner.
    """
    if variant.coupling is None and variant.stream == "coupled" and variant.mix == "attention":
        facts = (variant.slicing, variant.deslice, variant.normalised_over, variant.widening)
        for other in VARIANTS.values():
            same = (other.slicing, other.deslice, other.normalised_over, other.widening) == facts
            if same and other.mix == "linear" and other.stream == "coupled" and not other.coupling:
                return other
    able = "baseline, untied, frozen-slice"
    raise ValueError(
        f"the model must have token attention that can be taken out ({able}), got {variant.name!r}"
    )


@dataclass(frozen=True, eq=False)
class Reduced:
    """A model with fewer slices."""

    model: Transolver
    groups: tuple[Tensor, ...]
    """(K, G) for each layer: one where an old slot is in a new one."""


@torch.no_grad()
def fit_token_maps(
    model: Transolver, clouds: Clouds, reduced: Reduced | None = None
) -> tuple[dict[str, Tensor], list[LayerFit]]:
    """The parameters of the model without token attention, and how well each layer fits.

    With `reduced` they are those of the model with fewer slices. Every layer takes the clouds once
    more through the layers before it, which are replaced by then.
    """
    work = deepcopy(model if reduced is None else reduced.model).eval()
    steps, fits = Steps(work), []
    for layer, block in enumerate(work.blocks):
        coupling = cast(Coupling, cast(Block, block).coupling)
        attention, coupling.mix = coupling.mix, cast(TokenLinear, nn.Identity())
        width = work.size.head_width
        fit = _Fit(width)
        for batch in clouds():
            stream = _stream(steps, layer, batch)
            tokens, mass = _tokens(steps, layer, stream)
            if reduced is None:
                fit.add(tokens, attention(tokens), mass)
            else:
                mixed, of = _attended(Steps(model), layer, stream, batch)
                fit.add(tokens, _grouped(mixed, of, reduced.groups[layer]), mass)
        linear = TokenLinear(width).to(work.placeholder)
        linear.value.weight.copy_(fit.weight())
        coupling.mix = linear
        fits.append(LayerFit(layer, fit.residual(), fit.tokens))
    return {name: parameter.detach() for name, parameter in work.named_parameters()}, fits


def _stream(steps: Steps, layer: int, batch: Batch) -> Stream:
    """The points before a layer."""
    stream = steps.begin(*batch.inputs)
    for before in range(layer):
        stream, sums = steps.sums(before, stream)
        stream = steps.apply(before, stream, steps.mixed(before, sums))
    return stream


def _tokens(steps: Steps, layer: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """The tokens (B, H, G, D) and masses (B, H, G) of a layer, mixed as the layer does."""
    _, sums = steps.sums(layer, stream)
    return steps.mixed(layer, sums), sums.mass


def _attended(steps: Steps, layer: int, stream: Stream, batch: Batch) -> tuple[Tensor, Tensor]:
    """What the layer of the model with all slices makes of the same points."""
    if stream.membership is not None:  # handed on from the first layer: that of all slices
        first, _ = steps.sums(0, steps.begin(*batch.inputs))
        stream = replace(stream, membership=first.membership)
    return _tokens(steps, layer, stream)


def _grouped(mixed: Tensor, mass: Tensor, groups: Tensor) -> Tensor:
    """The means by mass (B, H, K, D) of tokens (B, H, G, D) that become one."""
    groups = groups.to(mass)
    numerator = groups @ (mass[..., None] * mixed)
    return numerator / (groups @ mass[..., None]).clamp(min=torch.finfo(mass.dtype).tiny)


class _Fit:
    """Least squares in fp64 by the products of tokens, which add up."""

    def __init__(self, width: int) -> None:
        self.own = torch.zeros(width, width, dtype=torch.float64)
        self.cross, self.target = self.own.clone(), 0.0
        self.tokens = 0

    def add(self, tokens: Tensor, mixed: Tensor, mass: Tensor) -> None:
        x, y = (t.detach().cpu().double().flatten(0, -2) for t in (tokens, mixed))
        weighted = x * mass.detach().cpu().double().flatten()[:, None]
        self.own += weighted.T @ x
        self.cross += weighted.T @ y
        self.target += float((mass.detach().cpu().double().flatten() * y.square().sum(-1)).sum())
        self.tokens += len(x)

    def weight(self) -> Tensor:
        """W (D, D); the smallest one where tokens do not span all directions."""
        return (torch.linalg.pinv(self.own, hermitian=True, rtol=1e-12) @ self.cross).T

    def residual(self) -> float:
        weight = self.weight()
        fitted = 2 * (weight.T * self.cross).sum() - ((weight @ self.own) * weight).sum()
        return float(max(0.0, 1 - float(fitted) / self.target) ** 0.5) if self.target else 0.0
