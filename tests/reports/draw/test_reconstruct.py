"""Faces through points, and colours that run on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.reports.content import Array
from slipstream.reports.draw.blend import blend_of
from slipstream.reports.draw.canvas import surface_canvas
from slipstream.reports.draw.reconstruct import reconstructed

DRAW = np.random.default_rng(5)


def ellipsoid(count: int, axes: tuple[float, float, float]) -> tuple[Array, Array]:
    unit = DRAW.normal(size=(count, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return (unit * axes).astype(np.float32), (unit / axes).astype(np.float32)


def edges(triangles: NDArray[np.int32]) -> Counter[tuple[int, int]]:
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    return Counter(map(tuple, ends.tolist()))


def test_a_closed_body_gets_closed_faces_through_all_its_points() -> None:
    points, normals = ellipsoid(900, (1.0, 0.7, 0.5))
    triangles = reconstructed(points, normals)
    assert triangles is not None and len(np.unique(triangles)) == 900
    assert abs(len(triangles) - (2 * 900 - 4)) <= 4, "Euler's count of a closed surface"
    found = edges(triangles)
    lone = [edge for edge in found if found[edge[::-1]] != 1]
    assert len(lone) <= 6 and max(found.values()) <= 2
    corners = points[triangles]
    facing = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((facing * normals[triangles].sum(1)).sum(1) > 0).mean() > 0.99, "outward"
    sides = np.linalg.norm(np.roll(corners, -1, 1) - corners, axis=-1)
    assert sides.max() < 0.5, "no face spans the body"


def test_the_two_sides_of_a_thin_body_are_not_joined() -> None:
    flat = DRAW.uniform(-1, 1, (1600, 2)).astype(np.float32)
    height = np.where(np.arange(1600) % 2, 0.005, -0.005).astype(np.float32)
    points = np.column_stack([flat, height])
    normals = np.column_stack([0 * flat, np.sign(height)])
    triangles = reconstructed(points, normals)
    assert triangles is not None
    sides = np.sign(height)[triangles]
    assert (sides == sides[:, :1]).all() and len(triangles) > 2800


def test_what_is_no_surface_stays_points() -> None:
    cloud = DRAW.normal(size=(500, 3)).astype(np.float32)
    assert reconstructed(cloud, DRAW.normal(size=(500, 3)).astype(np.float32)) is None
    points, normals = ellipsoid(300, (1, 1, 1))
    assert reconstructed(points, np.zeros_like(normals)) is None
    assert reconstructed(points[:20], normals[:20]) is None


def test_points_that_lie_on_one_another_do_no_harm() -> None:
    points, normals = ellipsoid(600, (1, 0.8, 0.8))
    points[1], normals[1] = points[0], normals[0]
    triangles = reconstructed(points, normals)
    assert triangles is not None and len(np.unique(triangles)) >= 599


def test_a_picture_of_points_has_no_gaps_and_is_linear_between_them() -> None:
    points, normals = ellipsoid(800, (1, 0.7, 0.7))
    canvas = surface_canvas(points, normals)
    picture = canvas.raster.paint(points[:, 0].astype(np.float64))
    shown = np.isfinite(picture)
    assert shown.mean() > 0.5
    for row in shown[shown.any(1)][3:-3:20]:
        inside = np.flatnonzero(row)
        assert len(inside) == inside[-1] - inside[0] + 1, "no hole"
    middle = picture[len(picture) // 2]
    steps = np.abs(np.diff(middle[np.isfinite(middle)]))
    assert steps.max() < 0.02 * np.ptp(points[:, 0]), "no step from point to point"


def faces_apart() -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Two triangles in a plane and one at a right angle to it, each with corners of its own."""
    one, two = [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[1, 0, 0], [1, 1, 0], [0, 1, 0]]
    up = [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    return np.array([*one, *two, *up], np.float64), np.arange(9, dtype=np.int32).reshape(3, 3)


def test_colours_run_on_over_flat_edges_and_stop_at_sharp_ones() -> None:
    blend = blend_of(*faces_apart())
    assert blend is not None
    drawn = blend.mean(np.repeat([1.0, 3.0, 9.0], 3))
    assert drawn.tolist() == [1, 2, 2, 2, 3, 2, 9, 9, 9]
    unknown = blend.mean(np.repeat([1.0, np.nan, 9.0], 3))
    assert unknown[:3].tolist() == [1, 1, 1] and np.isnan(unknown[3:6]).all()


@pytest.mark.parametrize("shared", [True, False])
def test_faces_with_common_corners_have_nothing_to_share(shared: bool) -> None:
    points, triangles = faces_apart()
    if shared:
        points, triangles = points[:4], np.array([[0, 1, 2], [1, 3, 2]], np.int32)
    assert (blend_of(points, triangles) is None) is shared
