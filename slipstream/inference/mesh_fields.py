"""From a mesh to the inputs of a model, by the recipe that the model carries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import NearestTriangle, in_box, outward_normals
from slipstream.data.meshes import INTERNAL, Location, Mesh, read_mesh
from slipstream.inference.mesh_reading import feature_values, read_for, truth_of
from slipstream.inference.oddities import (
    check_scale,
    few_points,
    never_learned,
    unusual_features,
    unusual_parameters,
    unusual_places,
)
from slipstream.runs.recipe import ComputedSource, FeatureRecipe, ParameterSource, Recipe
from slipstream.runs.recipe_text import how_made, named, range_text
from slipstream.runs.streaming import PhysicalPoints

MOST_UNDECIDED = 0.2
"""The largest share of a surface's area whose outer side may be unknown."""
Rows = NDArray[np.intp]


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
    """Whether computed normals take the other side than was found."""
    accept_undecided: bool = False
    """Whether a surface may be predicted on whose outer side is not known."""


@dataclass(frozen=True, eq=False)
class MeshFields:
    """The inputs of a model at the rows of a mesh, and its truth where the mesh has it."""

    mesh: Mesh
    location: Location
    rows: int
    """Points or cells of the mesh."""
    kept: Rows | None
    """Those that are predicted, (N,); None for all. The others are outside of the box of the
    training, or have no normal."""
    coords: NDArray[Any]
    """As the model takes them, (N, d)."""
    features: Mapping[str, Any]
    """By name: values at the kept rows, or numbers that all share."""
    truth: Mapping[str, NDArray[Any]]
    """True values of targets that the mesh carries, undivided, at all rows, by name."""
    notes: tuple[str, ...]
    """What was assumed."""
    warnings: tuple[str, ...]
    """What may make the prediction wrong."""
    oddities: tuple[str, ...]
    """Those of the warnings by which the mesh is unlike the training's."""
    choices: InputChoices
    outside: int
    """Rows that are outside of the box of the training."""

    @property
    def points(self) -> int:
        """The number of rows that are predicted."""
        return len(self.coords)

    def at_all_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values at the predicted rows, with NaN at the others."""
        if self.kept is None:
            return values
        spread = np.full((self.rows, *values.shape[1:]), np.nan, values.dtype)
        spread[self.kept] = values
        return spread

    def as_points(self, chosen: Rows | None = None) -> PhysicalPoints:
        """The predicted rows, or some of them, as a trained model takes them."""
        if chosen is None:
            return PhysicalPoints.of(self.coords, dict(self.features) or None)
        features = {
            name: values[chosen] if np.ndim(values) and len(values) == self.points else values
            for name, values in self.features.items()
        }
        return PhysicalPoints.of(self.coords[chosen], features or None)


def mesh_fields(
    source: Any, recipe: Recipe, choices: InputChoices, *, asked: bool = False
) -> MeshFields:
    """Read a mesh (a path, or an object in memory) and make the inputs that the recipe asks for.

    `asked` are points at which a flow is asked that other points determine: they may be few, and
    are always points. Raises ValueError naming what the mesh or the choices lack.
    """
    _check_choices(recipe, choices)
    location: Location = "point" if asked else recipe.location or choices.location or "point"
    mesh = read_for(source, recipe, location, regions_of(recipe, choices))
    places = np.asarray(mesh.locations(location), np.float64)
    if not len(places):
        raise ValueError(f"{mesh.name} must have at least one {location}, got none")
    _check_finite(mesh.name, f"coordinates of its {location}s", places)
    making = _Making(mesh, location, places * choices.scale, recipe, choices)
    if not (asked or recipe.location or choices.location):
        making.notes.append("fields are at points: the training does not say where (--location)")
    if choices.scale != 1:
        making.notes.append(
            f"the model takes coordinates times {choices.scale:g}, the output has those of the mesh"
        )
    coords = making.coords()
    if not asked:
        check_scale(coords, recipe, mesh.name)
    features = making.features()
    truth = {t.name: v for t in recipe.targets if (v := truth_of(mesh, t, location)) is not None}
    parameters = {f.name: features[f.name] for f in recipe.parameters}
    kept = coords if making.kept is None else coords[making.kept]
    odd = [
        *(() if asked else few_points(len(coords), recipe, mesh.name)),
        *unusual_places(coords, recipe, mesh.name),
        *unusual_parameters(parameters, recipe),
        *(() if asked else unusual_features(features, recipe, mesh.name)),
    ]
    warnings = [*making.warnings, *odd, *never_learned(recipe)]
    return MeshFields(
        mesh,
        location,
        len(places),
        making.kept,
        kept,
        features,
        truth,
        tuple(making.notes),
        tuple(warnings),
        (*making.odd, *odd),
        choices,
        making.outside,
    )


def regions_of(recipe: Recipe, choices: InputChoices) -> tuple[str, ...]:
    return choices.regions or recipe.patches or (INTERNAL,)


class _Making:
    """Makes the inputs at the rows of one mesh, and collects what must be said about them."""

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
        self.kept: Rows | None = None
        self.outside = 0
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.odd: list[str] = []

    def coords(self) -> NDArray[Any]:
        """The coordinates that the model takes, at all rows."""
        known = self.recipe.coords
        coords = self.places
        if known.subtract:
            coords = coords - np.asarray(known.subtract)
        width = len(known.low)
        if width < 3 and np.ptp(coords[:, width:], axis=0).any():
            raise ValueError(
                f"{self.mesh.name} must lie in a plane of constant z for a model of {width}"
                f" coordinates, got one that extends by {np.ptp(coords[:, width:]):.6g}"
            )
        return np.ascontiguousarray(coords[:, :width])

    def features(self) -> dict[str, Any]:
        """The features by name, at the rows that are kept, which are chosen here."""
        kept = self._in_box()
        features = {f.name: self._value(f) for f in self.recipe.features if not _needs_rows(f)}
        for feature in self.recipe.features:
            if isinstance(feature.made, ComputedSource) and feature.made.what == "normals":
                kept &= self._with_normal(features[feature.name], kept)
        self.kept = None if kept.all() else np.flatnonzero(kept)
        for name, values in features.items():
            own = np.asarray(values)
            at_rows = own.ndim and len(own) == len(self.places) and not self._is_parameter(name)
            features[name] = own[self.kept] if at_rows and self.kept is not None else values
            _check_finite(self.mesh.name, name, np.asarray(features[name]))
        for feature in self.recipe.features:
            if _needs_rows(feature):
                features[feature.name] = self._value(feature)
        return {feature.name: features[feature.name] for feature in self.recipe.features}

    def _is_parameter(self, name: str) -> bool:
        return name in self.choices.parameters or self.recipe.feature(name).is_parameter

    def _in_box(self) -> NDArray[np.bool_]:
        """The rows in the box of the training: no others took part in it."""
        box = self.recipe.coords.box
        if box is None:
            return np.ones(len(self.places), bool)
        low = [-math.inf if x is None else x for x in box[0]]
        kept = in_box(self.places, low, [math.inf if x is None else x for x in box[1]])
        if not kept.any():
            raise ValueError(
                f"{self.mesh.name} must have {self.location}s in the box of the training, got none"
            )
        self.outside = int((~kept).sum())
        if self.outside:
            self.notes.append(
                f"{self.outside:,} of {len(kept):,} {self.location}s are outside of the box"
                " of the training: not predicted"
            )
        return kept

    def _with_normal(self, normals: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = ~np.isnan(normals).any(1)
        missing = int((kept & ~known).sum())
        if missing == kept.sum():
            raise ValueError(
                f"{self.mesh.name} must have faces, of which the model takes normals, got none"
            )
        if missing:
            self.warnings.append(
                f"{missing:,} of {len(known):,} {self.location}s of {self.mesh.name} have no normal"
                " (no face with an area is there): not predicted"
            )
        return known

    def _value(self, feature: FeatureRecipe) -> Any:
        given = self.choices.parameters
        if feature.name in given:
            return _numbers(feature, given[feature.name])
        made = feature.made
        if isinstance(made, ParameterSource):
            return self._constant(feature)
        if isinstance(made, ComputedSource):
            return self._normals() if made.what == "normals" else self._distance(feature)
        return feature_values(self.mesh, feature, self.location)

    def _constant(self, feature: FeatureRecipe) -> Any:
        """A parameter that is not given: known only where it never changed in training."""
        what = named(feature.name, feature.unit, feature.components)
        ranges = range_text(feature.low, feature.high)
        if not feature.constant:
            value = "VALUE" if feature.components == 1 else "'[VALUE, ...]'"
            raise ValueError(
                f"the parameter {what} must be given (--set {feature.name}={value}), got none; in"
                f" training it was {ranges}"
            )
        self.notes.append(f"{what} is taken as in all of the training: {ranges}")
        return np.asarray(feature.low) if feature.components > 1 else feature.low[0]

    def _normals(self) -> NDArray[Any]:
        outward = outward_normals(self.mesh, self.location, lenient=True)
        if outward.turned:
            self.notes.append(f"faces on {outward.turned:.1%} of the area were turned outward")
        if outward.around:
            self.warnings.append(
                f"{outward.around:.1%} of the area of {self.mesh.name} is taken for a tunnel or far"
                " field around the bodies: its normals point inward"
            )
        if outward.undecided:
            self._judge(outward.undecided)
        return -outward.normals if self.choices.flip_normals else outward.normals

    def _judge(self, undecided: float) -> None:
        sentence = f"the outer side of {self.mesh.name} is not known on {undecided:.1%} of its area"
        decided = self.choices.accept_undecided or self.choices.flip_normals
        if undecided > MOST_UNDECIDED and not decided:
            raise ValueError(
                f"{sentence}, at most {MOST_UNDECIDED:.0%} may be: --accept-undecided takes the"
                " faces there as they turn, --flip-normals the other side"
            )
        self.warnings.append(sentence)
        if undecided > MOST_UNDECIDED:
            self.odd.append(sentence)

    def _distance(self, feature: FeatureRecipe) -> NDArray[Any]:
        if self.choices.surface is None:
            raise ValueError(
                f"{named(feature.name, feature.unit, 1)} must be had from a surface (--surface"
                f" FILE), got none: it is {how_made(feature, self.recipe)}"
            )
        points, triangles = read_mesh(self.choices.surface).triangles()
        scaled = np.asarray(points, np.float64) * self.choices.scale
        places = self.places if self.kept is None else self.places[self.kept]
        return NearestTriangle(scaled, triangles).distance(places)


def _needs_rows(feature: FeatureRecipe) -> bool:
    """Whether it is computed for the kept rows alone: distances take long."""
    return isinstance(feature.made, ComputedSource) and feature.made.what == "distance"


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


def _check_choices(recipe: Recipe, choices: InputChoices) -> None:
    names = [feature.name for feature in recipe.parameters]
    unknown = [name for name in choices.parameters if name not in names]
    if unknown:
        raise ValueError(
            f"a parameter must be one of {', '.join(names) or 'none, as the model takes none'}, got"
            f" {unknown[0]!r}"
        )
    scale = choices.scale
    if not (isinstance(scale, int | float) and scale > 0 and math.isfinite(scale)):
        raise ValueError(f"scale must be a positive number, got {scale!r}")
    if choices.location not in (None, "point", "cell"):
        raise ValueError(f"location must be point or cell, got {choices.location!r}")
    if recipe.location and choices.location and recipe.location != choices.location:
        raise ValueError(
            f"location must be {recipe.location}, as in the training, got {choices.location}"
        )


def _check_finite(file: str, what: str, values: NDArray[Any]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        rows = finite.reshape(len(finite), -1).all(1) if finite.ndim else finite[None]
        raise ValueError(
            f"{what} of {file} must be finite, got {int((~rows).sum()):,} of {len(rows):,} that are"
            f" not, the first at {int(np.flatnonzero(~rows)[0])}"
        )
