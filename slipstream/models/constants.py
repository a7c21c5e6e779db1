"""The constants of a model: what it computes with besides its parameters.

"Transolver" is not one function: other programs add more to the mass of a slot, clamp temperatures,
attend causally over the slots, or have another GELU. A model file says which constants it is of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from slipstream.core.checks import check_choice
from slipstream.models.variants import EPSILON, Variant

Activation = Literal["gelu", "gelu-tanh"]
"""GELU by the error function, or its approximation by tanh."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What a model computes with besides its parameters. The defaults are the paper's.

    A part that a variant does not have needs none: a pointwise model has no epsilon. Raises
    ValueError for values with which nothing could be computed.
    """

    epsilon: float = EPSILON
    """Added to the mass of a slot before dividing. `untied-ln` divides by no mass and adds none."""
    temperatures: tuple[float, float] | None = None
    """The range to which temperatures are clamped, lowest and highest; None for free ones, and in
    `untied-ln` for its own range."""
    activation: Activation = "gelu"
    """Of the MLPs of the layers. The lifting MLP has GELU by the error function in all programs."""
    causal: bool = False
    """Whether a token attends only to itself and to those of slots before its own."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be a finite number of at least 0, got {self.epsilon}")
        check_choice("activation", self.activation, get_args(Activation))
        if self.temperatures is not None:
            low, high = self.temperatures
            if not (0 < low <= high < math.inf):
                raise ValueError(
                    "temperatures must be null or a lowest above 0 and a highest of at least that,"
                    f" got {low} and {high}"
                )

    def differing(self) -> dict[str, Any]:
        """Those that are not the defaults, by name, as JSON has them."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    def check_fit(self, variant: Variant) -> None:
        """Raise ValueError where a plug-in's coupling would not take them."""
        own = [name for name in self.differing() if name != "activation"]
        if variant.coupling is not None and own:
            raise ValueError(
                f"{own[0]} must be the default for variant {variant.name!r}, whose coupling is a"
                f" plug-in's own, got {self.differing()[own[0]]}"
            )


DEFAULT = Constants()
