"""Arrays that are added to a mesh, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.text import printable
from slipstream.data.meshes.arrays import LOCATIONS, Location

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Added:
    """One array, with a row for each point or cell of the mesh."""

    name: str
    location: Location
    unit: str
    """Or empty."""
    values: NDArray[Any]

    @property
    def about(self) -> dict[str, str]:
        """All but the values."""
        return {"name": self.name, "location": self.location, "unit": self.unit}


def checked_arrays(
    point_arrays: Mapping[str, NDArray[Any]],
    cell_arrays: Mapping[str, NDArray[Any]],
    units: Mapping[str, str],
) -> list[Added]:
    """The arrays with their units; those of bool become uint8, those of float16 float32.

    ValueError for other than real numbers of shape (rows,) or (rows, k), for names and units that
    files cannot hold as they are, and for a unit without an array.
    """
    if unknown := sorted(units.keys() - point_arrays.keys() - cell_arrays.keys()):
        raise ValueError(f"units must be of arrays that are added, got one of {unknown[0]!r}")
    for unit in units.values():
        check_shown("a unit", unit)
    added = []
    for location, arrays in zip(LOCATIONS, (point_arrays, cell_arrays), strict=True):
        for name, values in arrays.items():
            check_name("the name of an array", name)
            unit = units.get(name, "").strip()  # VTK's reader leaves blanks at the ends out
            added.append(Added(name, location, unit, _numbers(name, values)))
    return added


def check_texts(texts: Mapping[str, str]) -> None:
    """Raise ValueError for text that VTK's field data cannot hold; tabs and lines may be in it."""
    for name, text in texts.items():
        check_name("the name of a text", name)
        if "\0" in text or not text.isascii() and text.encode(errors="replace").decode() != text:
            raise ValueError(f"{name!r} must be text of whole letters, none zero, got {text!r}")


def check_name(what: str, name: str) -> None:
    if not name.strip():
        raise ValueError(f"{what} must have letters, got {name!r}")
    check_shown(what, name)


def check_shown(what: str, text: str) -> None:
    """Raise ValueError for control characters, which XML cannot hold, and halves of letters."""
    if printable(text) != text:
        raise ValueError(f"{what} must be text without control characters, got {text!r}")


def _numbers(name: str, values: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim not in (1, 2) or (array.ndim == 2 and not array.shape[1]):
        raise ValueError(f"{name!r} must have shape (rows,) or (rows, k), got {array.shape}")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name!r} must be an array of real numbers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)
