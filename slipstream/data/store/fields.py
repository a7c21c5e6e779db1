"""Named fields with units and groups, and the schema that orders them into columns.

A row of a sample is `coords | features | targets`, each part a sequence of fields, each field one
or more columns. All counts and column ranges are computed from the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.schemas import YOUNGER, parsed
from slipstream.data.store.references import Reference

PARTS = ("coords", "features", "targets")

Computed = Literal["normals", "distance"]
"""Unit normals of the surface that the points are on; the distance of the points to a surface."""
_WIDTHS: Mapping[str, int] = {"normals": 3, "distance": 1}
_OLD_NAMES = {"normals": ("normal", "normals"), "distance": ("signed_distance", "distance")}
"""What features were called in stores and models that do not say what was computed."""


@dataclass(frozen=True)
class Field:
    """One quantity at a point, as in Field("velocity", "m/s", components=3)."""

    name: str
    unit: str = "1"
    """The unit, as written in SI; "1" for a quantity without one."""
    group: str | None = ""
    """Fields of one group share a line of the metric; by default a field is its own group. None
    for a target that neither loss nor metric counts."""
    components: int = 1
    computed: Computed | None = dataclasses.field(default=None, metadata=YOUNGER)
    """What the values were computed as from the geometry; None for all others. It describes the
    values and does not change them, so it is no part of the identity of data (`identity`)."""
    divided: Reference | None = dataclasses.field(default=None, metadata=YOUNGER)
    """What the values of a target were divided by, sample by sample; None for all others."""

    def __post_init__(self) -> None:
        for what in ("name", "unit"):
            value = getattr(self, what)
            if not isinstance(value, str) or not value.strip() or not value.isprintable():
                raise ValueError(f"the {what} of a field must be printable text, got {value!r}")
        check_whole(f"components of field {self.name!r}", self.components, 1)
        if self.group == "":
            object.__setattr__(self, "group", self.name)
        if self.computed is not None:
            check_choice(f"computed of field {self.name!r}", self.computed, get_args(Computed))
            width = _WIDTHS[self.computed]
            if self.components != width:
                raise ValueError(
                    f"components of field {self.name!r} must be {width} for computed"
                    f" {self.computed}, got {self.components}"
                )

    @property
    def channels(self) -> tuple[str, ...]:
        """A name for each column: the field's own, or "velocity[0]", "velocity[1]", ..."""
        if self.components == 1:
            return (self.name,)
        return tuple(f"{self.name}[{i}]" for i in range(self.components))

    @property
    def undivided_unit(self) -> str:
        """The unit of the values before they were divided, which is mostly that of the field."""
        return self.divided.unit if self.divided else self.unit

    def identity(self) -> dict[str, Any]:
        """As JSON, all that the values depend on."""
        names = ("name", "unit", "group", "components")
        value = {name: getattr(self, name) for name in names}
        return value | ({"divided": self.divided.to_json()} if self.divided else {})

    def to_json(self) -> dict[str, Any]:
        """As JSON; a key that not every field has is absent where there is nothing to say."""
        return self.identity() | ({"computed": self.computed} if self.computed else {})


@dataclass(frozen=True)
class Schema:
    """Which fields a sample has, in the order of their columns.

    Field names are unique, and not those of the parts.
    """

    coords: tuple[Field, ...]
    features: tuple[Field, ...]
    targets: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"field names must be unique, got {', '.join(twice)} more than once")
        parts = [name for name in names if name in PARTS]
        if parts:
            raise ValueError(
                f"field names must be other than {', '.join(PARTS)}, which are the parts of a row,"
                f" got {parts[0]!r}"
            )
        if not self.coords:
            raise ValueError("a schema must have at least one field of coords, got none")
        scalars = [field.name for field in self.features if field.components == 1]
        for field in self.fields:
            for name in field.divided.by if field.divided else ():
                if field not in self.targets:
                    raise ValueError(f"a field that is divided must be a target, got {field.name}")
                if name not in scalars:
                    raise ValueError(
                        f"{field.name} must be divided by features with one component"
                        f" ({', '.join(scalars) or 'none'}), got {name!r}"
                    )

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.coords, *self.features, *self.targets)

    @property
    def coord_dim(self) -> int:
        return _count(self.coords)

    @property
    def feature_dim(self) -> int:
        return _count(self.features)

    @property
    def target_dim(self) -> int:
        return _count(self.targets)

    @property
    def width(self) -> int:
        """Columns of a row."""
        return _count(self.fields)

    @property
    def channels(self) -> tuple[str, ...]:
        """A name for each column."""
        return tuple(name for field in self.fields for name in field.channels)

    def field(self, name: str) -> Field:
        check_choice("field", name, [field.name for field in self.fields])
        return next(field for field in self.fields if field.name == name)

    def columns(self, name: str) -> slice:
        """The columns of a field, or of a whole part: "coords", "features" or "targets"."""
        if name in PARTS:
            start = _count(f for part in PARTS[: PARTS.index(name)] for f in getattr(self, part))
            return slice(start, start + _count(getattr(self, name)))
        field = self.field(name)
        start = _count(self.fields[: self.fields.index(field)])
        return slice(start, start + field.components)

    def computed(self, what: Computed) -> Field | None:
        """The first feature that was computed as `what`; None without one.

        Where no feature says so, as in older stores, models and predictions, names decide.
        """
        for field in self.features:
            if field.computed == what:
                return field
        for field in self.features:
            named = field.name in _OLD_NAMES[what] and field.components == _WIDTHS[what]
            if named and field.computed is None:
                return field
        return None

    def undivided(self, targets: Any, features: Any) -> Any:
        """Targets (..., K) as they were before they were divided, from the features (..., F) at the
        same points; arrays or tensors. Targets that were not divided stay as they are."""
        if not any(field.divided for field in self.targets):
            return targets
        first, start = self.columns("features").start, self.columns("targets").start
        values = targets * 1  # a copy
        for field in self.targets:
            if field.divided is not None:
                at = {name: self.columns(name).start - first for name in field.divided.by}
                named = {name: features[..., k : k + 1] for name, k in at.items()}
                columns = self.columns(field.name)
                own = slice(columns.start - start, columns.stop - start)
                values[..., own] = values[..., own] * field.divided.value(named)
        return values

    @property
    def target_groups(self) -> dict[str, tuple[int, ...]]:
        """Target channels by group, counted from the first target, as the metric takes them."""
        groups: dict[str, tuple[int, ...]] = {}
        first = 0
        for field in self.targets:
            if field.group is not None:
                members = tuple(range(first, first + field.components))
                groups[field.group] = (*groups.get(field.group, ()), *members)
            first += field.components
        return groups

    def to_json(self) -> dict[str, Any]:
        return {part: [field.to_json() for field in getattr(self, part)] for part in PARTS}

    def identity(self) -> dict[str, Any]:
        """As JSON, all that the values of rows depend on."""
        return {part: [field.identity() for field in getattr(self, part)] for part in PARTS}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schema:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place="fields")


def _count(fields: Iterable[Field]) -> int:
    return sum(field.components for field in fields)
