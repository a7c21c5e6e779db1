"""DrivAerNet++ (Elrefaie et al. 2024): some 8,000 cars, RANS by OpenFOAM, kinematic units.

PressureVTK/<folder>/<design>.vtk                   point data p
WallShearStressVTK_Updated/<folder>/<design>.vtk    wallShearStress, its points in another order
CFD/<folder>_part1 or _part2/<design>.vtk           point data p, U
3DMeshesSTL/<folder>/<design>.stl                   the body
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from slipstream.data.benchmarks.flow import FlowSource, check_flag, outward_normals
from slipstream.data.benchmarks.raw import files_by_stem
from slipstream.data.geometry import match_exactly
from slipstream.data.meshes import Mesh
from slipstream.data.store import RowBlocks, check_finite_rows

PRESSURE, SHEAR, VOLUME = "PressureVTK", "WallShearStressVTK_Updated", "CFD"


@dataclass(frozen=True, kw_only=True)
class DrivAerNet(FlowSource):
    mirror: bool = False
    """Whether volumes with only one side of y = 0 are completed by their mirror image."""
    bodies: str = "3DMeshesSTL"
    """The folder with the bodies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("mirror", self.mirror)
        if self.part == "surface" and self.location != "point":
            raise ValueError(f"location of {self.name} must be point, got {self.location!r}")

    @cached_property
    def designs(self) -> Sequence[str]:
        return tuple(self._paths[self._folders[0]])

    def design_named(self, text: str) -> str:
        return text.removesuffix(".vtk")

    def files(self, sample: str) -> Mapping[str, Path]:
        return self.by_name(*(self._file(folder, sample) for folder in self._folders))

    def read(self, sample: str) -> RowBlocks:
        first, second = (self._file(folder, sample) for folder in self._folders)
        if self.part == "volume":
            return self.read_volume(sample, first, second, mirror=self.mirror)
        return self._read_pair(sample, first, second)

    def _read_pair(self, sample: str, pressure: Path, shear: Path) -> RowBlocks:
        mesh, values, averaged = self.read_fields(pressure, self.targets[:1])
        other, sheared, averaged_too = self.read_fields(shear, self.targets[1:])
        for name, array in sheared.items():
            values[name] = _in_order_of(mesh, other, name, array)
        values["normal"], flipped = outward_normals(mesh, self.location)
        notes = {"cell_to_point": averaged or averaged_too, "normals_flipped": flipped}
        return self.rows(sample, mesh, values, notes)

    @property
    def _folders(self) -> tuple[str, str]:
        return (PRESSURE, SHEAR) if self.part == "surface" else (VOLUME, self.bodies)

    @cached_property
    def _paths(self) -> Mapping[str, Mapping[str, Path]]:
        """The files of each folder by design."""
        return {
            folder: files_by_stem(self.raw / folder, ".stl" if folder == self.bodies else ".vtk")
            for folder in self._folders
        }

    def _file(self, folder: str, sample: str) -> Path:
        if sample not in self._paths[folder]:
            raise ValueError(f"{folder} must have a file of {sample}, got none")
        return self._paths[folder][sample]


def _in_order_of(mesh: Mesh, other: Mesh, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Values of the shear file at the points of the pressure file: those with equal coordinates.

    Points that coincide are matched in the order of their files.
    """
    file = f"{other.name} of {SHEAR}"
    try:
        check_finite_rows(name, values, 0)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    try:
        return values[match_exactly(mesh.points(), other.points()).index]
    except ValueError as error:
        raise ValueError(f"{file} {error}, like that of {PRESSURE}") from None
