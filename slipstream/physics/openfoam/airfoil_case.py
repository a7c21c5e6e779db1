"""Airfoils at an incidence in a stream: which there may be, and the case of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.core.checks import check_choice
from slipstream.core.files import sha256_of
from slipstream.core.runtime import generator
from slipstream.physics.openfoam.airfoil_files import read_airfoil
from slipstream.physics.openfoam.airfoils import FIVE, FOUR, Airfoil, Naca, naca
from slipstream.physics.openfoam.c_grid import GridShape, make_grid
from slipstream.physics.openfoam.case_config import CaseConfig, check_ranges
from slipstream.physics.openfoam.cases import CaseFacts
from slipstream.physics.openfoam.poly_mesh import FAR, FRONT_AND_BACK, WALL, PolyMesh, extruded
from slipstream.physics.openfoam.solver_setup import (
    SPALART_ALLMARAS,
    Coefficients,
    Stream,
    Walls,
    write_control,
    write_fields,
    write_models,
    write_numerics,
)
from slipstream.physics.openfoam.surface_files import write_stl

SPAN = 1.0
"""Of the single layer of cells, in m; the chord is 1 m too, so that the reference area is 1 m^2."""
CENTRE = (0.25, 0.0, 0.0)
"""Moments are about a quarter of the chord, about which airfoils are turned."""


@dataclass(frozen=True, kw_only=True)
class AirfoilFlow(CaseConfig):
    """Which samples there may be; all draws are uniform within the ranges. The chord is 1 m."""

    airfoils: tuple[str, ...] = ()
    """Numbers of NACA airfoils and paths of coordinate files, one of which each sample has; none:
    an airfoil of `family` is drawn."""
    family: str = FOUR
    """`4-digit` or `5-digit`, by NACA's formulas with real numbers in place of digits."""
    camber: tuple[float, float] = (0.0, 0.04)
    """In chords."""
    position: tuple[float, float] = (0.3, 0.5)
    """Of the largest camber, in chords; 0.02 to 0.3 for `5-digit`."""
    thickness: tuple[float, float] = (0.08, 0.18)
    """In chords."""
    incidence: tuple[float, float] = (-4.0, 8.0)
    speed: tuple[float, float] = (30.0, 90.0)
    """In m/s: with a viscosity of 1.5e-5, Reynolds numbers of 2 to 6 million."""
    around: int = 128
    """Cells on the airfoil."""
    wake: int = 36
    """Cells along the wake."""
    growth: float = 1.2
    """How much higher each layer of cells is than the one below."""
    far: float = 100.0
    """Distance of the outer boundary, in chords."""
    y_plus: float = 40.0
    """Of the middle of the cells at the wall, as on a flat plate, from 10 to 300: the layer below
    is Spalding's law of the wall. What the solver found is kept with the case."""
    iterations: int = 400
    residual: float = 1e-3
    steadiness: float = 5e-3
    window: int = 100
    seconds: float = 900.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("family", self.family, (FOUR, FIVE))
        check_ranges(self, "camber", "position", "thickness")
        for end in (0, 1):
            Naca(self.camber[end], self.position[end], self.thickness[end], self.family)
        if not -20 <= self.incidence[0] <= self.incidence[1] <= 20:
            raise ValueError(f"incidence must lie in [-20, 20] degrees, got {self.incidence}")
        if not 10 <= self.y_plus <= 300:
            # With cells so thin that they lie below the arc of a face, as around the leading edge,
            # the steps of the solver alternate between two flows, and Cd by 10 %.
            raise ValueError(f"y_plus must be from 10 to 300, got {self.y_plus:g}")
        self.grid(self.speed[0])

    def grid(self, speed: float) -> GridShape:
        """The grid for a speed, with the cells at the wall as high as `y_plus` says."""
        friction = 0.0592 * (speed / self.viscosity) ** -0.2 / 2
        middle = self.y_plus * self.viscosity / (speed * math.sqrt(friction))
        return GridShape(
            around=self.around,
            wake=self.wake,
            first=2 * middle,
            growth=self.growth,
            far=self.far,
            leading=0.25 / self.around,
            trailing=0.4 / self.around,
        )


@dataclass(frozen=True)
class Drawn:
    """One sample: its airfoil with a name, and the stream."""

    airfoil: Airfoil
    name: str
    incidence: float
    speed: float


def inputs(config: AirfoilFlow) -> dict[str, Any]:
    """What samples depend on besides the config: the content of coordinate files."""
    return {
        Path(name).name: sha256_of(Path(name)) for name in config.airfoils if not _is_number(name)
    }


def draw(config: AirfoilFlow, *, seed: int, sample: int) -> Drawn:
    """A sample, as a pure function of its arguments and the coordinate files."""
    numbers = torch.rand(
        6, generator=generator(seed, "openfoam-airfoil", sample), dtype=torch.float64
    )
    incidence, speed, camber, position, thickness = (
        low + (high - low) * float(share)
        for share, (low, high) in zip(
            numbers,
            (config.incidence, config.speed, config.camber, config.position, config.thickness),
            strict=False,
        )
    )
    if not config.airfoils:
        airfoil: Airfoil = Naca(camber, position, thickness, config.family)
        name = f"NACA {config.family} {camber:.4f} {position:.4f} {thickness:.4f}"
        return Drawn(airfoil, name, incidence, speed)
    name = config.airfoils[int(float(numbers[5]) * len(config.airfoils))]
    return Drawn(find_airfoil(name), name, incidence, speed)


def find_airfoil(name: str) -> Airfoil:
    """By its NACA number, or from a file."""
    return naca(name) if _is_number(name) else read_airfoil(Path(name))


def _is_number(name: str) -> bool:
    return name.lower().removeprefix("naca").strip(" -").isdecimal() and not Path(name).is_file()


def write_case(config: AirfoilFlow, case: Path, *, seed: int, sample: int) -> CaseFacts:
    """Everything but the solution; ValueError where cells of the grid overlap."""
    drawn = draw(config, seed=seed, sample=sample)
    grid = make_grid(drawn.airfoil, config.grid(drawn.speed), incidence=drawn.incidence)
    mesh = extruded(grid, SPAN)
    mesh.write(case / "constant" / "polyMesh")
    write_stl(case / "body.stl", *_triangles(mesh))
    stream = Stream(speed=drawn.speed, viscosity=config.viscosity, model=SPALART_ALLMARAS)
    walls = Walls(body=WALL, far=FAR, others={FRONT_AND_BACK: "empty"})
    write_fields(case, stream, walls)
    write_models(case, stream)
    reference = Coefficients(area=SPAN, length=1.0, centre=CENTRE)
    write_control(case, stream, walls, reference, config.iterations)
    write_numerics(case, stream)
    return CaseFacts(
        parameters={"speed": drawn.speed, "incidence": drawn.incidence},
        described={"airfoil": drawn.name, "cells": mesh.cells},
        reynolds=drawn.speed / config.viscosity,
        patch=WALL,
    )


def _triangles(mesh: PolyMesh) -> tuple[Any, Any]:
    """The airfoil out of the body, each face as two triangles."""
    a, b, c, d = mesh.patch_faces(WALL).T
    return mesh.points, np.concatenate((np.stack((a, c, b), 1), np.stack((a, d, c), 1)))
