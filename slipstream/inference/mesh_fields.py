"""From a mesh to the inputs of a model, by the recipe that the model carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import NearestTriangle, outward_normals
from slipstream.data.meshes import INTERNAL, Location, Mesh, Wanted, mesh_of, read_mesh, resolve
from slipstream.data.meshes import mesh_info as info_of_file
from slipstream.inference.oddities import check_scale, unusual_parameters, unusual_places
from slipstream.runs.recipe import (
    ArraySource,
    ComputedSource,
    FeatureRecipe,
    ParameterSource,
    Recipe,
    TargetRecipe,
)
from slipstream.runs.recipe_text import how_made, named, range_text

MOST_UNDECIDED = 0.2
"""The largest share of a surface's area whose outer side may be unknown."""


@dataclass(frozen=True)
class InputChoices:
    """What a user says about a mesh, besides the mesh."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the whole sample, by name."""
    location: Location | None = None
    """Where fields are predicted, for a model that does not say where its rows are."""
    scale: float = 1.0
    """Factor on the mesh's coordinates, as 0.001 for a mesh in mm and a model in m."""
    surface: Path | None = None
    """The surface that distances are to, for a model of a volume."""
    regions: tuple[str, ...] = ()
    """Patches of a case, or blocks of a .vtm, that are read; empty for those of the recipe."""
    flip_normals: bool = False
    accept_undecided: bool = False
    """Whether a surface may be predicted on whose outer side is not known."""


@dataclass(frozen=True, eq=False)
class MeshFields:
    """The inputs of a model at the rows of a mesh, and its truth where the mesh has it."""

    mesh: Mesh
    location: Location
    coords: NDArray[Any]
    """As the model takes them, (N, d)."""
    features: Mapping[str, Any]
    """By name: values at the rows, or numbers that all share."""
    truth: Mapping[str, NDArray[Any]]
    """True values of targets that the mesh carries, undivided, by name."""
    notes: tuple[str, ...]
    """What was assumed."""
    warnings: tuple[str, ...]
    """What may make the prediction wrong."""

    @property
    def rows(self) -> int:
        return len(self.coords)


def mesh_fields(source: Any, recipe: Recipe, choices: InputChoices) -> MeshFields:
    """Read a mesh (a path, or an object in memory) and make the inputs that the recipe asks for.

    Raises ValueError naming what the mesh or the choices lack.
    """
    _check_parameters(recipe, choices)
    location = recipe.location or choices.location or "point"
    mesh = _read(source, recipe, location, choices)
    places = np.asarray(mesh.locations(location), np.float64)
    if not len(places):
        raise ValueError(f"{mesh.name} must have at least one {location}, got none")
    _check_finite(mesh.name, f"coordinates of its {location}s", places)
    coords = _coords(places, recipe, choices, mesh.name)
    check_scale(coords, recipe, mesh.name)
    made = _Features(mesh, location, places * choices.scale, recipe, choices)
    features = {feature.name: made.value(feature) for feature in recipe.features}
    for name, values in features.items():
        _check_finite(mesh.name, name, np.asarray(values))
    truth = {t.name: v for t in recipe.targets if (v := _truth(mesh, location, t)) is not None}
    parameters = {f.name: features[f.name] for f in recipe.parameters}
    warnings = [
        *made.warnings,
        *unusual_places(coords, recipe, mesh.name),
        *unusual_parameters(parameters, recipe),
    ]
    notes = tuple(made.notes)
    return MeshFields(mesh, location, coords, features, truth, notes, tuple(warnings))


def regions_of(recipe: Recipe, choices: InputChoices) -> tuple[str, ...]:
    return choices.regions or recipe.patches or (INTERNAL,)


def _read(source: Any, recipe: Recipe, location: Location, choices: InputChoices) -> Mesh:
    """The mesh with the arrays that features are read from, and those with the truth."""
    if not isinstance(source, str | Path):
        return mesh_of(source)
    path = Path(source)
    regions = regions_of(recipe, choices)
    held = info_of_file(path, regions=regions).arrays
    needed = [
        wanted
        for feature in recipe.features
        if isinstance(feature.made, ArraySource)
        for wanted in _wanted(feature.made)
    ]
    needed += [
        Wanted(feature.name, location, feature.components)
        for feature in recipe.features
        if feature.made.kind == "given"
    ]
    for wanted in needed:
        _resolved(wanted, held, path.name, recipe)
    truth = [w for t in recipe.targets if t.array is not None for w in _wanted(t.array)]
    return read_mesh(path, [*needed, *(w for w in truth if _has(w, held))], regions=regions)


def _resolved(wanted: Wanted, held: Any, file: str, recipe: Recipe) -> None:
    try:
        resolve(wanted, held, file)
    except ValueError as error:
        for feature in recipe.features:
            reads = isinstance(feature.made, ArraySource) and wanted in _wanted(feature.made)
            if reads or feature.name == wanted.name:
                what = named(feature.name, feature.unit, feature.components)
                raise ValueError(f"{error}: the model takes {what} from it") from None
        raise


def _wanted(source: ArraySource) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(name.removesuffix("*"), source.location, source.components, name.endswith("*"))
        for name in source.arrays
    )


def _has(wanted: Wanted, held: Any) -> bool:
    try:
        resolve(wanted, held, "")
    except ValueError:
        return False
    return True


def _array(mesh: Mesh, source: ArraySource) -> NDArray[Any]:
    columns = [np.asarray(mesh.array(wanted), np.float64) for wanted in _wanted(source)]
    values = columns[0] if len(columns) == 1 else np.stack(columns, 1)
    if not any(source.subtract) and source.scale == 1:
        return values
    offset = source.subtract if len(source.subtract) > 1 else (*source.subtract, 0.0)[0]
    return np.asarray((values - np.asarray(offset)) * source.scale)


def _truth(mesh: Mesh, location: Location, target: TargetRecipe) -> NDArray[Any] | None:
    """True values of a target, where the mesh has them at the rows that are predicted."""
    source = target.array
    if source is None or source.location != location:
        return None
    if not all(_has(wanted, mesh.info.arrays) for wanted in _wanted(source)):
        return None
    values = _array(mesh, source).reshape(-1, target.components)
    return values if np.isfinite(values).all() else None


class _Features:
    """Makes the features of one mesh, and collects what must be said about them."""

    def __init__(
        self,
        mesh: Mesh,
        location: Location,
        places: NDArray[Any],
        recipe: Recipe,
        choices: InputChoices,
    ) -> None:
        self.mesh, self.location, self.places = mesh, location, places
        self.recipe, self.choices = recipe, choices
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def value(self, feature: FeatureRecipe) -> Any:
        given = self.choices.parameters
        if feature.name in given:
            return _numbers(feature, given[feature.name])
        made = feature.made
        if isinstance(made, ParameterSource):
            return self._constant(feature)
        if isinstance(made, ComputedSource):
            return self._normals() if made.what == "normals" else self._distance(feature)
        if isinstance(made, ArraySource):
            return self._at_rows(_array(self.mesh, made), made.location, feature)
        wanted = Wanted(feature.name, self.location, feature.components)
        return np.asarray(self.mesh.array(wanted), np.float64)

    def _constant(self, feature: FeatureRecipe) -> Any:
        """A parameter that is not given: known only where it never changed in training."""
        what = named(feature.name, feature.unit, feature.components)
        if not feature.constant:
            ranges = range_text(feature.low, feature.high)
            raise ValueError(
                f"the parameter {what} must be given (--set {feature.name}=VALUE), got none;"
                f" in training it was {ranges}"
            )
        self.notes.append(f"{what} is {range_text(feature.low, feature.high)}, as in all training")
        return np.asarray(feature.low) if feature.components > 1 else feature.low[0]

    def _normals(self) -> NDArray[Any]:
        found = outward_normals(self.mesh, self.location)
        normals = -found.normals if self.choices.flip_normals else found.normals
        if found.turned:
            self.notes.append(f"faces on {found.turned:.1%} of the area were turned outward")
        if found.undecided:
            sentence = (
                f"the outer side of {self.mesh.name} is not known on {found.undecided:.1%} of its"
                " area"
            )
            decided = self.choices.accept_undecided or self.choices.flip_normals
            if found.undecided > MOST_UNDECIDED and not decided:
                raise ValueError(
                    f"{sentence}, at most {MOST_UNDECIDED:.0%} may be: --accept-undecided takes the"
                    " faces as they turn, --flip-normals the other side"
                )
            self.warnings.append(sentence)
        return normals

    def _distance(self, feature: FeatureRecipe) -> NDArray[Any]:
        if self.choices.surface is None:
            raise ValueError(
                f"{named(feature.name, feature.unit, 1)} must be had from a surface (--surface"
                f" FILE), got none: it is {how_made(feature, self.recipe)}"
            )
        points, triangles = read_mesh(self.choices.surface).triangles()
        scaled = np.asarray(points, np.float64) * self.choices.scale
        return NearestTriangle(scaled, triangles).distance(self.places)

    def _at_rows(
        self, values: NDArray[Any], location: Location, feature: FeatureRecipe
    ) -> NDArray[Any]:
        if location != self.location:
            raise ValueError(
                f"{feature.name} must be {self.location} data like the rows of the model, got"
                f" {location} data"
            )
        return values


def _numbers(feature: FeatureRecipe, given: Any) -> Any:
    try:
        numbers = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        numbers = np.asarray(np.nan)
    if numbers.size != feature.components or numbers.ndim > 1 or not np.isfinite(numbers).all():
        what = named(feature.name, feature.unit, feature.components)
        many = "a finite number" if feature.components == 1 else f"{feature.components} numbers"
        raise ValueError(f"the parameter {what} must be {many}, got {given!r}")
    return float(numbers.reshape(-1)[0]) if feature.components == 1 else numbers


def _check_parameters(recipe: Recipe, choices: InputChoices) -> None:
    names = [feature.name for feature in recipe.features]
    unknown = [name for name in choices.parameters if name not in names]
    if unknown:
        taken = ", ".join(_settable(recipe)) or "none"
        raise ValueError(f"a parameter must be one of {taken}, got {unknown[0]!r}")
    if not choices.scale > 0:
        raise ValueError(f"scale must be a positive number, got {choices.scale}")


def _settable(recipe: Recipe) -> Iterator[str]:
    for feature in recipe.parameters:
        yield feature.name


def _coords(places: NDArray[Any], recipe: Recipe, choices: InputChoices, file: str) -> NDArray[Any]:
    coords = places * choices.scale
    if recipe.coords.subtract:
        coords = coords - np.asarray(recipe.coords.subtract)
    width = len(recipe.coords.low)
    if width < 3 and np.ptp(coords[:, width:], axis=0).any():
        raise ValueError(
            f"{file} must lie in a plane of constant z for a model of {width} coordinates, got one"
            f" that extends by {np.ptp(coords[:, width:]):.6g}"
        )
    return np.ascontiguousarray(coords[:, :width])


def _check_finite(file: str, what: str, values: NDArray[Any]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        rows = finite.reshape(len(finite), -1).all(1) if finite.ndim else finite[None]
        raise ValueError(
            f"{what} of {file} must be finite, got {int((~rows).sum()):,} of {len(rows):,} that are"
            f" not, the first at {int(np.flatnonzero(~rows)[0])}"
        )


def as_regions(patterns: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(patterns or ())
