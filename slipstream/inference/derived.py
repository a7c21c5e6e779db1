"""Coefficients of predicted pressures and shear stresses, where density and speed are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.runs.recipe import Recipe, TargetRecipe
from slipstream.runs.units import flow_factor, stress_unit

NAMES = {"pressure": "cp", "shear": "cf"}
_ABSOLUTE = 5e4
"""A pressure in Pa that never came below this in training is absolute: no reference is known."""


def dynamic_pressure(recipe: Recipe, features: Mapping[str, Any], target: TargetRecipe) -> float:
    """0.5 rho U^2, or 0.5 U^2 for a kinematic quantity; NaN where it is not known."""
    speed = flow_speed(recipe, features)
    if target.form == "kinematic":
        return 0.5 * speed**2
    return 0.5 * flow_density(recipe, features) * speed**2


def flow_speed(recipe: Recipe, features: Mapping[str, Any]) -> float:
    """The speed of the free stream; NaN where it is not known, or differs between the rows.

    As for forces, a reference value of the card goes before a parameter of the model.
    """
    stated = _reference(recipe, features, "speed")
    if np.isfinite(stated):
        return stated
    stream = _stream(recipe, features)
    return float("nan") if stream is None else float(np.linalg.norm(stream))


def flow_direction(recipe: Recipe, features: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """The unit vector of the free stream, where a model takes it as a vector of three numbers."""
    stream = _stream(recipe, features)
    if stream is None or len(stream) != 3 or not np.linalg.norm(stream) > 0:
        return None
    return np.asarray(stream / np.linalg.norm(stream))


def _stream(recipe: Recipe, features: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """The numbers that give the speed: one, or the components; None where they are at rows."""
    parts = [np.atleast_1d(_in_si(recipe, features, name)) for name in recipe.speed]
    widths = [recipe.feature(name).components for name in recipe.speed]
    if not parts or any(p.shape != (w,) for p, w in zip(parts, widths, strict=True)):
        return None
    return np.concatenate(parts)


def flow_density(recipe: Recipe, features: Mapping[str, Any]) -> float:
    """The density of the fluid; NaN where it is not known. The card's goes before a parameter."""
    stated = _reference(recipe, features, "density")
    if np.isfinite(stated):
        return stated
    known = recipe.density
    if known is not None and known.feature is not None:
        value = _in_si(recipe, features, known.feature)
        return float(value) if value.ndim == 0 else float("nan")
    return known.value if known is not None and known.value is not None else float("nan")


def _reference(recipe: Recipe, features: Mapping[str, Any], key: str) -> float:
    value: Any = (recipe.reference or {}).get(key)
    if isinstance(value, str):
        value = _in_si(recipe, features, value) if value in features else None
    number = np.asarray(np.nan if value is None else value, np.float64)
    return float(number) if number.ndim == 0 else float("nan")


def _in_si(recipe: Recipe, features: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    """A feature in m/s or kg/m^3, if it is a speed or a density."""
    return np.asarray(features[name], np.float64) * flow_factor(recipe.feature(name).unit)


def coefficients(
    recipe: Recipe, features: Mapping[str, Any], fields: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """cp and cf of the first pressure and shear, and a note where one cannot be had."""
    derived: dict[str, NDArray[Any]] = {}
    notes: list[str] = []
    for target in recipe.targets:
        name = NAMES.get(target.quantity or "")
        if name is None or name in derived or target.form not in ("kinematic", "dimensional"):
            continue
        factor = stress_unit(target.undivided_unit)
        absolute = min(target.low) * factor > _ABSOLUTE and not target.divided
        if target.quantity == "pressure" and absolute:
            notes.append(f"no cp: {target.name} is an absolute pressure")
            continue
        pressure = dynamic_pressure(recipe, features, target)
        if not np.isfinite(pressure) or pressure <= 0:
            lacking = "speed" if target.form == "kinematic" else "density and speed"
            notes.append(f"no {name}: the {lacking} of the flow is not known")
            continue
        derived[name] = (fields[target.name] * (factor / pressure)).astype(np.float32)
    return derived, notes
