"""What a recipe says, in words: how a feature is made, and what a target is."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.runs.recipe import (
    ArraySource,
    ComputedSource,
    FeatureRecipe,
    ParameterSource,
    Recipe,
    TargetRecipe,
)

_FORMS = {
    "kinematic": "kinematic {}, divided by the density",
    "dimensional": "{} of the fluid, not divided by the density",
    "coefficient": "a coefficient: {} divided by the dynamic pressure",
    "unknown": "{}; its unit does not say whether it is divided by the density",
}


def named(name: str, unit: str, components: int) -> str:
    """As "velocity [m/s] x 3"."""
    return f"{name} [{unit}]" + (f" x {components}" if components > 1 else "")


def how_made(feature: FeatureRecipe, recipe: Recipe) -> str:
    """How the values of a feature are made, as "unit normals of the surface, computed"."""
    made = feature.made
    if isinstance(made, ArraySource):
        return array_text(made, recipe)
    if isinstance(made, ComputedSource):
        if made.what == "normals":
            return "unit normals out of the body, computed from the faces of the mesh"
        return f"distance to the surface of {_file(made.file, recipe)}, computed"
    if isinstance(made, ParameterSource):
        count = "one number" if feature.components == 1 else f"{feature.components} numbers"
        where = f" of {made.file}" if made.file else ""
        key = f", {made.key}{where}" if made.file or made.key != feature.name else ""
        return f"a parameter, {count} for a whole sample{key}"
    return "values at every point, that the user gives"


def array_text(source: ArraySource, recipe: Recipe) -> str:
    """As "array p at the points of surface (run_{id}.vtp), less 101325"."""
    names = ", ".join(source.arrays)
    where = f" of {_file(source.file, recipe)}" if source.file else ""
    text = f"array{'s' if len(source.arrays) > 1 else ''} {names} at {source.location}s{where}"
    if any(source.subtract):
        text += f", less {' '.join(f'{number:g}' for number in source.subtract)}"
    return text if source.scale == 1 else f"{text}, times {source.scale:g}"


def what_it_is(target: TargetRecipe) -> str:
    """As "kinematic pressure, divided by the density"; empty where it is not known."""
    if target.quantity is None or target.form is None:
        return ""
    what = {"pressure": "pressure", "shear": "wall shear stress"}[target.quantity]
    return _FORMS[target.form].format(what)


def range_text(low: Sequence[float], high: Sequence[float]) -> str:
    """As "20 to 40", "always 30", or "(0, 0) to (1, 2)"."""
    one, other = (number_text(numbers) for numbers in (low, high))
    return f"always {one}" if tuple(low) == tuple(high) else f"{one} to {other}"


def number_text(numbers: Sequence[float]) -> str:
    texts = [f"{number:.5g}" for number in numbers]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _file(name: str | None, recipe: Recipe) -> str:
    if name is None:
        return "the body"
    return f"{name} ({recipe.files[name]})" if name in recipe.files else name
