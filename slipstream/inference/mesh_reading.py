"""The arrays of a mesh that a recipe asks for: features to be read, and the truth where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import array_at
from slipstream.data.meshes import ArrayInfo, Location, Mesh, Wanted, mesh_of, read_mesh, resolve
from slipstream.data.meshes import mesh_info as info_of_file
from slipstream.runs.recipe import ArraySource, FeatureRecipe, GivenSource, Recipe, TargetRecipe
from slipstream.runs.recipe_text import named


def read_for(source: Any, recipe: Recipe, location: Location, regions: Sequence[str]) -> Mesh:
    """A mesh, a path or an object in memory, with the arrays that features are read from and those
    with the truth. ValueError names the first feature whose array it lacks."""
    if not isinstance(source, str | Path):
        mesh = mesh_of(source)
        _check_features(recipe, location, mesh.info.arrays, mesh.name)
        return mesh
    path = Path(source)
    held = info_of_file(path, regions=regions).arrays
    needed = _check_features(recipe, location, held, path.name)
    truth = [w for target in recipe.targets for w in _truth_arrays(target, location, held)]
    return read_mesh(path, [*needed, *truth], regions=regions)


def feature_values(mesh: Mesh, feature: FeatureRecipe, location: Location) -> NDArray[Any]:
    """The values of a feature that is read from the mesh, at its rows."""
    if isinstance(feature.made, ArraySource):
        return _values(mesh, feature.made, location)
    return np.asarray(mesh.array(_given(feature, location)), np.float64)


def truth_of(mesh: Mesh, target: TargetRecipe, location: Location) -> NDArray[Any] | None:
    """True values of a target, undivided, (rows, components), where the mesh has them: in the array
    that the training read or, where none is known, in one with the name of the target."""
    arrays = _truth_arrays(target, location, mesh.info.arrays)
    if not arrays:
        return None
    if target.array is None:
        values = np.asarray(mesh.array(arrays[0]), np.float64)
    else:
        values = _values(mesh, target.array, location)
    return values.reshape(-1, target.components)


def _check_features(
    recipe: Recipe, location: Location, held: Sequence[ArrayInfo], file: str
) -> list[Wanted]:
    wanted: list[Wanted] = []
    for feature in recipe.features:
        made = feature.made
        arrays: Sequence[Wanted] = ()
        if isinstance(made, ArraySource):
            arrays = _wanted(made)
        elif isinstance(made, GivenSource):
            arrays = (_given(feature, location),)
        for array in arrays:
            try:
                resolve(array, held, file)
            except ValueError as error:
                what = named(feature.name, feature.unit, feature.components)
                raise ValueError(f"{error}: the model takes {what} from it") from None
        wanted += arrays
    return wanted


def _given(feature: FeatureRecipe, location: Location) -> Wanted:
    return Wanted(feature.name, location, feature.components)


def _wanted(source: ArraySource) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(name.removesuffix("*"), source.location, source.components, name.endswith("*"))
        for name in source.arrays
    )


def _truth_arrays(
    target: TargetRecipe, location: Location, held: Sequence[ArrayInfo]
) -> tuple[Wanted, ...]:
    """The arrays with the true values of a target; none where the mesh does not have them all."""
    source = target.array
    if source is None:
        arrays: tuple[Wanted, ...] = (Wanted(target.name, location, target.components),)
    else:
        arrays = _wanted(source)
    try:
        for array in arrays:
            resolve(array, held, "")
    except ValueError:
        return ()
    return arrays


def _values(mesh: Mesh, source: ArraySource, location: Location) -> NDArray[Any]:
    columns = [np.asarray(array_at(mesh, w, location), np.float64) for w in _wanted(source)]
    values = columns[0] if len(columns) == 1 else np.stack(columns, 1)
    if not any(source.subtract) and source.scale == 1:
        return values
    offset = source.subtract if len(source.subtract) > 1 else (*source.subtract, 0.0)[0]
    return np.asarray((values - np.asarray(offset)) * source.scale)
