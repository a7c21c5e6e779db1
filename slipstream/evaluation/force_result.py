"""Forces and moments of a surface, and the coefficients that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.evaluation.force_conventions import Conventions, Form
from slipstream.evaluation.force_faces import Stated
from slipstream.evaluation.force_reference import FlowReference, Vector

COEFFICIENTS = ("cd", "cs", "cl")
MOMENTS = ("cm_roll", "cm_pitch", "cm_yaw")
_OPEN = 1e-4
"""|sum S| above this share of the area makes a surface open. Float32 coordinates leave 1e-7."""
UNITS: Mapping[Form, str] = {
    "dimensional": "N",
    "kinematic": "m^4/s^2 (N over the density)",
    "coefficient": "m^2 (N over the dynamic pressure)",
}


@dataclass(frozen=True)
class Forces:
    """What the fluid does to the body."""

    pressure: Vector
    """Force of the pressure, in `unit`."""
    friction: Vector | None
    """Force of the shear; None where there is none."""
    pressure_moment: Vector
    """About the centre of the reference, in `unit` times m."""
    friction_moment: Vector | None
    """The same of the shear; None where there is none."""
    unit: str
    """N where it can be; else N over the density, or over the dynamic pressure."""
    dynamic_pressure: float | None
    """What makes coefficients of forces in `unit`; None where the speed is not known."""
    area_sum: Vector
    """Sum of the area vectors out of the body, m^2: 0 for a closed surface."""
    wetted: float
    """Sum of the areas of the faces, m^2; of both halves with a mirror."""
    faces: int
    """How many were added up."""
    facing: Stated
    """Which way faces were taken to turn, and why."""
    undecided: float
    """Share of the area, 0 to 1, whose outer side the geometry does not tell."""
    reference: FlowReference
    """What coefficients were made with."""
    conventions: Conventions
    """How the arrays were read."""
    warnings: tuple[str, ...] = ()
    """What may make them wrong, a sentence each."""

    @property
    def total(self) -> Vector:
        """Force of pressure and shear, in `unit`."""
        return _added(self.pressure, self.friction)

    @property
    def moment(self) -> Vector:
        """Moment of both, in `unit` times m."""
        return _added(self.pressure_moment, self.friction_moment)

    @property
    def missing(self) -> tuple[str, ...]:
        """The reference values that coefficients of forces lack: area, speed, density."""
        lacking = [] if self.reference.area else ["area"]
        if self.dynamic_pressure is None:
            lacking += [] if self.reference.speed else ["speed"]
            lacking += (
                [] if self.reference.density or self.unit != UNITS["dimensional"] else ["density"]
            )
        return tuple(lacking)

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """cd, cs, cl and, as cd_pressure and cd_friction, their parts; cm_* where a length is
        known. Empty where area or dynamic pressure are not known."""
        area, pressure = self.reference.area, self.dynamic_pressure
        if area is None or pressure is None:
            return {}
        parts = {"": self.total, "_pressure": self.pressure, "_friction": self.friction}
        values: dict[str, float] = {}
        for ending, force in parts.items():
            if force is not None:
                along = self.reference.axes @ np.asarray(force) / (pressure * area)
                names = [name + ending for name in COEFFICIENTS]
                values |= dict(zip(names, map(float, along), strict=True))
        if self.reference.length is not None:
            about = self.reference.axes @ np.asarray(self.moment)
            about = about / (pressure * area * self.reference.length)
            values |= dict(zip(MOMENTS, map(float, about), strict=True))
        return values

    @property
    def cd(self) -> float | None:
        """Drag over dynamic pressure and area; None where one of them is not known."""
        return self.coefficients.get("cd")

    @property
    def cl(self) -> float | None:
        """The same of the lift."""
        return self.coefficients.get("cl")

    @property
    def cs(self) -> float | None:
        """The same of the side force."""
        return self.coefficients.get("cs")

    @property
    def cd_pressure(self) -> float | None:
        return self.coefficients.get("cd_pressure")

    @property
    def cd_friction(self) -> float | None:
        return self.coefficients.get("cd_friction")

    @property
    def open(self) -> bool:
        """Whether forces depend on the reference of the pressure, since area vectors do not
        cancel."""
        return float(np.linalg.norm(self.area_sum)) > _OPEN * self.wetted

    @property
    def reference_changes(self) -> dict[str, float]:
        """By how much each coefficient changes if the pressure's reference is lower by one dynamic
        pressure; without a reference area, empty."""
        if self.reference.area is None:
            return {}
        along = -self.reference.axes @ np.asarray(self.area_sum) / self.reference.area
        return dict(zip(COEFFICIENTS, map(float, along), strict=True))

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "total": self.total,
            "moment": self.moment,
            "coefficients": self.coefficients,
            "missing": self.missing,
            "open": self.open,
            "reference_changes": self.reference_changes,
        }


def _added(one: Vector, other: Vector | None) -> Vector:
    if other is None:
        return one
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])
