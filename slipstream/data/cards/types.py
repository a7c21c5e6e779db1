"""The content of a checked card: the fields of a store and where their values come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slipstream.core.schemas import parsed
from slipstream.data.meshes import Location, Wanted
from slipstream.data.store import Computed, Field, Schema

SCHEMA = 1

MatchBy = Literal["order", "coordinates"]
Corner = tuple[float | None, float | None, float | None]
ReferenceValue = float | str | tuple[float, ...]
"""A number, the name of a parameter or axis, or a vector."""


@dataclass(frozen=True)
class ArrayValue:
    """Values of one array, or of several with one component each: (array - subtract) * scale."""

    file: str
    arrays: tuple[str, ...]
    """A name that ends with * is the beginning of one, unless an array has exactly this name."""
    components: int
    """Components of each of the arrays."""
    location: Location
    subtract: tuple[float, ...]
    """One number, or one for each component."""
    scale: float

    def wanted(self) -> tuple[Wanted, ...]:
        return tuple(
            Wanted(name.removesuffix("*"), self.location, self.components, name.endswith("*"))
            for name in self.arrays
        )


@dataclass(frozen=True)
class ComputedValue:
    """The normals of the surface that holds the rows, or the distance to that of another file."""

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
    """A table with a row for each sample, whose id is in the column `id`; or, where `id` is None,
    one file for each sample."""

    file: str
    id: str | None
    id_pattern: str | None = None
    """How the table writes the ids, as "run_{id}"; None where it writes them as they are."""


@dataclass(frozen=True)
class SplitRule:
    """Fractions by which to draw the splits, or the ids of each split."""

    fractions: Mapping[str, float] | None
    lists: Mapping[str, tuple[str, ...]] | None
    seed: int


@dataclass(frozen=True)
class Card:
    name: str
    files: Mapping[str, str]
    """Name -> pattern."""
    match: MatchBy
    location: Location
    patches: tuple[str, ...]
    """Patches of OpenFOAM cases from which rows are read, instead of the volume."""
    coords: Field
    features: tuple[Entry, ...]
    targets: tuple[Entry, ...]
    parameters: tuple[ParameterFile, ...]
    box: tuple[Corner, Corner] | None
    """Lowest and highest corner of the points that are kept; a None inside leaves a side open."""
    drop: bool
    """Whether points with NaN or infinite values are left out, instead of the whole sample."""
    splits: SplitRule | None
    subtract: tuple[float, ...] = ()
    """Subtracted from the coordinates of rows, one number or three; the box is in the file's
    coordinates."""
    reference: Mapping[str, ReferenceValue] | None = None
    """What forces are made coefficients with (reference.py); None where the card does not say."""

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
        """All that a sample's rows depend on: everything but the splits."""
        value = {"schema": SCHEMA, **asdict(self)}
        del value["splits"]
        value["coords"] = self.coords.identity()
        for part in ("features", "targets"):
            for entry, held in zip(value[part], getattr(self, part), strict=True):
                entry["field"] = held.field.identity()
        if not self.subtract:  # older stores lack these three keys, and must stay the same
            del value["subtract"]
        if self.reference is None:
            del value["reference"]
        for file in value["parameters"]:
            if file["id_pattern"] is None:
                del file["id_pattern"]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Card:
        """The card without its splits; ValueError unless the value is what `to_json` returns.

        The options of a store whose meshes were generated have the key `generator` besides.
        """
        written = {"subtract": [], "reference": None, **value, "splits": None}
        for key in ("schema", "generator"):
            written.pop(key, None)
        files = written.get("parameters")
        if isinstance(files, (list, tuple)):
            written["parameters"] = [
                {"id_pattern": None, **file} if isinstance(file, Mapping) else file
                for file in files
            ]
        return parsed(cls, written, place="card")
