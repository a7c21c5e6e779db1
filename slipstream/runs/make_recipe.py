"""The recipe of a store: from its manifest, and a few rows of three samples for the spacing."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.files import naming_file
from slipstream.data.batches import count_points
from slipstream.data.cards import role_of
from slipstream.data.geometry import filled_dimension, median_spacing, scaled_spacing
from slipstream.data.store import Field, Rows, Store, data_hash
from slipstream.runs.checkpoint import read_tensors, write_tensors
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import parse_header
from slipstream.runs.recipe import (
    SCHEMA,
    ArraySource,
    CoordinateRecipe,
    Counts,
    DataRecipe,
    Density,
    FeatureRecipe,
    Form,
    ParameterSource,
    PointsRecipe,
    Quantity,
    Recipe,
    TargetRecipe,
)
from slipstream.runs.recipe_sources import Sources, find_sources
from slipstream.runs.units import DENSITIES, SPEEDS

WINDOW = 65_536
"""Rows of a sample that are read to find the spacing of its points."""
SAMPLES = 3
"""Training samples whose spacing is found: the first, the middle and the last."""

_QUANTITIES: Mapping[str, Quantity] = {
    "pressure": "pressure",
    "pressure coefficient": "pressure",
    "wall shear": "shear",
    "skin friction": "shear",
}
_FORMS: Mapping[str, Form] = {
    "1": "coefficient",
    **dict.fromkeys(("m^2/s^2", "m2/s2", "(m/s)^2", "J/kg"), "kinematic"),
    **dict.fromkeys(
        ("Pa", "hPa", "kPa", "MPa", "bar", "mbar", "psi", "N/m^2", "N/m2"), "dimensional"
    ),
}
_DENSITY_WORDS = {"rho", "density", "rhoinf", "rhoref"}


def make_recipe(store: Store, points: int | float | None) -> Recipe:
    """The recipe of a model that is trained on a store with draws of `points` (a number, a share of
    the sample's points, or None for all).

    It is the same whenever it is made, and takes about a second at most: all numbers but the
    spacing are in the manifest.
    """
    sources = find_sources(store)
    features = tuple(_feature(store, field, sources) for field in store.schema.features)
    reference = _reference(store)
    return Recipe(
        schema=SCHEMA,
        data=DataRecipe(
            store.manifest.origin.source,
            sources.made_by,
            data_hash(store),
            len(store.ids("train")),
        ),
        location=sources.location,
        domain=sources.domain,
        files=sources.files,
        patches=sources.patches,
        coords=_coords(store, sources),
        features=features,
        targets=tuple(_target(store, field, sources) for field in store.schema.targets),
        points=_points(store, points, sources),
        density=_density(features, reference),
        speed=_speed(features),
        reference=reference,
    )


def add_recipe(path: Path, store: Store) -> Recipe:
    """Give a model file that has no recipe that of the store it was trained on.

    All else in the file stays as it is, the weights to the bit. Raises ValueError, having changed
    nothing, where the file has a recipe, the store holds other data, or the run is being trained.
    """
    folder = RunFolder(path.parent)
    with folder.locked() if folder.exists else nullcontext():
        return _add(path, store)


def _add(path: Path, store: Store) -> Recipe:
    header, tensors = read_tensors(path, "model")
    with naming_file(path):
        written = parse_header(header)
    if written.recipe is not None:
        raise ValueError(f"{path} must be a model file without a recipe, got one with it")
    if data_hash(store) != written.data_hash:
        raise ValueError(
            f"{store.path} must hold the data that {path} was trained on, hash"
            f" {written.data_hash[:12]}, got {data_hash(store)[:12]}"
        )
    recipe = make_recipe(store, written.config.data.points)
    write_tensors(path, "model", {**header, "recipe": recipe.to_json()}, tensors)
    return recipe


def _feature(store: Store, field: Field, sources: Sources) -> FeatureRecipe:
    made = sources.features[field.name]
    return FeatureRecipe(field.name, field.unit, field.components, *_range(store, field.name), made)


def _target(store: Store, field: Field, sources: Sources) -> TargetRecipe:
    array = sources.targets.get(field.name)
    quantity = _quantity(field, array)
    return TargetRecipe(
        field.name,
        field.unit,
        field.components,
        *_range(store, field.name),
        array,
        field.divided,
        quantity,
        form_of(field.undivided_unit) if quantity else None,
    )


def _coords(store: Store, sources: Sources) -> CoordinateRecipe:
    fields = store.schema.coords
    names, units = tuple(f.name for f in fields), tuple(f.unit for f in fields)
    ends = _range(store, "coords")
    return CoordinateRecipe(names, units, sources.subtract, sources.box, *ends)


def _range(store: Store, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    columns = store.schema.columns(name)
    return store.statistics.low[columns], store.statistics.high[columns]


def _quantity(field: Field, array: ArraySource | None) -> Quantity | None:
    """By the name of the field or, where that says nothing, of its array."""
    names = [field.name, *(array.arrays if array and len(array.arrays) == 1 else ())]
    for name in names:
        quantity = _QUANTITIES.get(role_of(name.removesuffix("*"), field.components))
        if quantity:
            return quantity
    return None


def form_of(unit: str) -> Form:
    """Whether a pressure or a shear with this unit is divided by a density, or by a pressure."""
    plain = unit.replace(" ", "").replace("²", "^2").replace("**", "^").replace("s^-2", "/s^2")
    return _FORMS.get(plain.replace("*/", "/").replace("·/", "/"), "unknown")


def _reference(store: Store) -> dict[str, Any] | None:
    """The reference values of the card, if it has any."""
    value = store.manifest.origin.options.get("reference")
    if not isinstance(value, Mapping):
        return None
    return {
        str(name): tuple(map(float, entry)) if isinstance(entry, list | tuple) else entry
        for name, entry in value.items()
        if isinstance(entry, float | int | str | list | tuple)
    }


def _density(
    features: Sequence[FeatureRecipe], reference: Mapping[str, Any] | None
) -> Density | None:
    """A parameter that is a density by its unit or its name, else a reference value."""
    for feature in features:
        if isinstance(feature.made, ParameterSource) and feature.components == 1:
            words = {*_words(feature.name), *_words(feature.made.key)}
            if feature.unit in DENSITIES or words & _DENSITY_WORDS:
                return Density(feature.name, feature.low[0] if feature.constant else None)
    for name, value in (reference or {}).items():
        if name in _DENSITY_WORDS and isinstance(value, float | int):
            return Density(None, float(value))
    return None


def _speed(features: Sequence[FeatureRecipe]) -> tuple[str, ...]:
    """The one parameter with a unit of speed, or the three that end with x, y and z."""
    speeds = [f for f in features if f.is_parameter and f.unit in SPEEDS]
    if len(speeds) == 1 and speeds[0].components in (1, 2, 3):
        return (speeds[0].name,)
    ends = "".join(feature.name[-1].lower() for feature in speeds)
    if ends == "xyz" and all(feature.components == 1 for feature in speeds):
        return tuple(feature.name for feature in speeds)
    return ()


def _words(name: str) -> list[str]:
    return re.findall("[a-z]+", name.lower())


def _points(store: Store, points: int | float | None, sources: Sources) -> PointsRecipe:
    ids = store.ids("train")
    rows = [store.rows(sample) for sample in ids]
    draws = [count_points(points, count, sample) for count, sample in zip(rows, ids, strict=True)]
    some = sorted({0, len(ids) // 2, len(ids) - 1})[:SAMPLES]
    windows = [_window(store, ids[k]) for k in some]
    dimension = {"surface": 2, "volume": 3}.get(sources.domain or "")
    dimension = min(dimension or filled_dimension(windows[0]), store.schema.coord_dim)
    whole = [_spacing(w, rows[k], dimension) for w, k in zip(windows, some, strict=True)]
    drawn = [_spacing(w, draws[k], dimension) for w, k in zip(windows, some, strict=True)]
    sizes = _sizes(store)
    return PointsRecipe(
        _counts(rows),
        _counts(draws),
        _median(whole),
        _median(drawn),
        all(rows[k] <= WINDOW for k in some),
        dimension,
        min(sizes),
        max(sizes),
    )


def _window(store: Store, sample: str) -> Rows:
    """The coordinates of the first rows of a sample, which are random points of it."""
    rows = np.empty((min(store.rows(sample), WINDOW), store.schema.width), np.float32)
    store.read_spans(sample, [(0, len(rows))], rows)
    return rows[:, store.schema.columns("coords")]


def _spacing(window: Rows, total: int, dimension: int) -> float | None:
    """The spacing of `total` points of a sample, of which the window has the first ones."""
    seen = window[:total]
    spacing = median_spacing(seen)
    if spacing is None:
        return None
    return scaled_spacing(spacing, seen=len(seen), total=total, dimension=dimension)


def _median(numbers: Sequence[float | None]) -> float | None:
    found = [number for number in numbers if number is not None]
    return statistics.median(found) if found else None


def _counts(counts: Sequence[int]) -> Counts:
    return Counts(min(counts), statistics.median_low(counts), max(counts))


def _sizes(store: Store) -> list[float]:
    """The diagonal of the bounding box of every training sample."""
    manifest, columns = store.manifest, store.schema.columns("coords")
    samples = [manifest.samples[name].statistics for name in manifest.splits["train"]]
    ends = [(np.array(s.low[columns]), np.array(s.high[columns])) for s in samples]
    return [float(np.linalg.norm(high - low)) for low, high in ends]
