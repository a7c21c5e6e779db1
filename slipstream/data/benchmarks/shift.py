"""Luminary's SHIFT-SUV and SHIFT-Wing: one folder for each run, with surface, volume and body.

<folder>/run_%05d/       SUV: merged_surfaces.vtp (cell data), merged_volumes.vtu (point data),
                         merged_surfaces_filled.stl
<folder>/sample_%06d/    Wing: merged_surfaces.vtp, merged_volumes.vtu, merged_surfaces.stl,
                         params.json
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slipstream.core.files import read_json
from slipstream.data.benchmarks.flow import FREESTREAM, FlowSource, Target, outward_normals
from slipstream.data.benchmarks.raw import numbered_folders
from slipstream.data.store import Field, RowBlocks

SURFACE, VOLUME, PARAMS = "merged_surfaces.vtp", "merged_volumes.vtu", "params.json"


@dataclass(frozen=True, kw_only=True)
class Shift(FlowSource):
    """Common to SHIFT-SUV and SHIFT-Wing."""

    folder: str
    """The folder below the raw one that holds the runs; "." for the raw folder itself."""

    body: ClassVar[str]
    prefix: ClassVar[str]
    digits: ClassVar[int]

    @cached_property
    def designs(self) -> Sequence[str]:
        return self.runs()

    def runs(self) -> Sequence[str]:
        try:
            return tuple(numbered_folders(self.raw / self.folder, self.prefix))
        except ValueError as error:
            raise ValueError(f"{error}; the option folder may be another, or .") from None

    def design_named(self, text: str) -> str:
        return f"{self.prefix}{int(text):0{self.digits}d}" if text.isdecimal() else text

    def files(self, sample: str) -> Mapping[str, Path]:
        names = (SURFACE,) if self.part == "surface" else (VOLUME, self.body)
        return self.by_name(*(self.file(sample, name) for name in names))

    def file(self, sample: str, name: str) -> Path:
        return self.raw / self.folder / sample / name

    def read(self, sample: str) -> RowBlocks:
        if self.part == "surface":
            return self.read_surface(sample, self.file(sample, SURFACE))
        return self.read_volume(sample, self.file(sample, VOLUME), self.file(sample, self.body))


@dataclass(frozen=True, kw_only=True)
class ShiftSuv(Shift):
    """One body style of SHIFT-SUV; pressures of the files are absolute."""

    corrupted: tuple[int, ...] = ()
    """Runs that are left out."""

    body: ClassVar[str] = "merged_surfaces_filled.stl"
    prefix: ClassVar[str] = "run_"
    digits: ClassVar[int] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        good = isinstance(self.corrupted, tuple)
        if not good or not all(isinstance(run, int) for run in self.corrupted):
            raise ValueError(f"corrupted must be a list of runs, got {self.corrupted!r}")

    def runs(self) -> Sequence[str]:
        bad = {self.design_named(str(run)) for run in self.corrupted}
        return tuple(name for name in super().runs() if name not in bad)

    def read_surface(self, sample: str, path: Path) -> RowBlocks:
        """At cells, the normals of the file are used, turned outward."""
        if self.location == "point":
            return super().read_surface(sample, path)
        normal = Target(Field("normal", components=3), "Normals")
        mesh, values, _ = self.read_fields(path, (normal, *self.targets))
        outward, _ = outward_normals(mesh, self.location)
        zero = int((~values["normal"].any(1)).sum())
        if zero:
            raise ValueError(f"Normals of {mesh.name} must not be 0, got {zero} that are")
        values["normal"], flipped = _turned(values["normal"], outward)
        return self.rows(sample, mesh, values, {"normals_flipped": flipped})


@dataclass(frozen=True, kw_only=True)
class ShiftWing(Shift):
    """SHIFT-Wing, with the freestream of each sample from its params.json."""

    body: ClassVar[str] = "merged_surfaces.stl"
    prefix: ClassVar[str] = "sample_"
    digits: ClassVar[int] = 6

    def checked_freestream(self) -> tuple[Any, ...]:
        """Names: keys of params.json, or velocity_x, _y and _z of alpha and stream_velocity."""
        names = self.freestream
        if not isinstance(names, tuple) or not all(isinstance(n, str) for n in names):
            raise ValueError(
                f"freestream of {self.name} must be a list of names, as {', '.join(FREESTREAM)},"
                f" got {names!r}"
            )
        return names

    @property
    def freestream_names(self) -> Sequence[str]:
        return self.freestream

    def files(self, sample: str) -> Mapping[str, Path]:
        return {**super().files(sample), **self.by_name(self.file(sample, PARAMS))}

    def freestream_of(self, sample: str) -> Mapping[str, float]:
        path = self.file(sample, PARAMS)
        params = read_json(path)

        def number(name: str) -> float:
            value = params.get(name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                got = repr(value) if name in params else f"none among {', '.join(params)}"
                raise ValueError(f"{path.name} must have the number {name!r}, got {got}")
            return float(value)

        def along(axis: str) -> float:
            angle, speed = math.radians(number("alpha")), number("stream_velocity")
            return {"x": speed * math.cos(angle), "y": 0.0, "z": speed * math.sin(angle)}[axis]

        velocity = {f"velocity_{axis}": axis for axis in "xyz"}
        return {
            name: along(velocity[name]) if name in velocity else number(name)
            for name in self.freestream_names
        }


def _turned(normals: NDArray[Any], outward: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Unit normals, turned to agree with the outward ones in sum, and whether they were turned."""
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    turned = bool(np.einsum("ij,ij->", normals, outward) < 0)
    return normals / (-lengths if turned else lengths), turned
