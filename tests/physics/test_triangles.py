"""Areas, winding numbers and distances against brute force and shapes whose answer is known."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.physics import triangles
from slipstream.physics.bodies import icosphere, sphere
from slipstream.physics.triangles import (
    TriangleMesh,
    join,
    nearest_distance,
    point_triangle_distance,
    signed_distance,
    winding_number,
)

TRIANGLE = torch.tensor([[0.0, 0, 0], [2, 0, 0], [0, 1, 0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((0.3, 0.3, 0.7), 0.7),  # above the face
        ((0.3, 0.3, -0.7), 0.7),
        ((0.3, 0.3, 0.0), 0.0),
        ((0.5, -2.0, 0.0), 2.0),  # beside an edge
        ((2.0, 1.0, 0.0), 2 / math.sqrt(5)),  # beside the slanted edge
        ((-3.0, -4.0, 0.0), 5.0),  # beyond a corner
        ((5.0, 0.0, 4.0), 5.0),
    ],
)
def test_distance_to_one_triangle(point: tuple[float, ...], expected: float) -> None:
    found = point_triangle_distance(torch.tensor([point], dtype=torch.float64), TRIANGLE[None])
    assert float(found) == pytest.approx(expected, abs=1e-15)


def test_distance_to_random_triangles_is_the_least_over_their_points(draw: torch.Generator) -> None:
    x = torch.randn(300, 3, generator=draw, dtype=torch.float64)
    corners = torch.randn(300, 3, 3, generator=draw, dtype=torch.float64)
    steps = 60
    shares = torch.tensor(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    )
    grid = (shares / steps).double() @ corners
    least = (x[:, None] - grid).norm(dim=-1).amin(1)
    found = point_triangle_distance(x, corners)
    size = (corners - corners.roll(1, 1)).norm(dim=-1).amax(1)
    assert (found <= least + 1e-12).all()
    assert (least - found <= size / steps).all()


def test_a_triangle_without_area_is_a_segment() -> None:
    flat = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]], dtype=torch.float64)
    found = point_triangle_distance(torch.tensor([[1.5, 3.0, 4.0]]).double(), flat)
    assert float(found) == pytest.approx(5.0)


def test_leaving_triangles_out_changes_nothing(draw: torch.Generator) -> None:
    mesh = icosphere(3)
    x = torch.randn(100, 3, generator=draw, dtype=torch.float64)
    x[0] = 0  # as far from all of them
    pairs = point_triangle_distance(
        x.repeat_interleave(len(mesh.faces), 0), mesh.corners.repeat(100, 1, 1)
    )
    assert torch.equal(nearest_distance(mesh, x), pairs.view(100, -1).amin(1))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, draw: torch.Generator) -> None:
    x = torch.randn(50, 3, generator=draw, dtype=torch.float64)
    whole = signed_distance(icosphere(3), x)
    monkeypatch.setitem(triangles.PAIRS, "cpu", 500)
    torch.testing.assert_close(signed_distance(icosphere(3), x), whole, rtol=1e-14, atol=0)


def test_signed_distance_of_a_sphere(draw: torch.Generator) -> None:
    x = torch.randn(400, 3, generator=draw, dtype=torch.float64)
    mesh = icosphere(10)
    exact = x.norm(dim=-1) - 1
    found = signed_distance(mesh, x)
    sagitta = float(mesh.radii.max() ** 2 / 2)
    assert ((found - exact) >= -1e-12).all() and ((found - exact) <= sagitta * 1.01).all()
    assert (found < 0).any() and (found > 0).any()


def test_winding_number_counts_the_bodies_around() -> None:
    mesh = join([sphere(1.0).mesh(4), sphere(1.0, (4.0, 0.0, 0.0)).mesh(4)])
    x = torch.tensor([[0.0, 0, 0], [4, 0.5, 0], [2, 0, 0], [0, 9, 0]]).double()
    expected = torch.tensor([1.0, 1, 0, 0]).double()
    torch.testing.assert_close(winding_number(mesh, x), expected, rtol=0, atol=1e-13)


def test_every_edge_of_a_closed_mesh_has_two_triangles() -> None:
    mesh = join([icosphere(3), icosphere(2)])
    uses = mesh.face_edges.flatten().bincount()
    assert (uses == 2).all() and len(uses) == len(mesh.edges)
    ends = mesh.edges[mesh.face_edges[:, 1]].sort(-1).values
    assert torch.equal(ends, mesh.faces[:, 1:].sort(-1).values)


def test_bad_meshes(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match=r"vertices must have shape \(V, 3\) = \(V, 3\), got"):
        TriangleMesh(torch.zeros(4, 2), torch.zeros(1, 3).long())
    with pytest.raises(ValueError, match=r"faces must name vertices 0 .. 2, got 0 .. 3"):
        TriangleMesh(TRIANGLE, torch.tensor([[0, 1, 3]]))
    with pytest.raises(ValueError, match="faces must hold whole numbers, got torch.float32"):
        TriangleMesh(TRIANGLE, torch.zeros(1, 3))
    with pytest.raises(ValueError, match="vertices must be finite, got 9 NaN"):
        TriangleMesh(TRIANGLE * math.nan, torch.tensor([[0, 1, 2]]))
    with pytest.raises(ValueError, match="points must have shape"):
        nearest_distance(icosphere(1), torch.zeros(3, 2))
