"""The panel integrals against quadrature, and the system against what flux and symmetry demand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from slipstream.physics import triangles
from slipstream.physics.bodies import draw_body, ellipsoid, icosphere, sphere
from slipstream.physics.ellipsoid import demagnetising, ellipsoid_velocity
from slipstream.physics.panels import (
    centroid_potential,
    flat_influence_matrix,
    induced_flow,
    influence_matrix,
    kept_integrals,
    pressure_coefficient,
    solve_sources,
)
from slipstream.physics.triangles import TriangleMesh, join

STREAM = torch.tensor([0.9, 0.3, -0.2], dtype=torch.float64)


def one_panel() -> TriangleMesh:
    corners = torch.tensor([[0.1, 0.2, 0.0], [1.0, 0.0, 0.3], [0.2, 0.9, 0.5]]).double()
    return TriangleMesh(corners, torch.tensor([[0, 1, 2]]))


def quadrature(mesh: TriangleMesh, x: Tensor, cuts: int = 200) -> tuple[Tensor, Tensor]:
    """The same integrals by midpoints of cuts^2 small triangles."""
    up = [(i + 1 / 3, j + 1 / 3) for i in range(cuts) for j in range(cuts - i)]
    down = [(i + 2 / 3, j + 2 / 3) for i in range(cuts) for j in range(cuts - i - 1)]
    b, c = (torch.tensor(up + down).double() / cuts).unbind(1)
    y = torch.stack((1 - b - c, b, c), -1) @ mesh.corners[0]
    offset = x[:, None] - y
    r = offset.norm(dim=-1)
    weight = float(mesh.areas[0]) / len(y) / (4 * math.pi)
    return weight * (offset / r[..., None] ** 3).sum(1), -weight * (1 / r).sum(1)


def test_the_integrals_are_those_of_a_quadrature(draw: torch.Generator) -> None:
    mesh = one_panel()
    near = mesh.centroids + torch.tensor([[0.0, 0, 0.2], [0.3, 0.3, -0.1], [-0.5, 0.1, 0]])
    x = torch.cat((near, 2 * torch.randn(20, 3, generator=draw, dtype=torch.float64)))
    velocity, potential = induced_flow(mesh, torch.ones(1).double(), x)
    expected = quadrature(mesh, x)
    torch.testing.assert_close(velocity, expected[0], rtol=3e-4, atol=1e-6)
    torch.testing.assert_close(potential, expected[1], rtol=3e-4, atol=1e-6)


def test_velocity_is_the_gradient_of_the_potential(draw: torch.Generator) -> None:
    mesh = sphere().mesh(3)
    strengths = torch.randn(len(mesh.faces), generator=draw, dtype=torch.float64)
    x = 2 * torch.randn(20, 3, generator=draw, dtype=torch.float64)
    step = 1e-5 * torch.eye(3, dtype=torch.float64)
    ahead, behind = (
        torch.stack([induced_flow(mesh, strengths, x + sign * d)[1] for d in step], -1)
        for sign in (1, -1)
    )
    velocity = induced_flow(mesh, strengths, x)[0]
    torch.testing.assert_close(velocity, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-8)


def test_far_away_a_panel_is_a_point_source() -> None:
    mesh = one_panel()
    for r in (1e2, 1e4):
        x = mesh.centroids + torch.tensor([[0.6 * r, 0.0, 0.8 * r]]).double()
        velocity, potential = induced_flow(mesh, torch.ones(1).double(), x)
        expected = mesh.areas / (4 * math.pi * r**2) * torch.tensor([[0.6, 0.0, 0.8]]).double()
        torch.testing.assert_close(velocity, expected, rtol=1e-3, atol=1e-6 / r**2)
        torch.testing.assert_close(potential, -mesh.areas / (4 * math.pi * r), rtol=1e-3, atol=0)


def test_the_normal_velocity_jumps_by_the_strength_across_a_panel() -> None:
    mesh = one_panel()
    sides = torch.cat([mesh.centroids + sign * 1e-9 * mesh.normals for sign in (1, -1)])
    normal = induced_flow(mesh, torch.ones(1).double(), sides)[0] @ mesh.normals[0]
    torch.testing.assert_close(normal, torch.tensor([0.5, -0.5]).double(), rtol=0, atol=1e-6)
    assert float(flat_influence_matrix(mesh)[0, 0]) == pytest.approx(0.5, abs=1e-12)


def test_points_on_edges_and_corners_give_numbers() -> None:
    mesh = icosphere(2)
    ends = mesh.vertices[mesh.edges]
    x = torch.cat((mesh.vertices, ends.mean(1)))
    velocity, potential = induced_flow(mesh, torch.ones(len(mesh.faces)).double(), x)
    assert velocity.isfinite().all() and potential.isfinite().all()


def test_flux_is_conserved(draw: torch.Generator) -> None:
    mesh = draw_body("car", 0.1, draw).mesh(6)
    matrix = influence_matrix(mesh)
    torch.testing.assert_close(mesh.areas @ matrix, mesh.areas, rtol=1e-11, atol=0)
    added = (matrix - flat_influence_matrix(mesh)).diagonal()
    assert (matrix - flat_influence_matrix(mesh)).count_nonzero() == len(added)
    assert 0 < added.mean() and added.abs().max() < 0.2  # the curvature of a panel, of order h
    strengths = solve_sources(mesh, STREAM)
    assert abs(float(mesh.areas @ strengths)) < 1e-12 * float(mesh.areas @ strengths.abs())


def test_kept_integrals_change_nothing(
    draw: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = draw_body("car", 0.1, draw).mesh(4)
    kept = kept_integrals(mesh)
    assert kept is not None
    before = [part.clone() for part in kept]
    strengths = solve_sources(mesh, STREAM)
    assert torch.equal(solve_sources(mesh, STREAM, kept), strengths)
    potential = centroid_potential(mesh, strengths, kept)
    assert torch.equal(potential, centroid_potential(mesh, strengths))
    assert all(torch.equal(*pair) for pair in zip(kept, before, strict=True)), "left as they were"
    monkeypatch.setitem(triangles.PAIRS, "cpu", len(mesh.faces) ** 2 - 1)
    assert kept_integrals(mesh) is None, "more than is worked on at once"
    torch.testing.assert_close(centroid_potential(mesh, strengths), potential, rtol=1e-13, atol=0)


def test_the_flow_turns_and_moves_with_the_body(draw: torch.Generator) -> None:
    mesh = draw_body("wing", 0.1, draw).mesh(4)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))
    turn = turn * turn.det()
    shift = torch.tensor([3.0, -2.0, 1.0]).double()
    moved = TriangleMesh(mesh.vertices @ turn.T + shift, mesh.faces)
    strengths, turned = solve_sources(mesh, STREAM), solve_sources(moved, turn @ STREAM)
    torch.testing.assert_close(turned, strengths, rtol=1e-9, atol=1e-11)
    x = 3 * torch.randn(50, 3, generator=draw, dtype=torch.float64)
    one, other = induced_flow(mesh, strengths, x), induced_flow(moved, turned, x @ turn.T + shift)
    torch.testing.assert_close(other[0], one[0] @ turn.T, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(other[1], one[1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(
        centroid_potential(moved, turned),
        centroid_potential(mesh, strengths),
        rtol=1e-9,
        atol=1e-10,
    )


def test_the_disturbance_decays_like_that_of_a_dipole(draw: torch.Generator) -> None:
    mesh = draw_body("car", 0.1, draw).mesh(6)
    strengths = solve_sources(mesh, STREAM)
    direction = torch.nn.functional.normalize(torch.randn(10, 3, generator=draw).double(), dim=-1)
    near, far = (induced_flow(mesh, strengths, r * direction)[0].norm(dim=-1) for r in (50, 100))
    torch.testing.assert_close(near / far, torch.full((10,), 8.0).double(), rtol=0.05, atol=0)


def test_far_apart_two_bodies_are_two_single_ones(draw: torch.Generator) -> None:
    one = draw_body("blunt", 0.1, draw)
    meshes = [one.mesh(4), draw_body("car", 0.1, draw).moved(200 * STREAM).mesh(4)]
    together = solve_sources(join(meshes), STREAM)
    apart = torch.cat([solve_sources(mesh, STREAM) for mesh in meshes])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-5)
    nearer = join([meshes[0], one.moved(2 * STREAM).mesh(4)])
    assert (solve_sources(nearer, STREAM)[:320] - apart[:320]).abs().max() > 0.01


def test_exact_sphere() -> None:
    radius = 0.7
    x = torch.tensor([[0.7, 0, 0], [0, 0.7, 0], [0.5, 1, -2]], dtype=torch.float64)
    r = x.norm(dim=-1, keepdim=True)
    dipole = STREAM / r**3 - 3 * (x @ STREAM)[:, None] * x / r**5
    found = ellipsoid_velocity(torch.full((3,), radius, dtype=torch.float64), STREAM, x)
    torch.testing.assert_close(found, STREAM + radius**3 / 2 * dipole, rtol=1e-10, atol=1e-12)


def test_exact_ellipsoid_is_a_potential_flow_along_its_wall(draw: torch.Generator) -> None:
    body = ellipsoid((0.5, 1.0, 0.12))
    s = torch.nn.functional.normalize(torch.randn(50, 3, generator=draw).double(), dim=-1)
    x, n = body.at(s).positions, body.at(s).normals
    velocity = ellipsoid_velocity(body.axes, STREAM, x)
    assert (velocity * n).sum(-1).abs().max() < 1e-10
    assert float(demagnetising(body.axes, torch.zeros(1).double()).sum()) == pytest.approx(2)
    outside, step = x + 0.3 * n, 1e-5 * torch.eye(3, dtype=torch.float64)
    jacobian = torch.stack(
        [
            ellipsoid_velocity(body.axes, STREAM, outside + d)
            - ellipsoid_velocity(body.axes, STREAM, outside - d)
            for d in step
        ],
        -1,
    ) / (2e-5)
    assert jacobian.diagonal(dim1=1, dim2=2).sum(-1).abs().max() < 1e-6  # no sources
    assert (jacobian - jacobian.mT).abs().max() < 1e-6  # no vortices
    far = ellipsoid_velocity(body.axes, STREAM, 1e3 * s)
    torch.testing.assert_close(far, STREAM.expand(50, 3), rtol=0, atol=1e-8)


def test_pressure_coefficient() -> None:
    velocity = torch.tensor([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]])
    found = pressure_coefficient(velocity, torch.tensor([2.0, 0.0, 0.0]))
    assert found.tolist() == [1.0, -1.25, -3.0]


def test_bad_arguments(no_shape_checks: None) -> None:
    mesh = icosphere(1)
    with pytest.raises(ValueError, match=r"freestream must have shape \(3\) = \(3\), got \(2,\)"):
        solve_sources(mesh, torch.zeros(2).double())
    with pytest.raises(ValueError, match=r"strengths must have shape \(F\) = \(20\), got \(3,\)"):
        induced_flow(mesh, torch.zeros(3).double(), mesh.centroids)
    with pytest.raises(ValueError, match="points must have shape"):
        induced_flow(mesh, torch.zeros(20).double(), torch.zeros(3).double())
    with pytest.raises(ValueError, match="axes must have shape"):
        ellipsoid_velocity(torch.ones(2), STREAM, mesh.centroids)
