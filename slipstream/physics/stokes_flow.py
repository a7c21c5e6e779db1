"""Samples of steady Stokes flow past one or two random smooth bodies in a uniform stream.

The targets of `stokes-surface` are pressure and shear on the wall, which no pointwise formula
connects, and those of `stokes-volume` pressure and velocity in the fluid around it. Sample k of a
seed has the same bodies in the same stream in both. Pressure is zero far away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.runtime import generator
from slipstream.physics.scenes import (
    DISTANCE,
    FREESTREAM,
    NORMAL,
    POSITION,
    VELOCITY,
    FlowColumns,
    Quantity,
    Sample,
    Scenes,
    draw_scene,
    draw_volume,
    each_body,
    frequency_for,
)
from slipstream.physics.stokes_solver import (
    StokesFlow,
    pressure_and_shear,
    solve_stokes,
    stokes_flow_at,
)
from slipstream.physics.surface import SurfacePoints, draw_on_surface, surface_values

PRESSURE = Quantity("pressure", "Pa", 1)
WALL_SHEAR = Quantity("wall_shear", "Pa", 3)

COLUMNS = {
    "stokes-surface": FlowColumns((POSITION,), (NORMAL, FREESTREAM), (PRESSURE, WALL_SHEAR)),
    "stokes-volume": FlowColumns((POSITION,), (DISTANCE, FREESTREAM), (PRESSURE, VELOCITY)),
}


@dataclass(frozen=True, kw_only=True)
class Stokes(Scenes):
    """Which samples there may be."""

    panels: int = 1280
    """The most panels of a sample, shared by its bodies; each gets 20 n^2 of them. With 1280 on one
    ellipsoid of ratio up to 1 : 4 the relative L1 errors of pressure and shear are below 0.8 %, and
    that of the drag is 0.01 %; 1 s of one core."""
    bodies: tuple[int, int] = (1, 1)
    """Fewest and most bodies: 1 or 2. With two, each has half of the panels."""
    viscosity: float = 1.0
    """In Pa s. Pressure and shear are proportional to it, velocity does not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.viscosity > 0:
            raise ValueError(f"viscosity must be positive, got {self.viscosity}")


@dataclass(frozen=True, eq=False)
class StokesSample(Sample):
    parameters: Mapping[str, float | list[float]]
    """The viscosity, the force on all bodies in N, and their area in m^2."""


def make_sample(
    problem: str, config: Stokes, *, seed: int, sample: int, device: str = "cpu"
) -> StokesSample:
    """One sample, a pure function of its arguments, on the device on which it is solved.

    All draws are made on the CPU, so that devices differ by rounding only.
    """
    check_choice("problem", problem, COLUMNS)
    flow = solve_scene(config, seed=seed, sample=sample, device=device)
    draw = generator(seed, problem, sample)
    make = _surface_sample if problem == "stokes-surface" else _volume_sample
    coords, features, targets = make(config, flow, draw)
    stream = flow.freestream.expand(len(coords), 3)
    parameters: dict[str, float | list[float]] = {
        "viscosity": config.viscosity,
        "force": flow.forces.sum(0).tolist(),
        "area": float(flow.mesh.areas.sum()),
    }
    features = torch.cat((features, stream), -1)
    return StokesSample(coords.float(), features.float(), targets.float(), parameters)


def solve_scene(config: Stokes, *, seed: int, sample: int, device: str = "cpu") -> StokesFlow:
    """The flow of a sample."""
    check_whole("sample", sample, 0)
    bodies, freestream = draw_scene(config, seed=seed, sample=sample)
    return solve_stokes(
        bodies,
        freestream,
        frequency=frequency_for(config.panels, len(bodies)),
        viscosity=config.viscosity,
        device=device,
    )


def wall_stress(flow: StokesFlow, at: SurfacePoints) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positions, normals, pressure and wall shear of points on the smooth walls."""
    position, normal, traction = (torch.empty_like(at.directions) for _ in range(3))
    for rows, wall, face, panels in each_body(flow, at):
        position[rows], normal[rows] = wall.positions, wall.normals
        values = flow.tractions[panels]
        traction[rows] = surface_values(wall, face, values, frequency=flow.frequency)
    return position, normal, *pressure_and_shear(traction, normal)


def _surface_sample(
    config: Stokes, flow: StokesFlow, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    numbers = torch.rand(config.points, 3, generator=draw, dtype=torch.float64)
    at = draw_on_surface(flow.mesh, flow.frequency, numbers.to(flow.mesh.vertices.device))
    position, normal, pressure, shear = wall_stress(flow, at)
    return position, normal, torch.cat((pressure[:, None], shear), -1)


def _volume_sample(
    config: Stokes, flow: StokesFlow, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    points, distance = draw_volume(config, flow, draw)
    velocity, pressure = stokes_flow_at(flow, points)
    return points, distance[:, None], torch.cat((pressure[:, None], velocity), -1)
