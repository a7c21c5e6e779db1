"""What a card says, checked: the fields of a store of meshes and where their values come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slipstream.data.meshes import Location, Wanted
from slipstream.data.store import Field, Schema

SCHEMA = 1

Match = Literal["order", "coordinates"]
Computed = Literal["normals", "distance"]
Corner = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class ArrayValue:
    """Values of one array, or of several with one component each: (array - subtract) * scale."""

    file: str
    arrays: tuple[str, ...]
    """A name that ends with * is the beginning of one, where no array has it as it stands."""
    components: int
    """Of each of the arrays."""
    location: Location
    subtract: tuple[float, ...]
    """One number, or one a component."""
    scale: float

    def wanted(self) -> tuple[Wanted, ...]:
        return tuple(
            Wanted(name.removesuffix("*"), self.location, self.components, name.endswith("*"))
            for name in self.arrays
        )


@dataclass(frozen=True)
class ComputedValue:
    """The normals of the surface that the rows are on, or the distance to another file's."""

    what: Computed
    to: str | None


@dataclass(frozen=True)
class ParameterValue:
    """A number of the whole sample: `key` of the card's `source`-th parameter file."""

    source: int
    key: str


@dataclass(frozen=True)
class Entry:
    """One field of the store and where its values come from."""

    field: Field
    value: ArrayValue | ComputedValue | ParameterValue


@dataclass(frozen=True)
class ParameterFile:
    """A table with a row a sample, told apart by the column `id`, or one file for each sample."""

    file: str
    id: str | None


@dataclass(frozen=True)
class Splits:
    """Fractions to draw the splits by, or the ids of each."""

    fractions: Mapping[str, float] | None
    lists: Mapping[str, tuple[str, ...]] | None
    seed: int


@dataclass(frozen=True)
class Card:
    name: str
    files: Mapping[str, str]
    """Name -> pattern."""
    match: Match
    location: Location
    patches: tuple[str, ...]
    """Of OpenFOAM cases: rows are read from these instead of the volume."""
    coords: Field
    features: tuple[Entry, ...]
    targets: tuple[Entry, ...]
    parameters: tuple[ParameterFile, ...]
    box: tuple[Corner, Corner] | None
    """Lowest and highest corner of what is kept; None is open."""
    drop: bool
    """Whether points with NaN or infinite values are left out, instead of the whole sample."""
    splits: Splits | None
    subtract: tuple[float, ...] = ()
    """What the coordinates of rows are less by, one number or three; box and files are not."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*self.features, *self.targets)

    @property
    def schema(self) -> Schema:
        features = tuple(entry.field for entry in self.features)
        return Schema((self.coords,), features, tuple(entry.field for entry in self.targets))

    @property
    def array_files(self) -> tuple[str, ...]:
        """The files that rows are read from, in the card's order; the first one sets the order."""
        read = {e.value.file for e in self.entries if isinstance(e.value, ArrayValue)}
        return tuple(name for name in self.files if name in read)

    def wanted(self, file: str) -> tuple[Wanted, ...]:
        """The arrays that are read from a file."""
        values = [e.value for e in self.entries if isinstance(e.value, ArrayValue)]
        return tuple(want for v in values if v.file == file for want in v.wanted())

    def to_json(self) -> dict[str, Any]:
        """All that a sample's rows follow from: everything but the splits."""
        value = {"schema": SCHEMA, **asdict(self)}
        del value["splits"]
        if not self.subtract:  # as cards were before they could say it
            del value["subtract"]
        return value
