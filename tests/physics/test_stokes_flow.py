"""Slow flow past bodies against exact ones, and the samples against their promises."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from slipstream.bench.stokes import (
    SHAPES,
    STREAMS,
    ellipsoid_errors,
    on_mesh,
    relative,
    wall_points,
)
from slipstream.core.runtime import generator
from slipstream.physics.bodies import draw_body, ellipsoid, icosphere, sphere, unit
from slipstream.physics.scenes import draw_scene, frequency_for
from slipstream.physics.stokes_exact import (
    ellipsoid_drag,
    ellipsoid_stokes_flow,
    ellipsoid_traction,
)
from slipstream.physics.stokes_flow import COLUMNS, Stokes, make_sample, solve_scene, wall_stress
from slipstream.physics.stokes_solver import (
    StokesFlow,
    pressure_and_shear,
    solve_stokes,
    stokes_flow_at,
)
from slipstream.physics.surface import SurfacePoints
from slipstream.physics.triangles import signed_distance

AXES = torch.eye(3, dtype=torch.float64)
STREAM = unit(torch.tensor([1.0, 0.3, 0.2], dtype=torch.float64))
SMALL = Stokes(points=300, panels=180)


def outside(draw: torch.Generator, axes: Tensor, count: int = 20) -> Tensor:
    body = ellipsoid(axes.tolist())
    wall = body.at(unit(torch.randn(count, 3, generator=draw, dtype=torch.float64)))
    height = torch.rand(count, 1, generator=draw, dtype=torch.float64)
    return wall.positions + (0.1 + height) * wall.normals


def test_exact_sphere(draw: torch.Generator) -> None:
    """Stokes (1851)."""
    radius, axes = 0.7, torch.full((3,), 0.7, dtype=torch.float64)
    x = outside(draw, axes)
    r, along = x.norm(dim=-1, keepdim=True), (x @ STREAM)[:, None]
    near, far = radius**3 / (4 * r**3), 3 * radius / (4 * r)
    expected = STREAM * (1 - far - near) + along * x / r**2 * (3 * near - far)
    velocity, pressure = ellipsoid_stokes_flow(axes, STREAM, x)
    torch.testing.assert_close(velocity, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(pressure, (-1.5 * radius * along / r**3)[:, 0], rtol=1e-10, atol=0)
    drag = ellipsoid_drag(axes, STREAM)
    torch.testing.assert_close(drag, 6 * math.pi * radius * STREAM, rtol=1e-12, atol=0)


def test_exact_ellipsoid_is_a_stokes_flow_at_rest_on_its_wall(draw: torch.Generator) -> None:
    axes = torch.tensor([0.5, 1.0, 0.12], dtype=torch.float64)
    s = unit(torch.randn(50, 3, generator=draw, dtype=torch.float64))
    wall = ellipsoid(axes.tolist()).at(s)
    velocity, pressure = ellipsoid_stokes_flow(axes, STREAM, wall.positions)
    assert velocity.abs().max() < 1e-12
    traction = ellipsoid_traction(axes, STREAM, wall.positions)
    expected = pressure_and_shear(traction, wall.normals)
    torch.testing.assert_close(expected[0], pressure, rtol=1e-9, atol=1e-9)
    rise = ellipsoid_stokes_flow(axes, STREAM, wall.positions + 1e-6 * wall.normals)[0] / 1e-6
    torch.testing.assert_close(rise, expected[1], rtol=1e-3, atol=1e-3)  # shear = slope of velocity
    x, step = outside(draw, axes), 1e-3
    ahead, behind = (
        [ellipsoid_stokes_flow(axes, STREAM, x + sign * step * axis) for axis in AXES]
        for sign in (1, -1)
    )
    flux = sum(a[0][:, k] - b[0][:, k] for k, (a, b) in enumerate(zip(ahead, behind, strict=True)))
    assert torch.as_tensor(flux).abs().max() < 1e-4 * 2 * step  # no sources
    here = ellipsoid_stokes_flow(axes, STREAM, x)[0]
    bend = sum(a[0] + b[0] - 2 * here for a, b in zip(ahead, behind, strict=True)) / step**2
    pressed = torch.stack([a[1] - b[1] for a, b in zip(ahead, behind, strict=True)], -1)
    torch.testing.assert_close(bend, pressed / (2 * step), rtol=1e-3, atol=1e-3)
    far = ellipsoid_stokes_flow(axes, STREAM, 1e6 * s)[0]
    torch.testing.assert_close(far, STREAM.expand(50, 3), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "stream"),
    [("sphere", "along"), *product(("prolate 1:4", "oblate 1:4"), STREAMS)],
)
def test_traction_and_drag_of_ellipsoids_by_order(shape: str, stream: str) -> None:
    body, along = ellipsoid(SHAPES[shape]), torch.tensor(STREAMS[stream]).double()
    rows = [ellipsoid_errors(solve_stokes((body,), along, frequency=n)) for n in (3, 4, 6)]
    for name, least in (("pressure", 1.2), ("shear", 1.4), ("drag", 2.0), ("velocity near", 1.5)):
        errors = [row[name] for row in rows]
        assert errors[0] > errors[1] > errors[2]
        assert math.log(errors[0] / errors[2]) / math.log(2) > least, name
    assert rows[2]["shear"] < 0.013 and rows[2]["drag"] < 4e-4 and rows[2]["pressure"] < 0.014


@pytest.mark.parametrize(("shape", "stream"), [("prolate 1:4", "along"), ("oblate 1:4", "along")])
def test_ellipsoids_at_the_default_resolution(shape: str, stream: str) -> None:
    body, along = ellipsoid(SHAPES[shape]), torch.tensor(STREAMS[stream]).double()
    flow = solve_stokes((body,), along, frequency=frequency_for(Stokes().panels, 1))
    errors = ellipsoid_errors(flow)
    assert errors["shear"] < 0.008 and errors["drag"] < 2e-4 and errors["pressure"] < 0.008
    assert errors["velocity near"] < 0.004 and errors["pressure near"] < 0.007


def test_reciprocal_theorem() -> None:
    """The force along one direction in a stream along another is the same the other way round."""
    body = draw_body("wing", 0.2, generator(0, "reciprocal"))
    resistance = torch.cat([solve_stokes((body,), e, frequency=4).forces for e in AXES])
    torch.testing.assert_close(resistance, resistance.T, rtol=0, atol=1e-9)
    assert (torch.linalg.eigvalsh(resistance) > 0).all(), "friction takes energy out of the stream"
    assert (resistance - resistance.diagonal().diag()).abs().max() > 0.1, "not so by symmetry"


def test_of_two_bodies_each_shields_the_other() -> None:
    pair = (sphere(1.0, (-50.0, 0.0, 0.0)), sphere(0.5, (50.0, 0.0, 0.0)))
    apart = solve_stokes(pair, AXES[0], frequency=3).forces
    alone = torch.cat([solve_stokes((one,), AXES[0], frequency=3).forces for one in pair])
    # Far apart, each is in the stream that the other's stokeslet leaves: U (1 - 3/2 a / distance).
    expected = alone * (1 - 1.5 * torch.tensor([[0.5], [1.0]]).double() / 100)
    torch.testing.assert_close(apart, expected, rtol=3e-4, atol=1e-6)
    pair = (sphere(1.0, (0.0, 0.0, 0.0)), sphere(1.0, (2.5, 0.0, 0.0)))
    close = solve_stokes(pair, AXES[0], frequency=5).forces[:, 0] / (6 * math.pi)
    torch.testing.assert_close(
        close, torch.full((2,), two_spheres(2.5)).double(), rtol=2e-3, atol=0
    )


def two_spheres(distance: float) -> float:
    """Drag of each of two unit spheres along their line of centres, over that of a single one
    (Stimson and Jeffery, 1926)."""
    alpha, total = math.acosh(distance / 2), 0.0
    for n in range(1, 60):
        above = 4 * math.sinh((n + 0.5) * alpha) ** 2 - ((2 * n + 1) * math.sinh(alpha)) ** 2
        below = 2 * math.sinh((2 * n + 1) * alpha) + (2 * n + 1) * math.sinh(2 * alpha)
        total += n * (n + 1) / ((2 * n - 1) * (2 * n + 3)) * (1 - above / below)
    return 4 / 3 * math.sinh(alpha) * total


def test_random_bodies_agree_with_a_finer_mesh() -> None:
    body = draw_body("car", 0.1, generator(0, "finer"))
    fine, coarse = (solve_stokes((body,), STREAM, frequency=n) for n in (7, 4))
    at = wall_points(fine)
    _, _, *best = wall_stress(fine, at)
    _, _, *stress = wall_stress(coarse, on_mesh(at, fine, coarse))
    assert relative(stress[0], best[0]) < 0.05 and relative(stress[1], best[1]) < 0.04
    assert (fine.forces - coarse.forces).norm() < 0.004 * fine.forces.norm()


def test_stress_scales_with_viscosity_and_the_flow_moves_with_the_body() -> None:
    body = draw_body("car", 0.1, generator(0, "moved"))
    shift = torch.tensor([3.0, -2.0, 1.0]).double()
    thin = solve_stokes((body,), STREAM, frequency=3)
    thick = solve_stokes((body.moved(shift),), STREAM, frequency=3, viscosity=5.0)
    torch.testing.assert_close(thick.tractions, 5 * thin.tractions, rtol=1e-8, atol=1e-8)
    x = body.at(unit(AXES + 0.2)).positions * 1.5
    one, other = stokes_flow_at(thin, x), stokes_flow_at(thick, x + shift)
    torch.testing.assert_close(other[0], one[0], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(other[1], 5 * one[1], rtol=1e-8, atol=1e-8)


def test_velocity_vanishes_on_the_wall_and_far_away_the_body_is_its_force() -> None:
    body = draw_body("blunt", 0.1, generator(0, "wall"))
    leaks = []
    for frequency in (4, 8):
        flow = solve_stokes((body,), STREAM, frequency=frequency)
        wall = body.at(unit(icosphere(5).centroids))
        leaks.append(float(stokes_flow_at(flow, wall.positions)[0].norm(dim=-1).mean()))
    assert leaks[1] < 0.002 and leaks[1] < 0.45 * leaks[0]
    x = 1e3 * unit(AXES + 0.2)
    r, force = 1e3, flow.forces[0]
    disturbance = -(force / r + (x @ force)[:, None] * x / r**3) / (8 * math.pi)
    velocity, pressure = stokes_flow_at(flow, x)
    torch.testing.assert_close(velocity - STREAM, disturbance, rtol=2e-3, atol=1e-9)
    torch.testing.assert_close(pressure, -(x @ force) / (4 * math.pi * r**3), rtol=5e-3, atol=0)


def test_pressure_and_shear_of_the_volume_meet_those_of_the_wall() -> None:
    pair = (ellipsoid((0.6, 0.5, 0.7)), sphere(0.8, (1.9, 0.0, 0.0)))
    flow = solve_stokes(pair, AXES[0], frequency=6)
    x, normal, pressure, shear = wall_stress(flow, wall_points(flow))
    near = [stokes_flow_at(flow, x + away * normal) for away in (0.06, 0.12, 0.18)]
    met = 3 * near[0][1] - 3 * near[1][1] + near[2][1]
    assert relative(met, pressure) < 0.05
    first = x[:, 0] < 0.9  # each shifts the pressure on the other, as the constant inside tells
    for own in (first, ~first):
        assert pressure[own].mean().abs() > 0.05
        assert (met - pressure)[own].mean().abs() < 0.01
    slopes = [velocity / away for (velocity, _), away in zip(near, (0.06, 0.12, 0.18), strict=True)]
    assert relative(3 * slopes[0] - 3 * slopes[1] + slopes[2], shear) < 0.03


def everywhere(flow: StokesFlow) -> SurfacePoints:
    directions = unit(icosphere(flow.frequency).centroids)
    return SurfacePoints(torch.arange(len(directions)), directions)


def test_the_drag_of_a_body_is_the_integral_of_its_stored_stress() -> None:
    config = Stokes(points=4096, panels=500, inflow="varying")
    cloud = make_sample("stokes-surface", config, seed=0, sample=1)
    normal, pressure, shear = cloud.features[:, :3], cloud.targets[:, :1], cloud.targets[:, 1:]
    stress = (shear - pressure * normal).double() * cloud.parameters["area"]
    force = torch.tensor(cloud.parameters["force"], dtype=torch.float64)
    error = stress.std(0) / len(stress) ** 0.5
    assert ((stress.mean(0) - force).abs() < 4 * error).all(), "points are drawn evenly by area"
    assert float(error.max()) < 0.02 * float(force.norm())
    flow = solve_scene(config, seed=0, sample=1)
    _, n, p, tau = wall_stress(flow, everywhere(flow))
    summed = ((tau - p[:, None] * n) * flow.mesh.areas[:, None]).sum(0)
    assert (summed - force).norm() < 0.01 * force.norm()
    torch.testing.assert_close(flow.forces.sum(0), force, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("problem", COLUMNS)
def test_samples_hold_what_they_say(problem: str) -> None:
    config = Stokes(points=200, panels=360, bodies=(2, 2), inflow="varying", speed=(2.0, 3.0))
    cloud = make_sample(problem, config, seed=0, sample=1)
    bodies, stream = draw_scene(config, seed=0, sample=1)
    flow = solve_scene(config, seed=0, sample=1)
    x, targets = cloud.coords.double(), cloud.targets.double()
    assert len(flow.bodies) == len(bodies) == 2 and cloud.coords.dtype == torch.float32
    torch.testing.assert_close(cloud.features[:, -3:], stream.float().expand(200, 3))
    widths = [sum(q.components for q in part) for part in COLUMNS[problem]]
    assert [p.shape[1] for p in (x, cloud.features, targets)] == widths
    if problem == "stokes-surface":
        normal = cloud.features[:, :3].double()
        assert (targets[:, 1:] * normal).sum(-1).abs().max() < 1e-4, "along the wall"
        assert targets[:, 0].max() > 0 > targets[:, 0].min()
    else:
        distance = signed_distance(flow.mesh, x)
        torch.testing.assert_close(cloud.features[:, 0].double(), distance, rtol=0, atol=1e-5)
        velocity, pressure = stokes_flow_at(flow, x)
        torch.testing.assert_close(targets[:, 1:], velocity, rtol=0, atol=1e-4)
        torch.testing.assert_close(targets[:, 0], pressure, rtol=1e-4, atol=1e-3)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="viscosity must be positive, got 0"):
        Stokes(viscosity=0.0)
    with pytest.raises(ValueError, match="panels must be a whole number of at least 80, got 79"):
        Stokes(panels=79)
    with pytest.raises(ValueError, match="problem must be one of .*, got 'stokes'"):
        make_sample("stokes", SMALL, seed=0, sample=0)
    with pytest.raises(ValueError, match="sample must be a whole number of at least 0, got -1"):
        make_sample("stokes-volume", SMALL, seed=0, sample=-1)
