"""Reference values that targets are divided by, as pressures by the dynamic pressure of a sample.

    Reference(by={"density": 1, "speed": 2}, factor=0.5, unit="Pa")     # 0.5 density speed^2

A reference is a product of powers of features that are the same at every point of a sample, so it
is known wherever a model is used, and the division can be undone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Reference:
    """factor * the product of the features in `by`, each to its power."""

    by: Mapping[str, float] = field(hash=False)
    """Name of a feature with one component -> its power."""
    factor: float
    unit: str
    """The unit of the values before they were divided."""

    def __post_init__(self) -> None:
        if not self.by:
            raise ValueError("a reference must have at least one feature, got none")
        numbers = {"factor": self.factor, **self.by}
        for name, number in numbers.items():
            if not math.isfinite(number) or number == 0:
                raise ValueError(
                    f"{name} of a reference must be a finite number other than 0, got {number}"
                )
        if not self.unit.strip() or not self.unit.isprintable():
            raise ValueError(f"the unit of a reference must be printable text, got {self.unit!r}")

    def __str__(self) -> str:
        powers = (name if power == 1 else f"{name}^{power:g}" for name, power in self.by.items())
        return " ".join(([] if self.factor == 1 else [f"{self.factor:g}"]) + list(powers))

    def value(self, features: Mapping[str, Any]) -> Any:
        """The reference, from numbers, arrays or tensors by name."""
        product: Any = self.factor
        for name, power in self.by.items():
            product = product * features[name] ** power
        return product

    def of_sample(self, parameters: Mapping[str, Any]) -> float:
        """The reference of a sample; ValueError where nothing can be divided by it."""
        named = {name: np.float64(parameters[name]) for name in self.by}
        with np.errstate(all="ignore"):
            value = self.value(named)
            held = np.float32(value)  # as stored: a smaller or larger one could not be undone
        if not np.isfinite(held) or held == 0:
            given = ", ".join(f"{name} {number:g}" for name, number in named.items())
            raise ValueError(
                f"the reference {self} must be a finite number other than 0, got {value:g} from"
                f" {given}"
            )
        return float(value)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
