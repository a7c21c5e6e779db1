"""The inspection of one mesh file: its shape, its arrays, their ranges, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards.roles import (
    Guess,
    Numbers,
    guess,
    is_openfoam,
    looks_absolute,
    role_of,
    vectors_of_scalars,
)
from slipstream.data.cards.shape import Shape, faults_of, shape_of, share_outward
from slipstream.data.meshes import ArrayInfo, Location, Mesh, Wanted, mesh_info, read_mesh


@dataclass(frozen=True)
class ArrayLook:
    """One array: its type as in the file, its range by component, and a guess of its role."""

    name: str
    location: Location
    components: int
    dtype: str
    numbers: Numbers
    """Ranges and means of the finite values; NaN where there are none."""
    nan: int
    infinite: int
    guess: Guess


@dataclass(frozen=True)
class FileLook:
    path: Path
    shape: Shape
    arrays: tuple[ArrayLook, ...]
    warnings: tuple[str, ...]
    """What the user should know before using the file, a sentence each."""

    def array(self, name: str, location: Location) -> ArrayLook | None:
        matching = (a for a in self.arrays if (a.name, a.location) == (name, location))
        return next(matching, None)

    def to_json(self) -> dict[str, Any]:
        arrays = [
            {
                **{key: getattr(a, key) for key in ("name", "location", "components", "dtype")},
                **{key: _without_nan(values) for key, values in asdict(a.numbers).items()},
                "nan": a.nan,
                "infinite": a.infinite,
                **asdict(a.guess),
            }
            for a in self.arrays
        ]
        corners = {key: _without_nan(getattr(self.shape, key)) for key in ("low", "high")}
        shape = asdict(self.shape) | corners
        return {"file": str(self.path), **shape, "arrays": arrays, "warnings": self.warnings}


def look_at_file(path: Path) -> FileLook:
    """Read a mesh and its arrays, one after the other, and describe them.

    ValueError where it cannot be read.
    """
    infos = list(mesh_info(path).arrays)
    shape = shape_of(read_mesh(path))  # without arrays, of which VTK's filters would keep copies
    mesh = read_mesh(path, [_wanted(info) for info in infos], later=True)
    arrays = _look_at_arrays(infos, [_count(mesh.array(_wanted(info))) for info in infos])
    warnings = [*_of_shape(shape), *_of_arrays(arrays), *_of_normals(mesh, shape, arrays)]
    return FileLook(path, shape, arrays, tuple(dict.fromkeys(warnings)))


@dataclass(frozen=True)
class _Counted:
    dtype: np.dtype[Any]
    numbers: Numbers
    nan: int
    infinite: int


def _count(array: NDArray[Any]) -> _Counted:
    real = array.dtype.kind == "f"
    nan, infinite = (int(f(array).sum()) if real else 0 for f in (np.isnan, np.isinf))
    return _Counted(array.dtype, _numbers(array), nan, infinite)


def _look_at_arrays(infos: list[ArrayInfo], counted: list[_Counted]) -> tuple[ArrayLook, ...]:
    names = [info.name for info in infos]
    vectors = vectors_of_scalars(names)
    speeds = [
        array.numbers.largest
        for info, array in zip(infos, counted, strict=True)
        if role_of(info.name, info.components) == "velocity"
    ]
    # An incompressible solver has no absolute pressure, so one in the file rules it out.
    compressible = any(
        role_of(info.name, info.components) == "pressure" and looks_absolute(array.numbers)
        for info, array in zip(infos, counted, strict=True)
    )
    openfoam, speed = is_openfoam(names) and not compressible, max(speeds, default=None)
    looks = []
    for info, array in zip(infos, counted, strict=True):
        whole = array.dtype.kind in "iub"
        role = guess(info.name, array.numbers, whole_numbers=whole, openfoam=openfoam, speed=speed)
        looks.append(
            ArrayLook(
                info.name, info.location, info.components, str(array.dtype), array.numbers,
                array.nan, array.infinite, _as_component(info, vectors, array.numbers, role),
            )
        )  # fmt: skip
    return tuple(looks)


def _as_component(
    info: ArrayInfo, vectors: Mapping[str, Sequence[str]], numbers: Numbers, scalar: Guess
) -> Guess:
    """The guess for a component of a vector, as "velocity (x)"; that of a scalar otherwise."""
    for base, members in vectors.items():
        role = role_of(base, 3)
        if info.components == 1 and info.name in members and role != "other":
            three = Numbers(numbers.low * 3, numbers.mean * 3, numbers.high * 3)
            whole = guess(base, three, whole_numbers=False, openfoam=False, speed=None)
            axis = "xyz"[members.index(info.name)]
            return Guess(f"{role} ({axis})", whole.unit, whole.reason)
    return scalar


def _numbers(array: NDArray[Any]) -> Numbers:
    """Range and mean of each component, over its finite values."""
    low, mean, high = [], [], []
    for column in (array[:, None] if array.ndim == 1 else array).T:
        finite = column if column.dtype.kind != "f" else column[np.isfinite(column)]
        empty = not len(finite)
        low.append(np.nan if empty else float(finite.min()))
        mean.append(np.nan if empty else _mean(finite))
        high.append(np.nan if empty else float(finite.max()))
    return Numbers(tuple(low), tuple(mean), tuple(high))


def _mean(values: NDArray[Any]) -> float:
    """The mean, also of numbers whose sum is beyond what float64 holds."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean(dtype=np.float64))
    return mean if np.isfinite(mean) else float((values / len(values)).sum(dtype=np.float64))


def _of_shape(shape: Shape) -> list[str]:
    warnings = []
    extent = max(h - low for h, low in zip(shape.high, shape.low, strict=True))
    if shape.kind == "surface" and extent > 1000:
        warnings.append(f"the surface is {extent:.4g} long: perhaps in mm")
    if shape.twins:
        warnings.append(f"{shape.twins:,} points lie at the same place as another")
    if shape.unused:
        warnings.append(f"{shape.unused:,} points belong to no cell")
    if shape.degenerate:
        warnings.append(f"{shape.degenerate:,} cells have no extent")
    return [*warnings, *faults_of(shape)]


def _of_arrays(arrays: tuple[ArrayLook, ...]) -> list[str]:
    warnings = []
    for array in arrays:
        if array.nan or array.infinite:
            warnings.append(
                f"{array.name} has {array.nan:,} NaN and {array.infinite:,} infinite values"
            )
        if array.guess.warning:
            warnings.append(array.guess.warning)
    return warnings


def _of_normals(mesh: Mesh, shape: Shape, arrays: tuple[ArrayLook, ...]) -> list[str]:
    """Warnings for a closed surface whose file has normals that do not point outward."""
    warnings = []
    for array in arrays:
        if array.guess.role != "normals" or shape.outward is None or shape.unused:
            continue
        normals = mesh.array(_wanted(array))
        share = share_outward(mesh, array.location, normals, shape.outward)
        if share < 0.01:
            warnings.append(f"{array.name} point inward")
        elif share < 0.99:
            warnings.append(f"{array.name} point outward at {share:.0%} of the surface only")
    return warnings


def _wanted(array: ArrayInfo | ArrayLook) -> Wanted:
    return Wanted(array.name, array.location, array.components)


def _without_nan(values: tuple[float, ...]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values]
