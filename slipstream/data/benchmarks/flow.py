"""Flows on surfaces and in volumes: from the arrays of a mesh file to the rows of a sample.

position | normal (surface) or distance to the body (volume), freestream | pressure, a vector
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_choice
from slipstream.data.benchmarks.raw import RawSource
from slipstream.data.benchmarks.row_blocks import Box, Column, is_half, stream_rows
from slipstream.data.geometry import NearestTriangle, cell_normals, cells_to_points, point_normals
from slipstream.data.meshes import Location, Mesh, Wanted, area_vectors, mesh_info, read_mesh
from slipstream.data.store import Field, Parameters, RowBlocks, Schema

FREESTREAM = ("air_density", "velocity_x", "velocity_y", "velocity_z", "pressure")

_UNITS = {"air_density": "kg/m^3", "alpha": "degree", "stream_velocity": "m/s"} | {
    f"velocity_{axis}": "m/s" for axis in "xyz"
}


@dataclass(frozen=True)
class Target:
    """A field and the array of the files that holds it."""

    field: Field
    array: str
    prefix: bool = False
    """Whether `array` is only the beginning of its name, which ends with a unit."""

    def wanted(self, location: Location) -> Wanted:
        return Wanted(self.array, location, self.field.components, self.prefix)


@dataclass(frozen=True, kw_only=True)
class FlowSource(RawSource):
    """Pressure and a vector on surfaces or in volumes."""

    part: Literal["surface", "volume"]
    targets: tuple[Target, ...]
    """Pressure first."""
    location: Location
    cell_to_point: bool = True
    """Whether arrays that a file has at cells only are averaged to points, as VTK does."""
    box: Box | None = None
    """Points outside the box are left out."""
    pressure_offset: float = 0.0
    """Subtracted from the pressure of the files."""
    freestream: tuple[Any, ...] = ()
    """Density, velocity and pressure, the same for every sample; may be empty."""

    def __post_init__(self) -> None:
        check_choice("location", self.location, ("point", "cell"))
        check_flag("cell_to_point", self.cell_to_point)
        object.__setattr__(self, "box", checked_box(self.box))
        offset = checked_number("pressure_offset", self.pressure_offset)
        object.__setattr__(self, "pressure_offset", offset)
        object.__setattr__(self, "freestream", self.checked_freestream())

    def checked_freestream(self) -> tuple[Any, ...]:
        count = len(FREESTREAM) if self.freestream != () else 0
        return checked_numbers("freestream", self.freestream, count)

    @property
    def freestream_names(self) -> Sequence[str]:
        return FREESTREAM[: len(self.freestream)]

    def freestream_of(self, sample: str) -> Mapping[str, float]:
        return dict(zip(self.freestream_names, self.freestream, strict=True))

    @property
    def schema(self) -> Schema:
        shape = Field("distance", "m", computed="distance")
        if self.part == "surface":
            shape = Field("normal", components=3, computed="normals")
        units = {**_UNITS, "pressure": self.targets[0].field.unit}
        stream = (Field(f"freestream_{n}", units.get(n, "1")) for n in self.freestream_names)
        return Schema(
            coords=(Field("position", "m", components=3),),
            features=(shape, *stream),
            targets=tuple(target.field for target in self.targets),
        )

    def read_fields(
        self, path: Path | Sequence[Path], targets: Sequence[Target]
    ) -> tuple[Mesh, dict[str, NDArray[Any]], bool]:
        """The mesh, the targets by field, and whether any was averaged from cells to points."""
        wanted = [target.wanted(self.location) for target in targets]
        held = wanted
        try:
            mesh = read_mesh(path, wanted)
        except ValueError:
            if self.location == "point" and self.cell_to_point:
                held = _as_held(path, targets)
            if held == wanted:
                raise
            mesh = read_mesh(path, held)
        values = {}
        for target, want in zip(targets, held, strict=True):
            array = mesh.array(want)
            moved = want.location != self.location
            values[target.field.name] = cells_to_points(mesh, array) if moved else array
        pressure = self.targets[0].field.name
        if self.pressure_offset and pressure in values:
            values[pressure] = values[pressure] - self.pressure_offset
        return mesh, values, held != wanted

    def read_surface(self, sample: str, path: Path) -> RowBlocks:
        """All targets of one file, with normals out of the body."""
        mesh, values, averaged = self.read_fields(path, self.targets)
        normals, flipped = outward_normals(mesh, self.location)
        notes = {"cell_to_point": averaged, "normals_flipped": flipped}
        return self.rows(sample, mesh, {**values, "normal": normals}, notes)

    def read_volume(
        self, sample: str, path: Path | Sequence[Path], body: Path, *, mirror: bool = False
    ) -> RowBlocks:
        """All targets of one file, with the distance to the body; `mirror` completes halves."""
        mesh, values, averaged = self.read_fields(path, self.targets)
        half = mirror and is_half(mesh.points())
        notes = {"cell_to_point": averaged, "mirrored": half}
        columns: dict[str, Column] = {**values, "distance": distance_to_body(body)}
        return self.rows(sample, mesh, columns, notes, mirror=half)

    def rows(
        self,
        sample: str,
        mesh: Mesh,
        columns: Mapping[str, Column],
        notes: Parameters,
        *,
        mirror: bool = False,
    ) -> RowBlocks:
        """The rows of a sample; `columns` are all fields but position and freestream.

        `notes` are numbers for the manifest.
        """
        stream = {f"freestream_{name}": value for name, value in self.freestream_of(sample).items()}
        columns = {"position": mesh.locations(self.location), **columns}
        try:
            return stream_rows(
                self.schema, columns, {**stream, **notes}, box=self.box, mirror=mirror
            )
        except ValueError as error:
            raise ValueError(f"{mesh.name}: {error}") from None


def distance_to_body(path: Path) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function from positions to their distance from the surface in a file."""
    return NearestTriangle(*read_mesh(path).triangles()).distance


def outward_normals(mesh: Mesh, location: Location) -> tuple[NDArray[Any], bool]:
    """Unit normals out of the body, and whether those by the order of corners pointed inward.

    Those of OpenFOAM point out of the fluid and so into the body. The sign of the enclosed volume
    decides, with the middle of the surface as origin, so that neither holes nor a missing half
    change it.
    """
    centres = mesh.cell_centres()
    middle = (centres.min(0) + centres.max(0)) / 2
    inward = np.einsum("ij,ij->", area_vectors(mesh.cells(), mesh.points()), centres - middle) < 0
    normals = cell_normals(mesh) if location == "cell" else point_normals(*mesh.triangles())
    return (-normals if inward else normals), bool(inward)


def _as_held(path: Path | Sequence[Path], targets: Sequence[Target]) -> list[Wanted]:
    """The arrays of the targets at points, or at cells if a file has them only there."""
    arrays = mesh_info(path).arrays
    held = []
    for target in targets:
        same = [info for info in arrays if info.name == target.array]
        if not same and target.prefix:
            same = [info for info in arrays if info.name.startswith(target.array)]
        only_cells = {info.location for info in same} == {"cell"}
        held.append(target.wanted("cell" if only_cells else "point"))
    return held


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")


def checked_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def checked_numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError(f"{name} must be {count} finite numbers, got {value!r}")
    return tuple(checked_number(f"a number of {name}", number) for number in value)


def checked_box(box: Any) -> Box | None:
    if box is None:
        return None
    if not isinstance(box, tuple) or len(box) != 2:
        raise ValueError(f"box must be [[x, y, z], [x, y, z]], got {box!r}")
    low, high = (checked_numbers("a corner of box", corner, 3) for corner in box)
    if any(a >= b for a, b in zip(low, high, strict=True)):
        raise ValueError(f"box must have its lowest corner first, got {box!r}")
    return low, high
