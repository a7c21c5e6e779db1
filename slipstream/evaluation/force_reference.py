"""What forces are made coefficients with: density, speed, area, length and directions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

import numpy as np

from slipstream.core.plain_checks import check_choice

Vector = tuple[float, float, float]
Axis = Literal["x", "y", "z"]
AXES: tuple[Axis, ...] = ("x", "y", "z")
_POSITIVE = ("density", "speed", "area", "length")
_VECTORS = ("drag", "lift", "centre")
_SQUARE = 1e-3
"""The largest cosine between the directions of drag and lift: rounded digits are allowed."""


@dataclass(frozen=True)
class FlowReference:
    """Reference values; None where one is not known, and then no coefficient needs it or has it.

    ValueError for a number that is not positive, a direction without length, and a lift that is not
    perpendicular to the drag.
    """

    density: float | None = None
    """kg/m^3"""
    speed: float | None = None
    """m/s"""
    area: float | None = None
    """m^2, of the whole body where `mirror` is given."""
    length: float | None = None
    """m, for coefficients of moments."""
    drag: Vector = (1.0, 0.0, 0.0)
    """The direction of the flow; any length but 0."""
    lift: Vector = (0.0, 0.0, 1.0)
    """A direction perpendicular to it."""
    centre: Vector = (0.0, 0.0, 0.0)
    """Moments are about this point, m."""
    pressure: float = 0.0
    """Subtracted from the pressure, in the unit of its array."""
    mirror: Axis | None = None
    """The mesh is one half of a body that the plane where this coordinate is 0 cuts in two."""

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if not _is_number(self.pressure):
            raise ValueError(f"the reference pressure must be a number, got {self.pressure!r}")
        for name in _VECTORS:
            object.__setattr__(self, name, _vector(name, getattr(self, name)))
        if self.mirror is not None:
            check_choice("mirror", self.mirror, AXES)
        for name in ("drag", "lift"):
            if not any(getattr(self, name)):
                raise ValueError(f"{name} must be a direction, got 0, 0, 0")
        cosine = float(np.dot(_unit(self.drag), _unit(self.lift)))
        if abs(cosine) > _SQUARE:
            raise ValueError(
                "lift must be perpendicular to drag, got"
                f" {math.degrees(math.acos(max(-1, min(1, cosine)))):.4g} degrees between"
                f" {self.lift} and {self.drag}"
            )

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> FlowReference:
        """From the `reference` of a card or recipe, and `changes` that are not None.

        A text as value is the name of one of the `parameters` of the sample. ValueError for a name
        that is none of a reference, or none of the parameters.
        """
        known = [field.name for field in fields(cls)]
        chosen = {name: value for name, value in changes.items() if value is not None}
        for name, value in {**(values or {}), **chosen}.items():
            check_choice("a reference value", name, known)
            if isinstance(value, str) and name != "mirror":
                check_choice(f"{name} as a parameter", value, parameters or {})
                value = float(np.asarray((parameters or {})[value], np.float64).reshape(()))
            if _is_number(value):
                value = float(value)
            chosen[name] = _vector(name, value) if name in _VECTORS else value
        return cls(**chosen)

    @property
    def axes(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Unit vectors of drag, side and lift, (3, 3); the side is lift x drag."""
        drag, lift = _unit(self.drag), _unit(self.lift)
        return np.stack((drag, np.cross(lift, drag), lift))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float | np.integer | np.floating)
    return plain and not isinstance(value, bool) and math.isfinite(value)


def _vector(name: str, value: Any) -> Vector:
    numbers = tuple(value) if isinstance(value, tuple | list | np.ndarray) else ()
    if len(numbers) != 3 or not all(map(_is_number, numbers)):
        raise ValueError(f"{name} must be three numbers, got {value!r}")
    return cast(Vector, tuple(map(float, numbers)))


def _unit(vector: Vector) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = np.asarray(vector, np.float64)
    return values / np.linalg.norm(values)
