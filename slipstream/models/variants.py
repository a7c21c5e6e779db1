"""The ablations as data, and the constants of the method in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipstream.core.checks import check_choice, check_whole

EPSILON = 1e-5
"""Added to the mass of a slot before dividing, as the authors and thuml do (1e-2 elsewhere)."""

INITIAL_TEMPERATURE = 0.5
LINEAR_NO_TEMPERATURES = (0.1, 2.0)
"""The range to which LinearNO clamps its temperatures; a Transolver's are free."""

INITIAL_WEIGHT_STD = 0.02


@dataclass(frozen=True)
class Variant:
    """One point of the ablation grid. Models are built from these fields, never from the name."""

    name: str
    summary: str
    stream: Literal["coupled", "pointwise", "token-only"] = "coupled"
    """`coupled`: slice and deslice in every layer; `pointwise`: never; `token-only`: once."""
    mix: Literal["attention", "linear"] | None = "attention"
    """What acts on the tokens between slice and deslice; None where there are no tokens."""
    deslice: Literal["tied", "own"] | None = "tied"
    """Whether deslice takes the slice's membership or one with its own slots and temperature."""
    slicing: Literal["each-layer", "first-layer"] | None = "each-layer"
    """Which layer's membership is used; None where slicing does not belong to a layer."""
    normalised_over: Literal["slots", "points"] | None = "slots"
    """The axis over which the weights of the slice sum to one."""
    widening: int = 1
    """Factor on the MLP ratio."""
    paper_parameters: float | None = None
    """Millions of parameters the paper reports, where it does."""


_ALL = (
    Variant(
        "baseline", "Transolver: slice, attention among tokens, deslice", paper_parameters=3.87
    ),
    Variant("no-token-attention", "one linear map per token; tokens do not interact", mix="linear"),
    Variant("untied", "deslice has its own slots and temperature", deslice="own"),
    Variant(
        "untied-no-token-attention",
        "own deslice slots, and no attention",
        mix="linear",
        deslice="own",
    ),
    Variant(
        "untied-ln",
        "LinearNO: slice normalised over the points, own deslice, no attention",
        mix="linear",
        deslice="own",
        normalised_over="points",
        paper_parameters=3.85,
    ),
    Variant(
        "frozen-slice", "every layer reuses the first layer's membership", slicing="first-layer"
    ),
    Variant(
        "frozen-slice-no-token-attention",
        "first layer's membership throughout, and no attention",
        mix="linear",
        slicing="first-layer",
    ),
    Variant(
        "slice-once",
        "slice once, transformer on the tokens, deslice once; no point stream",
        stream="token-only",
        slicing=None,
        paper_parameters=4.37,
    ),
    Variant(
        "mlp-only",
        "no coupling: a pointwise residual MLP",
        stream="pointwise",
        mix=None,
        deslice=None,
        slicing=None,
        normalised_over=None,
        paper_parameters=2.25,
    ),
    Variant(
        "mlp-only-wide",
        "mlp-only with twice the MLP ratio: the capacity control",
        stream="pointwise",
        mix=None,
        deslice=None,
        slicing=None,
        normalised_over=None,
        widening=2,
        paper_parameters=4.35,
    ),
)

BASELINE = "baseline"
"""To which all others are compared."""
POINTWISE = "mlp-only"
"""Without any coupling."""
VARIANTS: dict[str, Variant] = {variant.name: variant for variant in _ALL}


def variant_named(name: str) -> Variant:
    check_choice("variant", name, VARIANTS)
    return VARIANTS[name]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a model is. The defaults are the paper's."""

    layers: int = 8
    width: int = 256
    """C, the channels of the point stream."""
    heads: int = 8
    slices: int = 32
    """G, the slots per head."""
    mlp_ratio: int = 2
    key_ratio: int = 1
    """`untied-ln` only, which has key_ratio x head width slots per head, as LinearNO does."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_whole(name, value, 1)
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads = {self.heads}, got {self.width}")

    @property
    def head_width(self) -> int:
        return self.width // self.heads


PAPER = Size()
