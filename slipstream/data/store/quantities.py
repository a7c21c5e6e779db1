"""The quantities of a store as a physicist counts them, for statements about samples.

A field is a quantity, with these exceptions: coordinates of one unit are one, as x and y in m; the
states of a trajectory, velocity@0, velocity@1 and so on, are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slipstream.data.store.fields import PARTS, Field
from slipstream.data.store.manifest import Origin
from slipstream.data.store.pairs import PAIRS_OPTION


@dataclass(frozen=True)
class Quantity:
    name: str
    part: str
    """coords, features or targets."""
    unit: str
    columns: tuple[int, ...]
    group: str | None
    """Targets of a group share a line of loss and metric; None for one that does not count."""


def quantities(origin: Origin) -> list[Quantity]:
    """All quantities, in the order of their first columns."""
    keyed: dict[tuple[str, str], list[tuple[Field, Iterable[int]]]] = {}
    for part, field, columns in _fields(origin):
        if part == "coords":
            key = (part, field.unit)
        elif PAIRS_OPTION in origin.options:
            key = (part, field.name.rpartition("@")[0] or field.name)
        else:
            key = (part, field.name)
        keyed.setdefault(key, []).append((field, columns))
    return [
        Quantity(
            ", ".join(field.name for field, _ in members) if part == "coords" else name,
            part,
            members[0][0].unit,
            tuple(column for _, columns in members for column in columns),
            members[0][0].group,
        )
        for (part, name), members in keyed.items()
    ]


def _fields(origin: Origin) -> Iterator[tuple[str, Field, range]]:
    first = 0
    for part in PARTS:
        for field in getattr(origin.schema, part):
            yield part, field, range(first, first + field.components)
            first += field.components
