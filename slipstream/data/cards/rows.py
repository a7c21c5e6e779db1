"""From the meshes of one sample to the arrays that a card asks for, all in one order of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards.types import ArrayValue, Card, ComputedValue
from slipstream.data.geometry import (
    Matched,
    NoNormalError,
    array_at,
    check_order,
    distance_to_triangles,
    in_box,
    match_exactly,
    match_nearly,
    outward_normals,
)
from slipstream.data.meshes import INTERNAL, Mesh, read_mesh

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SampleArrays:
    """The arrays of a sample by field, coordinates first."""

    arrays: Arrays
    left_out: int
    """Rows outside of the box, and rows that are not finite."""
    undecided: float
    """The share of the area, 0 to 1, on which computed normals are not known to point out of the
    body."""


@dataclass(frozen=True, eq=False)
class _AllRows:
    """The rows of a sample before some are left out."""

    mesh: Mesh
    arrays: Arrays
    kept: NDArray[np.bool_] | None
    """Which rows are kept; None for all."""
    undecided: float


def read_arrays(card: Card, paths: Mapping[str, Path]) -> SampleArrays:
    """Read the files of a sample; the first one with arrays sets the order of the rows."""
    rows = _read_all(card, paths)
    arrays, kept, undecided = rows.arrays, rows.kept, rows.undecided
    count = len(arrays[card.coords.name])
    del rows  # and with it the mesh
    if kept is not None:
        arrays = {name: values[kept] for name, values in arrays.items()}
    for entry in card.entries:
        if isinstance(entry.value, ComputedValue) and entry.value.to is not None:
            places = arrays[card.coords.name]
            arrays[entry.field.name] = _distances(places, paths[entry.value.to])
    arrays[card.coords.name] = _moved(card, arrays[card.coords.name])
    left_out = 0 if kept is None else count - int(kept.sum())
    return SampleArrays(arrays, left_out, undecided)


def read_kept(card: Card, paths: Mapping[str, Path]) -> tuple[Mesh, NDArray[np.intp], NDArray[Any]]:
    """The mesh that sets the order of rows, the points or cells of it that are kept, (N,), and the
    coordinates of these as a store has them, (N, 3)."""
    rows = _read_all(card, paths)
    places = rows.arrays[card.coords.name]
    kept = np.arange(len(places)) if rows.kept is None else np.flatnonzero(rows.kept)
    return rows.mesh, kept, _moved(card, places[kept])


def _read_all(card: Card, paths: Mapping[str, Path]) -> _AllRows:
    first, *rest = card.array_files
    regions = card.patches or (INTERNAL,)
    mesh = read_mesh(paths[first], card.wanted(first), regions=regions)
    places = np.asarray(mesh.locations(card.location))
    arrays = {card.coords.name: places, **_values(card, first, mesh, None)}
    for file in rest:
        other = read_mesh(paths[file], card.wanted(file), regions=regions)
        arrays.update(_values(card, file, other, _matched(card, places, other, mesh.name)))
    computed = {e.field.name: e.value for e in card.entries if isinstance(e.value, ComputedValue)}
    undecided = 0.0
    for name, value in computed.items():
        if value.what == "normals":
            arrays[name], undecided = _normals(mesh, card)
    return _AllRows(mesh, arrays, _kept(card, arrays), undecided)


def _moved(card: Card, places: NDArray[Any]) -> NDArray[Any]:
    """The places less what the card subtracts from coordinates."""
    if not any(card.subtract):
        return places
    # In double: differences of large float32 numbers would lose digits.
    return np.asarray(places - np.asarray(card.subtract, np.float64))


def _values(card: Card, file: str, mesh: Mesh, matched: Matched | None) -> Arrays:
    """Every field that is read from this file, in the order of the first file's rows."""
    arrays: Arrays = {}
    for entry in card.entries:
        value = entry.value
        if not isinstance(value, ArrayValue) or value.file != file:
            continue
        columns = [array_at(mesh, wanted, card.location) for wanted in value.wanted()]
        values = columns[0] if len(columns) == 1 else np.stack(columns, 1)
        if matched is not None:
            matched.check_twins(f"{mesh.name}: {value.arrays[0]!r}", values)
            values = values[matched.index]
        if any(value.subtract) or value.scale != 1:
            kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
            offset = np.asarray(value.subtract if len(value.subtract) > 1 else value.subtract[0])
            values = (values - offset.astype(kind)) * kind.type(value.scale)
        arrays[entry.field.name] = values
    return arrays


def _matched(card: Card, places: NDArray[Any], other: Mesh, first: str) -> Matched | None:
    """How the rows of another file are matched to those of the first; None for the same order."""
    theirs = np.asarray(other.locations(card.location))
    try:
        if card.match == "order":
            check_order(places, theirs)
            return None
        return (match_exactly if card.location == "point" else match_nearly)(places, theirs)
    except ValueError as error:
        raise ValueError(f"{other.name} {error}, like {first}") from None


def _kept(card: Card, arrays: Arrays) -> NDArray[np.bool_] | None:
    """Which rows are inside the box and, if the card asks for it, finite; None for all."""
    places = arrays[card.coords.name]
    kept = np.ones(len(places), bool)
    if card.box is not None:
        low, high = card.box
        open_low = [-math.inf if x is None else x for x in low]
        kept &= in_box(places, open_low, [math.inf if x is None else x for x in high])
        if not kept.any():
            extent = f"{_corner(places.min(0))} to {_corner(places.max(0))}"
            raise ValueError(f"the box must hold some of the points, got none: they are {extent}")
    if card.drop:
        for values in arrays.values():
            finite = np.isfinite(values)
            kept &= finite if finite.ndim == 1 else finite.all(1)
        if not kept.any():
            raise ValueError("some rows must be finite to be kept, got none")
    return None if kept.all() else kept


def _normals(mesh: Mesh, card: Card) -> tuple[NDArray[Any], float]:
    """Normals, and the share of the area on which they are not known to point out of the body.

    They point out of each closed surface, and on an open one to the side that is seen from outside;
    where that does not decide, to the side that the faces' corners give. NaN where there is no
    normal, if the card drops such rows; else ValueError.
    """
    try:
        outward = outward_normals(mesh, card.location, lenient=card.drop)
    except NoNormalError as error:
        raise ValueError(f"{error} (`drop: non-finite` leaves such rows out)") from None
    return outward.normals, outward.undecided


def _distances(places: NDArray[Any], surface: Path) -> NDArray[Any]:
    return distance_to_triangles(places, *read_mesh(surface).triangles())


def _corner(point: Any) -> str:
    return f"({', '.join(f'{float(x):.6g}' for x in point)})"
