"""The arrays that a mesh file holds, those that a reader wants, and how the two are matched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Location = Literal["point", "cell"]
LOCATIONS: tuple[Location, Location] = ("point", "cell")
_MOST = 10_000  # arrays of a file; some steps compare each with all others


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file, without its values."""

    name: str
    location: Location
    components: int
    rows: int
    dtype: str
    """The name in numpy, as in "float32"."""


@dataclass(frozen=True)
class MeshInfo:
    """The contents of a file: numbers of points and cells, and its arrays of numbers."""

    points: int
    cells: int
    arrays: tuple[ArrayInfo, ...]

    def rows(self, location: Location) -> int:
        return self.points if location == "point" else self.cells


def check_array_count(count: int) -> None:
    """Raise if a file has too many arrays; the caller adds its name."""
    if count > _MOST:
        raise ValueError(f"more than {_MOST:,} arrays")


@dataclass(frozen=True)
class Wanted:
    """An array that a reader needs."""

    name: str
    location: Location
    components: int
    prefix: bool = False
    """Whether the array's name in the file need only begin with `name`, as where a unit follows.

    An array named `name` with a * at its end is preferred, then one named `name` itself.
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
        raise ValueError(f"{file} must have {wanted.location} data {what}, got {array_names(held)}")
    if len(here) > 1:
        names = ", ".join(repr(info.name) for info in here)
        raise ValueError(f"{file} must have one {wanted.location} array {what}, got {names}")
    if here[0].components != wanted.components:
        raise ValueError(
            f"{here[0].name!r} of {file} must have {_count(wanted.components, 'component')}, got"
            f" {here[0].components}"
        )
    return here[0]


def array_names(held: Sequence[ArrayInfo]) -> str:
    """The names of arrays by location, as "point data 'p', 'U' and cell data 'k'"."""
    parts = []
    for location in LOCATIONS:
        names = [repr(info.name) for info in held if info.location == location]
        if names:
            parts.append(f"{location} data {', '.join(names)}")
    return " and ".join(parts) or "no arrays"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def grid_size(along: Sequence[int]) -> tuple[int, int]:
    """Points and cells of a structured grid, by points along each axis: (3, 2, 1) has 6 and 2."""
    points = math.prod(max(0, count) for count in along)
    return points, math.prod(max(1, count - 1) for count in along) if points else 0


_GRID = 100_000_000


def check_grid(points: int, most: int, file: str) -> None:
    """Raise ValueError if a structured grid has more points than its file can have values for.

    That is `most`; a grid without arrays may have 1e8 points, however small its file is.
    """
    most = max(most, _GRID)
    if points > most:
        raise ValueError(f"{file} must have at most {most} points for its size, got {points}")


def as_text(raw: bytes | str) -> str:
    """A name as text: decoded as UTF-8, or as Latin-1 if it is not valid UTF-8."""
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
