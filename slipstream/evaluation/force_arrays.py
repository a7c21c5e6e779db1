"""Which arrays of a mesh are its pressure and its shear, and in which unit they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards import (
    Numbers,
    guess_role,
    is_openfoam,
    role_of,
    split_unit,
    vectors_of_scalars,
)
from slipstream.data.meshes import (
    ArrayInfo,
    Location,
    Mesh,
    Wanted,
    as_pyvista,
    field_unit,
    is_case,
    parts_of,
    units_of,
)
from slipstream.evaluation.force_conventions import stated_form
from slipstream.evaluation.force_faces import Stated

_PRESSURES = ("pressure", "pressure coefficient")
_SHEARS = ("wall shear", "skin friction")
_JOINED = "joined"
"""Marks a vector of three arrays."""
_LABEL = b"UNITS_LABEL"
_SEARCHED = 1 << 22


@dataclass(frozen=True)
class Chosen:
    """One array, or three with a component each."""

    name: str
    arrays: tuple[str, ...]
    location: Location
    components: int
    """Of all arrays together."""
    role: str

    @property
    def wanted(self) -> list[Wanted]:
        each = self.components // len(self.arrays)
        return [Wanted(name, self.location, each) for name in self.arrays]

    def read(self, mesh: Mesh) -> NDArray[np.float64]:
        parts = [np.asarray(mesh.array(want), np.float64) for want in self.wanted]
        return parts[0] if len(parts) == 1 else np.stack(parts, 1)


def choose_pressure(held: Sequence[ArrayInfo], name: str | None, file: str) -> Chosen:
    """The array of this name, or the only one that a pressure is called; ValueError without one."""
    if name is not None:
        return _named(held, name, 1, "--pressure", file)
    chosen = _by_role(held, _PRESSURES, 1, "--pressure", file)
    if chosen is None:
        raise ValueError(
            f"{file} must have an array that is a pressure by its name, as p, pressure or Cp, got"
            f" {_names(held)}: --pressure names it"
        )
    return chosen


def choose_shear(
    held: Sequence[ArrayInfo], name: str | None, file: str
) -> tuple[Chosen | None, list[str]]:
    """The same for a shear of three components, or None with a note where there is none."""
    held = [*held, *_vectors(held)]
    if name is not None:
        return _named(held, name, 3, "--shear", file), []
    chosen = _by_role(held, _SHEARS, 3, "--shear", file)
    sizes = [info for info in held if info.components == 1 and role_of(info.name, 1) in _SHEARS]
    if chosen is None and sizes:
        return None, [f"{sizes[0].name} was left out: one component does not say where it pulls"]
    return chosen, []


def unit_in_file(path: Path, array: Chosen, regions: Sequence[str]) -> tuple[str, str] | None:
    """The unit that the file itself gives an array, and where; None where it gives none."""
    _, unit = split_unit(array.arrays[0])
    if unit is not None:
        return unit, "in its name"
    if is_case(path):
        unit = field_unit(path, array.name)
        return (unit, "the dimensions in its file") if unit else None
    if any(_LABEL in _beginning(part) for part in parts_of(path)):
        unit = units_of(as_pyvista(path, regions=regions)).get(array.arrays[0])
        return (unit, "the unit in the file") if unit else None
    return None


def guess_form(
    array: Chosen,
    values: NDArray[np.float64],
    names: Sequence[str],
    speed: float | None,
) -> tuple[Stated, float]:
    """The form by the array's name and numbers, where no unit is given."""
    rows = values.reshape(len(values), -1)
    low, mean, high = (
        tuple(map(float, numbers)) for numbers in (rows.min(0), rows.mean(0), rows.max(0))
    )
    known = array.role in (*_PRESSURES, *_SHEARS)
    usual = "pressure" if array.components == 1 else "shear"
    guess = guess_role(
        array.name if known else usual,
        Numbers(low, mean, high),
        whole_numbers=False,
        openfoam=is_openfoam(names),
        speed=speed,
    )
    unit = "1" if array.role in ("pressure coefficient", "skin friction") else guess.unit
    reason = "by its name" if unit != guess.unit else guess.reason
    return stated_form(unit, f"a guess, {reason}")


def _named(held: Sequence[ArrayInfo], name: str, components: int, option: str, file: str) -> Chosen:
    same = [info for info in held if info.name == name]
    if not same:
        raise ValueError(f"{option} must be an array of {file} ({_names(held)}), got {name!r}")
    fitting = [info for info in same if info.components == components]
    if not fitting:
        many = "one component" if components == 1 else f"{components} components"
        raise ValueError(f"{name!r} of {file} must have {many}, got {same[0].components}")
    return _chosen(sorted(fitting, key=_cells_first)[0], role_of(name, components), held)


def _by_role(
    held: Sequence[ArrayInfo], roles: Sequence[str], components: int, option: str, file: str
) -> Chosen | None:
    """The array of the first role that one has; cells before points."""
    for role in roles:
        fitting = [
            info
            for info in held
            if info.components == components and role_of(info.name, components) == role
        ]
        names = list(dict.fromkeys(info.name for info in fitting))
        if len(names) > 1:
            raise ValueError(
                f"{file} must have one array that is a {role}, got {', '.join(names)}: {option}"
                " names it"
            )
        if fitting:
            return _chosen(sorted(fitting, key=_cells_first)[0], role, held)
    return None


def _chosen(info: ArrayInfo, role: str, held: Sequence[ArrayInfo]) -> Chosen:
    arrays: tuple[str, ...] = (info.name,)
    if info.dtype == _JOINED:
        arrays = _scalars(held, info.location)[info.name]
    return Chosen(info.name, arrays, info.location, info.components, role)


def _vectors(held: Sequence[ArrayInfo]) -> list[ArrayInfo]:
    """Vectors whose components are arrays of their own, unless an array has the vector's name."""
    taken = {info.name for info in held}
    locations: tuple[Location, Location] = ("cell", "point")
    return [
        ArrayInfo(name, location, 3, 0, _JOINED)
        for location in locations
        for name in _scalars(held, location)
        if name not in taken
    ]


def _scalars(held: Sequence[ArrayInfo], location: Location) -> dict[str, tuple[str, str, str]]:
    here = [info for info in held if info.location == location and info.components == 1]
    return vectors_of_scalars(info.name for info in here)


def _cells_first(info: ArrayInfo) -> int:
    return 0 if info.location == "cell" else 1


def _names(held: Sequence[ArrayInfo]) -> str:
    names = dict.fromkeys(info.name for info in held if info.dtype != _JOINED)
    return ", ".join(names) or "no arrays"


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_SEARCHED)
