"""Plain signs that a mesh is unlike those of the training: scale, place, parameters.

The wrong unit is an error, since no number of such a prediction would mean anything; all others
are warnings with the range of the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.runs.recipe import Recipe
from slipstream.runs.recipe_text import named, range_text

WRONG_SCALE = 20.0
"""A mesh this many times as large as any of the training, or as small, has another unit."""
_UNITS = {1000.0: "mm", 100.0: "cm", 39.37: "inches", 3.281: "feet", 0.001: "km"}
_FEWER = 4
"""A mesh with this many times fewer points than a training step saw is warned of."""
_MARGIN = 0.1
"""The share of the training's extent by which a mesh may leave it without a warning."""
_FEW_ROWS = 0.01
"""The share of rows whose features may leave their range without a warning."""


def check_scale(coords: NDArray[Any], recipe: Recipe, file: str) -> None:
    """Raise ValueError where the size of a mesh is not in the unit of the training."""
    size = float(np.linalg.norm(np.ptp(coords, axis=0)))
    smallest, largest = recipe.points.smallest, recipe.points.largest
    if not 0 < smallest <= largest or smallest / WRONG_SCALE <= size <= largest * WRONG_SCALE:
        return
    unit = recipe.coords.units[0]
    middle = (smallest * largest) ** 0.5
    hint = ""
    if unit == "m" and size > 0:
        factor = min(_UNITS, key=lambda factor: abs(np.log(size / middle / factor)))
        if abs(np.log(size / middle / factor)) < np.log(4):
            hint = f": is it in {_UNITS[factor]}? (--scale {1 / factor:.6g})"
    raise ValueError(
        f"{file} must be of the size of the training's samples, a diagonal of {smallest:.6g} to"
        f" {largest:.6g} {unit}, got {size:.6g}{hint}"
    )


def few_points(points: int, recipe: Recipe, file: str) -> list[str]:
    least = recipe.points.draw.least
    if points * _FEWER >= least:
        return []
    return [
        f"{file} has {points:,} rows, and a training step saw at least {least:,}: the tokens of so"
        " few are not those of the training; refine the mesh"
    ]


def unusual_places(coords: NDArray[Any], recipe: Recipe, file: str) -> list[str]:
    low, high = np.asarray(recipe.coords.low), np.asarray(recipe.coords.high)
    room = _MARGIN * float(np.linalg.norm(high - low))
    outside = ((coords < low - room) | (coords > high + room)).any(1)
    if not outside.any():
        return []
    got = f"{_corner(coords.min(0))} to {_corner(coords.max(0))}"
    return [
        f"{outside.mean():.1%} of the rows of {file} are outside of the training's extent,"
        f" {_corner(low)} to {_corner(high)}: the mesh is {got}"
    ]


def unusual_parameters(parameters: Mapping[str, Any], recipe: Recipe) -> list[str]:
    warnings = []
    for name, value in parameters.items():
        feature = recipe.feature(name)
        numbers = np.atleast_1d(np.asarray(value, np.float64))
        low, high = np.asarray(feature.low), np.asarray(feature.high)
        # Stores hold float32: what equals an end of the range must not count as outside of it.
        room = 1e-6 * np.maximum(np.abs(low), np.abs(high))
        if ((numbers < low - room) | (numbers > high + room)).any():
            what = named(name, feature.unit, feature.components)
            known = range_text(feature.low, feature.high)
            warnings.append(
                f"{what} is outside of its range in training, {known}: got"
                f" {', '.join(f'{number:g}' for number in numbers)}"
            )
    return warnings


def unusual_features(features: Mapping[str, Any], recipe: Recipe, file: str) -> list[str]:
    """Features with a value at each row that leave their range in training."""
    warnings = []
    for feature in recipe.features:
        if feature.is_parameter:
            continue
        values = _columns(features[feature.name], feature.components)
        low, high = np.asarray(feature.low), np.asarray(feature.high)
        room = np.maximum(_MARGIN * (high - low), 1e-6 * np.maximum(np.abs(low), np.abs(high)))
        share = ((values < low - room) | (values > high + room)).any(1).mean()
        if share > _FEW_ROWS:
            what = named(feature.name, feature.unit, feature.components)
            known = range_text(feature.low, feature.high)
            warnings.append(
                f"{what} is outside of its range in training, {known}, at {share:.1%} of the rows"
                f" of {file}"
            )
    return warnings


def far_out(features: Mapping[str, Any], recipe: Recipe) -> tuple[str, ...]:
    """Parameters and features that leave their range by more than its width: of one that never
    changed, by anything. A feature at rows does where its mean over them does."""
    far = []
    for feature in recipe.features:
        middle = _columns(features[feature.name], feature.components).mean(0, np.float64)
        low, high = np.asarray(feature.low), np.asarray(feature.high)
        room = np.maximum(high - low, 1e-6 * np.maximum(np.abs(low), np.abs(high)))
        if ((middle < low - room) | (middle > high + room)).any():
            what = named(feature.name, feature.unit, feature.components)
            known = range_text(feature.low, feature.high)
            got = ", ".join(f"{number:g}" for number in middle)
            far.append(f"{what} is far outside of its range in training, {known}: got {got}")
    return tuple(far)


def _columns(values: Any, components: int) -> NDArray[Any]:
    """Values at rows, or numbers that all rows share, as (N, components)."""
    return np.asarray(values).reshape(-1, components)


def never_learned(recipe: Recipe) -> list[str]:
    """Targets that loss and errors have left out, as all of their training was zero."""
    return [
        f"{target.name} was zero everywhere in training: what is predicted for it means nothing"
        for target in recipe.targets
        if not any((*target.low, *target.high))
    ]


def _corner(point: NDArray[Any]) -> str:
    return f"({', '.join(f'{float(x):.4g}' for x in point)})"
