"""Samples of three-dimensional potential flow past one or two random smooth bodies.

The targets of `potential-flow-surface` are pressure and velocity on the wall, those of
`potential-flow-volume` both in the fluid around it. Sample k of a seed has the same bodies in the
same stream in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.runtime import generator
from slipstream.core.shapes import Float
from slipstream.physics.bodies import Body
from slipstream.physics.panels import (
    Integrals,
    centroid_potential,
    induced_flow,
    kept_integrals,
    pressure_coefficient,
    solve_sources,
)
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
    Walls,
    draw_scene,
    draw_volume,
    each_body,
    frequency_for,
)
from slipstream.physics.surface import SurfacePoints, draw_on_surface, surface_gradient
from slipstream.physics.triangles import join

PRESSURE = Quantity("pressure_coefficient", "1", 1)
SURFACE_VELOCITY = Quantity("surface_velocity", "m/s", 3)

COLUMNS = {
    "potential-flow-surface": FlowColumns(
        (POSITION,), (NORMAL, FREESTREAM), (PRESSURE, SURFACE_VELOCITY)
    ),
    "potential-flow-volume": FlowColumns((POSITION,), (DISTANCE, FREESTREAM), (PRESSURE, VELOCITY)),
}


@dataclass(frozen=True, kw_only=True)
class PotentialFlow(Scenes):
    """Which samples there may be."""

    panels: int = 4000
    """The most panels of a sample, shared by its bodies; each gets 20 n^2 of them. With 4000 the
    relative L1 error of the pressure on one ellipsoid is near 0.2 %."""


@dataclass(frozen=True, eq=False)
class Flow(Walls):
    """The solved flow past bodies, in float64."""

    freestream: Float[Tensor, " 3"]
    strengths: Float[Tensor, " F"]
    kept: Integrals | None = None


def make_sample(
    problem: str, config: PotentialFlow, *, seed: int, sample: int, device: str = "cpu"
) -> Sample:
    """One sample, a pure function of its arguments, on the device on which it is solved.

    All draws are made on the CPU, so that devices differ by rounding only.
    """
    check_choice("problem", problem, COLUMNS)
    check_whole("sample", sample, 0)
    bodies, freestream = draw_scene(config, seed=seed, sample=sample)
    flow = solve_flow(
        bodies, freestream, frequency=frequency_for(config.panels, len(bodies)), device=device
    )
    draw = generator(seed, problem, sample)
    make = _surface_sample if problem == "potential-flow-surface" else _volume_sample
    coords, features, targets = make(config, flow, draw)
    stream = flow.freestream.expand(len(coords), 3)
    return Sample(coords.float(), torch.cat((features, stream), -1).float(), targets.float())


def solve_flow(
    bodies: tuple[Body, ...], freestream: Tensor, *, frequency: int, device: str = "cpu"
) -> Flow:
    bodies = tuple(body.to(device) for body in bodies)
    mesh = join([body.mesh(frequency) for body in bodies])
    freestream, kept = freestream.to(mesh.vertices), kept_integrals(mesh)
    strengths = solve_sources(mesh, freestream, kept)
    return Flow(bodies, frequency, mesh, freestream, strengths, kept)


def wall_flow(flow: Flow, at: SurfacePoints) -> tuple[Tensor, Tensor, Tensor]:
    """Positions, normals and velocity, (P, 3) each, of points on the smooth walls.

    The velocity is the part of the freestream along the wall plus the gradient along the wall of
    the sources' potential, so that nothing flows through.
    """
    potential = centroid_potential(flow.mesh, flow.strengths, flow.kept)
    position, normal, velocity = (torch.empty_like(at.directions) for _ in range(3))
    for rows, wall, face, panels in each_body(flow, at):
        n = wall.normals
        position[rows], normal[rows] = wall.positions, n
        gradient = surface_gradient(wall, face, potential[panels], frequency=flow.frequency)
        velocity[rows] = flow.freestream - (n @ flow.freestream)[:, None] * n + gradient
    return position, normal, velocity


def volume_flow(flow: Flow, points: Tensor) -> Float[Tensor, "P 3"]:
    """Velocity at points outside the bodies; see `PotentialFlow.clearance`."""
    return flow.freestream + induced_flow(flow.mesh, flow.strengths, points)[0]


def _surface_sample(
    config: PotentialFlow, flow: Flow, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    numbers = torch.rand(config.points, 3, generator=draw, dtype=torch.float64)
    at = draw_on_surface(flow.mesh, flow.frequency, numbers.to(flow.mesh.vertices.device))
    position, normal, velocity = wall_flow(flow, at)
    pressure = pressure_coefficient(velocity, flow.freestream)[:, None]
    return position, normal, torch.cat((pressure, velocity), -1)


def _volume_sample(
    config: PotentialFlow, flow: Flow, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    points, distance = draw_volume(config, flow, draw)
    velocity = volume_flow(flow, points)
    pressure = pressure_coefficient(velocity, flow.freestream)[:, None]
    return points, distance[:, None], torch.cat((pressure, velocity), -1)
