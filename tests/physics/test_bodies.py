"""Bodies are closed, smooth, turned outwards and apart; what the maps say is what they do."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.physics.bodies import (
    FAMILIES,
    Body,
    draw_body,
    ellipsoid,
    harmonics,
    icosphere,
    place_apart,
    slab_between,
    sphere,
    unit,
)
from slipstream.physics.triangles import signed_distance


def some_directions(draw: torch.Generator, count: int = 200) -> torch.Tensor:
    return unit(torch.randn(count, 3, generator=draw, dtype=torch.float64))


@pytest.mark.parametrize("frequency", [1, 2, 3, 8])
def test_icosphere(frequency: int) -> None:
    mesh = icosphere(frequency)
    assert len(mesh.faces) == 20 * frequency**2
    assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == 2  # Euler
    assert (mesh.face_edges.flatten().bincount() == 2).all()
    torch.testing.assert_close(mesh.vertices.norm(dim=-1), torch.ones(len(mesh.vertices)).double())
    assert ((mesh.centroids * mesh.normals).sum(-1) > 0.7).all()
    assert float(mesh.areas.max() / mesh.areas.min()) < 2.1
    lost = 1 - float(mesh.areas.sum()) / (4 * math.pi)
    assert 0 < lost < 0.33 / frequency**2


def test_harmonics_are_orthonormal() -> None:
    mesh = icosphere(16)
    values = harmonics(unit(mesh.centroids))
    weights = mesh.areas / mesh.areas.sum()
    expected = torch.eye(15, dtype=torch.float64)
    torch.testing.assert_close(values.T * weights @ values, expected, rtol=0, atol=1e-2)
    assert (weights @ values).abs().max() < 1e-10  # and to the constant


@pytest.mark.parametrize("family", FAMILIES)
def test_normals_and_tangents_are_those_of_the_positions(
    family: str, draw: torch.Generator
) -> None:
    body = draw_body(family, 0.1, draw)
    s = some_directions(draw)
    along = torch.linalg.cross(s, some_directions(draw))
    step = 1e-6
    ahead, behind = (body.at(unit(s + way * along)).positions for way in (step, -step))
    slope = (ahead - behind) / (2 * step)
    torch.testing.assert_close(body.at(s).tangents(along), slope, rtol=1e-6, atol=1e-8)
    normal = body.at(s).normals
    assert (normal * unit(slope)).sum(-1).abs().max() < 1e-6
    assert ((body.at(s).positions - body.centre) * normal > 0).any(-1).all()
    torch.testing.assert_close(normal.norm(dim=-1), torch.ones(len(s)).double())


@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_bodies_are_closed_and_turned_outwards(family: str, draw: torch.Generator) -> None:
    for _ in range(5):
        body = draw_body(family, 0.1, draw)
        mesh = body.mesh(8)
        smooth = body.at(unit(icosphere(8).centroids)).normals
        assert ((mesh.normals * smooth).sum(-1) > 0.8).all()
        assert mesh.area_vectors.sum(0).abs().max() < 1e-12
        ellipsoid_volume = 4 / 3 * math.pi * float(body.axes.prod())
        assert 0.5 < float(mesh.volume) / ellipsoid_volume < 2.0


def test_amplitude_is_the_spread_of_the_radius(draw: torch.Generator) -> None:
    s = unit(icosphere(6).vertices)
    spreads = [float((harmonics(s) @ draw_body("car", 0.1, draw).modes).std()) for _ in range(100)]
    assert 0.09 < sum(spreads) / 100 < 0.11


def test_exact_bodies() -> None:
    axes = torch.tensor([2.0, 1.0, 0.5]).double()
    x = (ellipsoid((2.0, 1.0, 0.5), (1.0, 2.0, 3.0)).mesh(4).vertices - torch.arange(1, 4)) / axes
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(len(x)).double())
    assert float(sphere(2.0).mesh(16).volume) == pytest.approx(32 / 3 * math.pi, rel=1e-2)


def test_two_bodies_are_placed_apart(draw: torch.Generator) -> None:
    for _ in range(10):
        pair = [draw_body(family, 0.1, draw) for family in ("wing", "car")]
        direction = some_directions(draw, 1)[0]
        placed = place_apart(*pair, gap=0.3, direction=direction)
        one, other = (body.mesh(8) for body in placed)
        assert signed_distance(one, other.vertices).min() > 0.29
        assert signed_distance(other, one.vertices).min() > 0.29
        assert float(slab_between(*placed, direction, 16)) == pytest.approx(0.3, abs=0.01)
        torch.testing.assert_close(placed[0].centre, -placed[1].centre)


@pytest.mark.parametrize("offset", [-3.0, 0.0, 1.5, 2.5])
def test_the_slab_between_two_spheres(offset: float) -> None:
    along = torch.tensor([1.0, 0.0, 0.0]).double()
    bodies = sphere(1.0), sphere(1.0, (offset, 0.0, 0.0))
    assert float(slab_between(*bodies, along, 12)) == pytest.approx(offset - 2, abs=0.01)


def test_bodies_too_rough_to_be_placed_are_refused(draw: torch.Generator) -> None:
    pair = draw_body("wing", 3.0, draw), draw_body("wing", 3.0, draw)
    with pytest.raises(ValueError, match="bodies must lie 0.0001 apart, got .* finer look"):
        place_apart(*pair, gap=1e-4, direction=some_directions(draw, 1)[0])


def test_bad_bodies(no_shape_checks: None, draw: torch.Generator) -> None:
    with pytest.raises(ValueError, match=r"axes must be positive, got \[1.0, 0.0, 1.0\]"):
        ellipsoid((1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match=r"axes must have shape \(3\) = \(3\), got \(2,\)"):
        Body(torch.ones(2), torch.zeros(15), torch.zeros(3))
    with pytest.raises(
        ValueError, match="family must be one of .*, got 'cars'; did you mean 'car'"
    ):
        draw_body("cars", 0.1, draw)
    with pytest.raises(ValueError, match="frequency must be a whole number of at least 1, got 0"):
        icosphere(0)
