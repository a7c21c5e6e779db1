"""How good the built-in Stokes flow is: errors against exact ellipsoids, and against finer meshes.

Errors are relative L1 over points drawn evenly on the wall, as the tables of models have them; that
of the drag is relative. `near` is at the least distance that volume points have from the wall.
Seconds are those of the processor, of all threads together, to solve the flow.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from slipstream.core.runtime import generator
from slipstream.physics.bodies import FAMILIES, Body, draw_body, ellipsoid, icosphere, unit
from slipstream.physics.scenes import draw_scene, frequency_for
from slipstream.physics.stokes_exact import (
    ellipsoid_drag,
    ellipsoid_stokes_flow,
    ellipsoid_traction,
)
from slipstream.physics.stokes_flow import Stokes, wall_stress
from slipstream.physics.stokes_solver import (
    StokesFlow,
    pressure_and_shear,
    solve_stokes,
    stokes_flow_at,
)
from slipstream.physics.surface import SurfacePoints, draw_on_surface

SHAPES: Mapping[str, tuple[float, float, float]] = {
    "sphere": (1.0, 1.0, 1.0),
    "prolate 1:2": (1.0, 0.5, 0.5),
    "prolate 1:4": (1.0, 0.25, 0.25),
    "oblate 1:2": (0.5, 1.0, 1.0),
    "oblate 1:4": (0.25, 1.0, 1.0),
}
"""Semi-axes, the first one that of revolution."""
STREAMS: Mapping[str, tuple[float, float, float]] = {
    "along": (1.0, 0.0, 0.0),
    "across": (0.0, 1.0, 0.0),
}
PANELS = (320, 500, 720, 1280, 2000)
FINEST = 3380
"""Panels of the meshes with which random bodies are compared."""
RANDOM = 3
"""Random bodies of each family, and pairs."""
POINTS = 2000
Case = tuple[str, int]
"""Name and number of panels of a record."""
STREAM = (0.94, 0.3, 0.16)
"""Of random bodies."""


def ellipsoid_rows(known: Collection[Case] = ()) -> Iterator[dict[str, Any]]:
    """A record for each shape, stream and number of panels that is not `known`."""
    for shape in SHAPES:
        for stream, direction in STREAMS.items():
            if shape == "sphere" and stream == "across":
                continue
            for count in PANELS:
                if (f"{shape} {stream}", count) in known:
                    continue
                start = time.process_time()
                flow = solve_stokes(
                    (ellipsoid(SHAPES[shape]),),
                    torch.tensor(direction, dtype=torch.float64),
                    frequency=frequency_for(count, 1),
                )
                seconds = round(time.process_time() - start, 3)
                yield {
                    "name": f"{shape} {stream}",
                    "shape": shape,
                    "stream": stream,
                    "panels": len(flow.mesh.faces),
                    "errors": ellipsoid_errors(flow),
                    "seconds": seconds,
                    "threads": torch.get_num_threads(),
                }


def ellipsoid_errors(flow: StokesFlow) -> dict[str, float]:
    """Of the flow past one ellipsoid around the origin, at unit viscosity."""
    axes, stream = flow.bodies[0].axes, flow.freestream
    x, normal, pressure, shear = wall_stress(flow, wall_points(flow))
    exact = pressure_and_shear(ellipsoid_traction(axes, stream, x), normal)
    drag = ellipsoid_drag(axes, stream)
    away = x + Stokes().clearance * normal
    velocity, outside = stokes_flow_at(flow, away)
    exact_velocity, exact_outside = ellipsoid_stokes_flow(axes, stream, away)
    return {
        "pressure": relative(pressure, exact[0]),
        "shear": relative(shear, exact[1]),
        "drag": float((flow.forces[0] - drag).norm() / drag.norm()),
        "pressure near": relative(outside, exact_outside),
        "velocity near": relative(velocity, exact_velocity),
    }


def random_rows(
    known: Collection[Case] = (), *, panels: int = Stokes().panels, finest: int = FINEST
) -> Iterator[dict[str, Any]]:
    """A record for each random scene that is not `known`: its flow against that on a finer mesh."""
    stream = torch.tensor(STREAM, dtype=torch.float64)
    for name, bodies in random_scenes():
        if (name, 20 * len(bodies) * frequency_for(panels, len(bodies)) ** 2) in known:
            continue
        fine, flow = (
            solve_stokes(bodies, stream, frequency=frequency_for(count, len(bodies)))
            for count in (finest, panels)
        )
        at = wall_points(fine)
        _, _, *best = wall_stress(fine, at)
        _, _, *stress = wall_stress(flow, on_mesh(at, fine, flow))
        errors = {
            "pressure": relative(stress[0], best[0]),
            "shear": relative(stress[1], best[1]),
            "drag": float((flow.forces - fine.forces).norm() / fine.forces.norm()),
        }
        counts = {"panels": len(flow.mesh.faces), "finest": len(fine.mesh.faces)}
        yield {"name": name, "random": True, **counts, "errors": errors}


def random_scenes() -> Iterator[tuple[str, tuple[Body, ...]]]:
    """Some bodies of each family, and some pairs."""
    config = Stokes(bodies=(2, 2))
    for family in FAMILIES:
        for number in range(1, RANDOM + 1):
            draw = generator(0, "bench-stokes", family, number)
            yield f"{family} {number}", (draw_body(family, config.amplitude, draw),)
    for number in range(1, RANDOM + 1):
        yield f"two bodies {number}", draw_scene(config, seed=0, sample=number)[0]


def wall_points(flow: StokesFlow) -> SurfacePoints:
    """Points drawn evenly over the area of all bodies."""
    draw = generator(0, "bench-stokes-points")
    numbers = torch.rand(POINTS, 3, generator=draw, dtype=torch.float64)
    return draw_on_surface(flow.mesh, flow.frequency, numbers)


def on_mesh(at: SurfacePoints, one: StokesFlow, other: StokesFlow) -> SurfacePoints:
    """Points on the panels of one flow, on those of another past the same bodies."""
    body = at.face // (20 * one.frequency**2)
    centres = unit(icosphere(other.frequency).centroids)
    nearest = (at.directions @ centres.T).argmax(1)
    return SurfacePoints(nearest + body * 20 * other.frequency**2, at.directions)


def relative(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).abs().sum() / exact.abs().sum())


def stokes_tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: errors in percent, against exact ellipsoids and against finer meshes."""
    head = "| {} | panels | pressure | shear | drag | pressure near | velocity near | seconds |"
    parts = []
    exact = [row for row in rows if "shape" in row]
    if exact:
        parts += [head.format("ellipsoid, stream"), "|---|" + "---:|" * 7]
        parts += [_line(row) for row in exact]
    random = [row for row in rows if "random" in row]
    if random:
        head = "| against a mesh of {:,} panels | panels | pressure | shear | drag |"
        parts += ["", head.format(random[0]["finest"]), "|---|" + "---:|" * 4]
        parts += [_line(row) for row in random]
    return "\n".join(parts)


def _line(row: Mapping[str, Any]) -> str:
    errors = [f"{100 * error:.2g} %" for error in row["errors"].values()]
    seconds = [f"{row['seconds']:.2g}"] if "seconds" in row else []
    return "| " + " | ".join([row["name"], f"{row['panels']:,}", *errors, *seconds]) + " |"
