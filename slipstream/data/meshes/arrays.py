"""What a mesh file holds, what a reader wants of it, and how the two are matched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Location = Literal["point", "cell"]
LOCATIONS: tuple[Location, Location] = ("point", "cell")


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file, without its values."""

    name: str
    location: Location
    components: int
    rows: int
    dtype: str
    """As numpy names it: "float32"."""


@dataclass(frozen=True)
class MeshInfo:
    """What a file holds: counts, and its arrays of numbers."""

    points: int
    cells: int
    arrays: tuple[ArrayInfo, ...]

    def rows(self, location: Location) -> int:
        return self.points if location == "point" else self.cells


@dataclass(frozen=True)
class Wanted:
    """An array that a reader needs."""

    name: str
    location: Location
    components: int
    prefix: bool = False
    """The file's name only has to begin with `name`: units in odd letters may follow.

    Where the file has `name` with a * behind it, or `name` itself, that is the one.
    """


def resolve(wanted: Wanted, held: Iterable[ArrayInfo], file: str) -> ArrayInfo:
    """The array of `file` that is wanted, or ValueError saying what there is instead."""
    held = tuple(held)
    same = [info for info in held if wanted.prefix and info.name == f"{wanted.name}*"]
    if not same:
        same = [info for info in held if info.name == wanted.name]
    if not same and wanted.prefix:
        same = [info for info in held if info.name.startswith(wanted.name)]
    here = [info for info in same if info.location == wanted.location]
    what = f"{wanted.name!r}..." if wanted.prefix else f"{wanted.name!r}"
    if same and not here:
        raise ValueError(
            f"{file} must have {what} as {wanted.location} data, got it as {same[0].location} data"
        )
    if not here:
        raise ValueError(f"{file} must have {wanted.location} data {what}, got {listed(held)}")
    if len(here) > 1:
        names = ", ".join(repr(info.name) for info in here)
        raise ValueError(f"{file} must have one {wanted.location} array {what}, got {names}")
    if here[0].components != wanted.components:
        raise ValueError(
            f"{here[0].name!r} of {file} must have {_count(wanted.components, 'component')}, got"
            f" {here[0].components}"
        )
    return here[0]


def listed(held: Sequence[ArrayInfo]) -> str:
    """Arrays by location, in words."""
    parts = []
    for location in LOCATIONS:
        names = [repr(info.name) for info in held if info.location == location]
        if names:
            parts.append(f"{location} data {', '.join(names)}")
    return " and ".join(parts) or "no arrays"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def grid_size(along: Sequence[int]) -> tuple[int, int]:
    """Points and cells of a structured grid with so many points along each axis."""
    points = math.prod(max(0, count) for count in along)
    return points, math.prod(max(1, count - 1) for count in along) if points else 0


def as_text(raw: bytes | str) -> str:
    """Names as text: UTF-8, or Latin-1 where they are not that."""
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
