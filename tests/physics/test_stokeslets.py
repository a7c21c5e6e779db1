"""The integrals of stokeslets against quadrature, and what Stokes' equations demand of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from slipstream.physics import triangles
from slipstream.physics.bodies import draw_body, sphere
from slipstream.physics.stokeslets import stokeslet_flow, stokeslet_matrix
from slipstream.physics.triangles import TriangleMesh

STEP = 1e-4


def one_panel() -> TriangleMesh:
    corners = torch.tensor([[0.1, 0.2, 0.0], [1.0, 0.0, 0.3], [0.2, 0.9, 0.5]]).double()
    return TriangleMesh(corners, torch.tensor([[0, 1, 2]]))


def random(*shape: int, draw: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def quadrature(mesh: TriangleMesh, force: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Velocity and pressure by the midpoints of 200^2 small triangles."""
    cuts = 200
    up = [(i + 1 / 3, j + 1 / 3) for i in range(cuts) for j in range(cuts - i)]
    down = [(i + 2 / 3, j + 2 / 3) for i in range(cuts) for j in range(cuts - i - 1)]
    b, c = (torch.tensor(up + down).double() / cuts).unbind(1)
    r = x[:, None] - torch.stack((1 - b - c, b, c), -1) @ mesh.corners[0]
    length, along = r.norm(dim=-1, keepdim=True), (r @ force)[..., None]
    area = mesh.areas[0] / len(b)
    velocity = (force / length + r * along / length**3).sum(1) * area / (8 * math.pi)
    return velocity, (along / length**3).sum((1, 2)) * area / (4 * math.pi)


def test_the_integrals_are_those_of_a_quadrature(draw: torch.Generator) -> None:
    mesh, force = one_panel(), random(3, draw=draw)
    near = mesh.centroids + torch.tensor([[0.0, 0, 0.2], [0.3, 0.3, -0.1], [-0.5, 0.1, 0]])
    x = torch.cat((near, 2 * random(20, 3, draw=draw)))
    velocity, pressure = stokeslet_flow(mesh, force[None], x)
    expected = quadrature(mesh, force, x)
    torch.testing.assert_close(velocity, expected[0], rtol=3e-4, atol=1e-6)
    torch.testing.assert_close(pressure, expected[1], rtol=1e-3, atol=1e-5)


def test_velocity_is_continuous_across_a_panel_and_pressure_jumps(draw: torch.Generator) -> None:
    mesh, force = one_panel(), random(3, draw=draw)
    inside = torch.tensor([[0.3, 0.3, 0.4], [0.05, 0.9, 0.05]]).double() @ mesh.corners[0]
    above, within, below = (
        stokeslet_flow(mesh, force[None], inside + height * mesh.normals)
        for height in (1e-7, 0, -1e-7)
    )
    torch.testing.assert_close(above[0], within[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(below[0], within[0], rtol=0, atol=1e-6)
    jump = (force @ mesh.normals[0]).expand(2)
    torch.testing.assert_close(above[1] - below[1], jump, rtol=0, atol=1e-5)


def test_the_flow_obeys_the_equations_of_stokes(draw: torch.Generator) -> None:
    """By differences: no sources, and the viscous force balances the gradient of pressure."""
    mesh = draw_body("car", 0.1, draw).mesh(2)
    forces, x = random(80, 3, draw=draw), 1.5 + random(8, 3, draw=draw).abs()
    steps = STEP * torch.eye(3, dtype=torch.float64)
    ahead = [stokeslet_flow(mesh, forces, x + step) for step in steps]
    behind = [stokeslet_flow(mesh, forces, x - step) for step in steps]
    slope = [(a[0] - b[0]) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
    sources = sum(slope[k][:, k] for k in range(3))
    assert torch.as_tensor(sources).abs().max() < 1e-7 * torch.stack(slope).abs().max()
    here = stokeslet_flow(mesh, forces, x)[0]
    bend = sum(a[0] + b[0] - 2 * here for a, b in zip(ahead, behind, strict=True)) / STEP**2
    pressed = torch.stack([a[1] - b[1] for a, b in zip(ahead, behind, strict=True)], -1)
    torch.testing.assert_close(bend, pressed / (2 * STEP), rtol=1e-4, atol=1e-6)


def test_forces_along_the_normals_of_a_closed_body_move_nothing(draw: torch.Generator) -> None:
    mesh = draw_body("wing", 0.1, draw).mesh(3)
    x = torch.cat((2 * random(20, 3, draw=draw), torch.zeros(1, 3).double()))
    velocity, pressure = stokeslet_flow(mesh, mesh.normals, x)
    assert velocity.abs().max() < 1e-13
    assert pressure[-1].item() == pytest.approx(-1, abs=1e-12), "inside"


def test_the_matrix_is_the_flow_averaged_over_panels(draw: torch.Generator) -> None:
    """And over both orders, of the panel that exerts and the one that receives."""
    mesh = draw_body("slender", 0.1, draw).mesh(2)
    matrix = stokeslet_matrix(mesh)
    assert torch.equal(matrix, matrix.T)
    rule = torch.tensor([[4.0, 1, 1], [1, 4, 1], [1, 1, 4]]).double() / 6
    points = (rule @ mesh.corners).flatten(0, 1)

    def power(one: Tensor, other: Tensor) -> Tensor:
        velocity = stokeslet_flow(mesh, other, points)[0].view(-1, 3, 3).mean(1)
        return 8 * math.pi * (velocity * one * mesh.areas[:, None]).sum()

    one, other = random(80, 3, draw=draw), random(80, 3, draw=draw)
    expected = (power(one, other) + power(other, one)) / 2
    torch.testing.assert_close(one.T.flatten() @ matrix @ other.T.flatten(), expected)


def test_blocks_change_nothing(draw: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = sphere().mesh(2)
    whole = stokeslet_matrix(mesh)
    monkeypatch.setitem(triangles.PAIRS, "cpu", 7 * len(mesh.faces))
    torch.testing.assert_close(stokeslet_matrix(mesh), whole, rtol=0, atol=1e-15)


def test_bad_arguments(no_shape_checks: None) -> None:
    mesh = sphere().mesh(1)
    with pytest.raises(ValueError, match="forces must have shape"):
        stokeslet_flow(mesh, torch.zeros(3, 3).double(), mesh.centroids)
    with pytest.raises(ValueError, match="points must have shape"):
        stokeslet_flow(mesh, torch.zeros(20, 3).double(), torch.zeros(3).double())
