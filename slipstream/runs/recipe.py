"""How the inputs of a model are made, and what its outputs are: the recipe in a model file.

Schema 1, under `recipe` in the header of `model.safetensors` (model_file.py):

    schema      1
    data        source (name of the data), made_by (card, benchmark or program), data_hash, number
                of training samples
    location    where rows are in a mesh, point or cell; null where no mesh is known
    domain      whether rows are on a surface or in a volume; null where it is not known
    files       name -> pattern of the card's files; empty without a card
    patches     patches of an OpenFOAM case that rows were read from; empty for the whole mesh
    coords      names, units, what is subtracted from the coordinates of a file, box, extent
    features    for each: name, unit, components, range in training, and `made`: how it is made
    targets     for each: name, unit, components, range in training, the array it was read from,
                what it was divided by, what quantity it is and in which form
    points      points of a sample and of a draw of the training, their spacing, sizes of samples
    density     the density of the fluid, where it is known
    speed       the features that are the speed of the free stream, where they are known
    reference   reference values of the card; null where it has none

Ranges, extent and spacing are those of the training split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slipstream.core.schemas import Positive, parsed, shortened
from slipstream.data.meshes import Location
from slipstream.data.store import Computed, Field, Reference, Schema

SCHEMA = 1

MadeBy = Literal["card", "benchmark", "program"]
"""A card of the user's own meshes; the reader of a published benchmark; a program, as the built-in
problems are."""
Domain = Literal["surface", "volume"]
Quantity = Literal["pressure", "shear"]
Form = Literal["kinematic", "dimensional", "coefficient", "unknown"]
"""Divided by the density of the fluid (m^2/s^2), not divided (Pa), divided by a dynamic pressure
("1"), or none of these."""
Numbers = tuple[float, ...]
Corner = tuple[float | None, ...]


@dataclass(frozen=True)
class ArraySource:
    """Values that are read from a mesh: (array - subtract) * scale."""

    kind: Literal["array"]
    file: str | None
    """Which of the files of the recipe; None where it has none."""
    arrays: tuple[str, ...]
    """One array, or several with one component each. A name that ends with * is the beginning of
    one, unless an array has exactly this name."""
    components: Positive
    """Components of each of the arrays."""
    location: Location
    subtract: Numbers
    """One number, or one for each component."""
    scale: float


@dataclass(frozen=True)
class ComputedSource:
    """Values that are computed from the geometry."""

    kind: Literal["computed"]
    what: Computed
    """Unit normals of the surface that the rows are on, or their distance to a surface."""
    file: str | None
    """The file with the surface that the distance is to; None for normals, and where the recipe has
    no files."""


@dataclass(frozen=True)
class ParameterSource:
    """Numbers of the whole sample, the same at every point of it."""

    kind: Literal["parameter"]
    key: str
    """What the number was called where it was read, as the column of a table."""
    file: str | None
    """The pattern of the file that it was read from; None where it is not known."""


@dataclass(frozen=True)
class GivenSource:
    """Values that differ from point to point, of which it is not known how they are made."""

    kind: Literal["given"]


FeatureSource = ArraySource | ComputedSource | ParameterSource | GivenSource


@dataclass(frozen=True)
class FeatureRecipe:
    name: str
    unit: str
    components: Positive
    low: Numbers
    """The lowest value in training, for each component."""
    high: Numbers
    made: FeatureSource

    @property
    def is_parameter(self) -> bool:
        return isinstance(self.made, ParameterSource)

    @property
    def constant(self) -> bool:
        """Whether all values in training were the same."""
        return self.low == self.high


@dataclass(frozen=True)
class TargetRecipe:
    name: str
    unit: str
    """The unit as stored; predictions are undivided, in `undivided_unit`."""
    components: Positive
    low: Numbers
    """The lowest value in training as stored, for each component."""
    high: Numbers
    array: ArraySource | None
    """Where the true values were read from; None where that is not known."""
    divided: Reference | None
    """What the stored values were divided by, sample by sample."""
    quantity: Quantity | None
    """What it is, by its name; None for all others."""
    form: Form | None
    """Of a pressure or shear, by the unit of the undivided values; None for all others."""

    @property
    def undivided_unit(self) -> str:
        return self.divided.unit if self.divided else self.unit

    @property
    def arrays_as_read(self) -> tuple[str, ...]:
        """The names of its arrays; none where their sign was changed, or they are not known."""
        return self.array.arrays if self.array is not None and self.array.scale > 0 else ()

    def as_stored(self, value: float) -> float:
        """A value in the unit of the file's array, in that of the undivided target."""
        if self.array is None:
            return value
        offset = self.array.subtract[0] if self.array.subtract else 0.0
        return (value - offset) * self.array.scale


@dataclass(frozen=True)
class CoordinateRecipe:
    names: tuple[str, ...]
    units: tuple[str, ...]
    """One for each name."""
    subtract: Numbers
    """Subtracted from the coordinates of a file: no number, one, or one for each axis."""
    box: tuple[Corner, Corner] | None
    """Lowest and highest corner, in the coordinates of the file, of the points that were kept; None
    inside leaves a side open."""
    low: Numbers
    """Lowest corner of all training points, after subtracting."""
    high: Numbers


@dataclass(frozen=True)
class Counts:
    """Numbers of points of the training samples, or of draws from them."""

    least: Positive
    median: Positive
    most: Positive


@dataclass(frozen=True)
class PointsRecipe:
    sample: Counts
    """Points of a whole sample."""
    draw: Counts
    """Points that a training step saw of a sample."""
    sample_spacing: float | None
    """Median distance from a point to the nearest other one in a whole sample; None where there is
    none. In the unit of the coordinates."""
    draw_spacing: float | None
    """The same among the points of a draw."""
    exact: bool
    """Whether all points of the samples were looked at. If not, `sample_spacing` is that of equally
    dense points at random places; that of a regular mesh is up to 2.1 times as large on a surface
    and 1.8 times in a volume."""
    dimension: Positive
    """Of what the points fill: 2 for a surface, 3 for a volume. Spacing is scaled by it."""
    smallest: float
    """Diagonal of the bounding box of the smallest training sample."""
    largest: float


@dataclass(frozen=True)
class DataRecipe:
    source: str
    made_by: MadeBy
    data_hash: str
    samples: Positive
    """Number of training samples."""


@dataclass(frozen=True)
class Density:
    """The density of the fluid: a feature of the model, or a number that does not change."""

    feature: str | None
    value: float | None


@dataclass(frozen=True)
class Recipe:
    schema: Positive
    data: DataRecipe
    location: Location | None
    domain: Domain | None
    files: Mapping[str, str]
    patches: tuple[str, ...]
    coords: CoordinateRecipe
    features: tuple[FeatureRecipe, ...]
    targets: tuple[TargetRecipe, ...]
    points: PointsRecipe
    density: Density | None
    speed: tuple[str, ...]
    """One feature with the speed or the vector of the free stream, or three with its components."""
    reference: Mapping[str, float | str | tuple[float, ...]] | None

    @property
    def parameters(self) -> tuple[FeatureRecipe, ...]:
        """The features that are one number, or a few, of a whole sample."""
        return tuple(feature for feature in self.features if feature.is_parameter)

    def feature(self, name: str) -> FeatureRecipe:
        return next(feature for feature in self.features if feature.name == name)

    def target_of(self, quantity: Quantity) -> TargetRecipe | None:
        """The first target that is a pressure of one component, or a shear of three."""
        components = 1 if quantity == "pressure" else 3
        fitting = (t for t in self.targets if (t.quantity, t.components) == (quantity, components))
        return next(fitting, None)

    def target(self, name: str) -> TargetRecipe:
        return next(target for target in self.targets if target.name == name)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Recipe:
        """Raises ValueError where the value is not what `to_json` returns."""
        check_version(value)
        return parsed(cls, value, place="recipe")

    def check(self, schema: Schema) -> None:
        """Raise ValueError where the recipe is not of these fields, or names what it lacks."""
        _check_fields("features", self.features, schema.features)
        _check_fields("targets", self.targets, schema.targets)
        names = tuple(field.name for field in schema.coords)
        if self.coords.names != names:
            raise ValueError(
                f"recipe.coords.names must be {', '.join(names)}, got"
                f" {', '.join(self.coords.names)}"
            )
        if len(self.coords.units) != len(names):
            raise ValueError(
                f"recipe.coords.units must be {len(names)}, got {len(self.coords.units)}"
            )
        _check_lengths("coords", self.coords.low, self.coords.high, schema.coord_dim)
        self._check_names([field.name for field in schema.features])

    def _check_names(self, features: list[str]) -> None:
        made = [feature.made for feature in self.features]
        sources = [*made, *(target.array for target in self.targets)]
        for source in sources:
            if isinstance(source, ArraySource | ComputedSource) and source.file is not None:
                _check_known("a file of the recipe", source.file, self.files)
        known = self.density.feature if self.density else None
        for name in (*([known] if known is not None else []), *self.speed):
            _check_known("a feature of the recipe", name, features)


def check_version(value: Any) -> None:
    """Raise ValueError where the JSON of a recipe is of a newer version."""
    version = value.get("schema") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > SCHEMA:
        raise ValueError(
            f"recipe.schema must be at most {SCHEMA}, got {shortened(version)}: a newer slipstream"
            " wrote it"
        )


def _check_known(what: str, name: str, known: Any) -> None:
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known) or 'none'}, got {name!r}")


def _check_fields(part: str, recipes: Any, fields: tuple[Field, ...]) -> None:
    got = [(recipe.name, recipe.unit, recipe.components) for recipe in recipes]
    expected = [(field.name, field.unit, field.components) for field in fields]
    if got != expected:
        texts = [
            ", ".join(f"{name} [{unit}] x {count}" for name, unit, count in each) or "none"
            for each in (expected, got)
        ]
        raise ValueError(f"recipe.{part} must be {texts[0]}, got {texts[1]}")
    for recipe, field in zip(recipes, fields, strict=True):
        _check_lengths(recipe.name, recipe.low, recipe.high, field.components)
        if isinstance(recipe, TargetRecipe) and recipe.divided != field.divided:
            raise ValueError(
                f"recipe: {field.name} must be divided by {field.divided or 'nothing'}, got"
                f" {recipe.divided or 'nothing'}"
            )


def _check_lengths(name: str, low: Numbers, high: Numbers, count: int) -> None:
    for what, numbers in (("low", low), ("high", high)):
        if len(numbers) != count:
            raise ValueError(
                f"recipe: {what} of {name} must be {count} numbers, got {len(numbers)}"
            )
