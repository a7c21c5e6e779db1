from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipstream.data.geometry import (
    NearestTriangle,
    NoNormalError,
    cell_normals,
    distance_to_triangles,
    in_box,
    point_normals,
)
from slipstream.data.geometry import distance as search
from slipstream.data.meshes import Mesh, read_mesh
from slipstream.physics.triangles import point_triangle_distance

Array = NDArray[Any]


def brute_force(points: Array, vertices: Array, triangles: Array) -> Array:
    """Every point against every triangle, by other code."""
    corners = torch.from_numpy(vertices[triangles].astype(np.float64))
    pairs = torch.from_numpy(points.astype(np.float64)).repeat_interleave(len(triangles), 0)
    distances = point_triangle_distance(pairs, corners.repeat(len(points), 1, 1))
    return np.asarray(distances.reshape(len(points), -1).amin(1))


def precise(points: Array, vertices: Array, triangles: Array) -> Array:
    """The same in 80 bits, for triangles whose normals 64 bits do not give."""
    corners = vertices.astype(np.longdouble)[triangles]
    offset = points.astype(np.longdouble)[:, None, None] - corners  # (N, T, 3, 3)
    edge = np.roll(corners, -1, 1) - corners
    share = (offset * edge).sum(-1) / np.maximum((edge * edge).sum(-1), 1e-300)
    away = offset - np.clip(share, 0, 1)[..., None] * edge
    nearest = (away * away).sum(-1).min(-1)
    normal = np.cross(edge[:, 0], edge[:, 1])
    size = np.maximum((normal * normal).sum(-1), 1e-300)
    sides = (np.cross(edge, offset) * normal[:, None]).sum(-1)
    height = (offset[:, :, 0] * normal).sum(-1) ** 2 / size
    within = (sides >= 0).all(-1) & (size > 1e-300)
    squares = np.where(within, np.minimum(height, nearest), nearest)
    return np.sqrt(squares.min(1)).astype(np.float64)


def check_exact(points: Array, vertices: Array, triangles: Array, share: float = 1e-15) -> None:
    """To 1e-12, relative, or `share` of the size of it all."""
    scale = float(max(np.abs(points).max(), np.abs(vertices).max()))
    got = distance_to_triangles(points, vertices, triangles)
    exact = precise(points, vertices, triangles)
    np.testing.assert_allclose(got, exact, rtol=1e-12, atol=share * scale)


def surface(draw: np.random.Generator, kind: str, count: int) -> tuple[Array, Array]:
    """Vertices and triangles, of the kinds that break a search."""
    centre = draw.normal(size=(count, 1, 3))
    size = {"even": 0.2, "uneven": 10.0 ** draw.uniform(-5, 1.5, (count, 1, 1))}.get(kind, 1.0)
    corners = centre + size * draw.normal(size=(count, 3, 3))
    if kind == "slivers":
        corners[:, 2] = corners[:, 0] + draw.uniform(0, 1, (count, 1)) * (
            corners[:, 1] - corners[:, 0] + 1e-6 * draw.normal(size=(count, 3))
        )
    if kind == "degenerate":  # points, and lines that are not lines to the last bit
        corners[::2, 1:] = corners[::2, :1]
        corners[1::2, 2] = 0.3 * corners[1::2, 0] + 0.7 * corners[1::2, 1]
    if kind == "flat":
        corners[..., 2] = 0.25
    if kind == "same":
        corners[:] = corners[:1]
    return corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["even", "uneven", "slivers", "degenerate", "flat", "same"]),
    count=st.sampled_from([1, 2, 8, 9, 33, 200, 700]),
    far=st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e3]),
    offset=st.sampled_from([0.0, 1e3]),
)
def test_distance_is_that_of_the_nearest_of_all_triangles(
    seed: int, kind: str, count: int, far: float, offset: float
) -> None:
    draw = np.random.default_rng(seed)
    vertices, triangles = surface(draw, kind, count)
    weights = draw.dirichlet([1, 1, 1], 40)
    of = draw.integers(0, count, 40)
    on = (vertices[triangles[of]] * weights[:, :, None]).sum(1)
    points = np.concatenate((on + far * draw.normal(size=(40, 3)), vertices[:5]))
    points, vertices = points + offset, vertices + offset
    thin = kind in ("slivers", "degenerate")  # for which 80 bits fall short of what is tested
    check_exact(points, vertices, triangles, 1e-9 if thin else 1e-15)
    if far == 0:
        at_surface = distance_to_triangles(points, vertices, triangles)
        assert at_surface.max() < 1e-15 * np.abs(vertices).max()


def test_a_car_on_its_road() -> None:
    """Long floor triangles next to small ones; points from the skin to the far field; float32."""
    draw = np.random.default_rng(0)
    ball = pv.Icosphere(radius=1, nsub=3)
    floor = np.array([[-500, -500, -1], [500, -500, -1], [500, 500, -1], [-500, 500, -1.0]])
    vertices = np.concatenate((np.asarray(ball.points), floor)).astype(np.float32)
    road = len(ball.points) + np.array([[0, 1, 2], [0, 2, 3]])
    triangles = np.concatenate((ball.regular_faces, road)).astype(np.int32)
    way = draw.normal(size=(200, 3))
    points = way * 10.0 ** draw.uniform(-2, 3, (200, 1)) / np.linalg.norm(way, axis=1)[:, None]
    points = points.astype(np.float32)
    check_exact(points, vertices, triangles)
    other = brute_force(points, vertices, triangles)
    np.testing.assert_allclose(distance_to_triangles(points, vertices, triangles), other, 1e-12)
    triangles = triangles[:-2]
    exact = np.linalg.norm(points, axis=1) - 1
    got = distance_to_triangles(points, vertices, triangles)
    outside = exact > 0
    assert np.abs(got - np.abs(exact))[outside].max() < 2e-2


def test_chunks_and_splits_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    vertices, triangles = surface(draw, "even", 500)
    tree = NearestTriangle(vertices, triangles)
    points = np.concatenate((draw.normal(size=(300, 3)), np.zeros((20, 3))))
    whole = tree.distance(points)
    assert np.array_equal(tree.distance(points, chunk=7), whole)
    monkeypatch.setattr(search, "_PAIRS", 64)
    assert np.array_equal(tree.distance(points), whole)
    assert len(tree.distance(points[:0])) == 0


def test_few_boxes_are_opened_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far the points are; and where all triangles are equally far, some at a time."""
    ball = pv.Icosphere(radius=1, nsub=5)
    tree = NearestTriangle(np.asarray(ball.points), np.asarray(ball.regular_faces))
    opened = 0
    bounds = search.bounds

    def counted(points: Array, boxes: Array) -> tuple[Array, Array]:
        nonlocal opened
        opened += points.shape[1]
        return bounds(points, boxes)

    monkeypatch.setattr(search, "bounds", counted)
    draw = np.random.default_rng(2)
    for far in (1.01, 2, 1e2, 1e4):
        way = draw.normal(size=(200, 3))
        tree.distance(far * way / np.linalg.norm(way, axis=1)[:, None])
    assert opened / 800 < 250  # of the 5461 boxes
    tracemalloc.start()
    tree.distance(np.zeros((500, 3)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6  # 10 million pairs of a point and a triangle


@pytest.mark.parametrize(
    ("points", "vertices", "triangles", "says"),
    [
        (np.zeros((2, 3)), np.eye(3), np.array([[0, 1, 3]]), "name vertices 0 .. 2, got 0 .. 3"),
        (np.zeros((2, 3)), np.eye(3), np.array([[0, 1, -1]]), "name vertices 0 .. 2, got -1 .. 1"),
        (np.zeros((2, 3)), np.eye(3), np.zeros((0, 3), int), "triangles must have shape"),
        (np.zeros((2, 3)), np.eye(3), np.zeros((1, 3)), "whole numbers, got float64"),
        (np.zeros((2, 3)), np.eye(3) * np.nan, np.array([[0, 1, 2]]), "got 3 of 3 that are not"),
        (np.zeros((2, 2)), np.eye(3), np.array([[0, 1, 2]]), r"\(N, 3\), got \(2, 2\)"),
        (np.full((2, 3), np.inf), np.eye(3), np.array([[0, 1, 2]]), "finite, got 2 that are not"),
    ],
)
def test_what_is_no_surface_or_point(
    points: Array, vertices: Array, triangles: Array, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        distance_to_triangles(points, vertices, triangles)


def test_point_normals_of_a_ball_and_of_a_cube() -> None:
    ball = pv.Icosphere(radius=2, nsub=4)
    points, triangles = np.asarray(ball.points), np.asarray(ball.regular_faces)
    normals = point_normals(points, triangles)
    assert normals.dtype == np.float64 and np.abs(normals - points / 2).max() < 2e-3
    cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4],
                      [1, 5, 7, 3]])  # fmt: skip
    for cuts in ([[0, 1, 2], [0, 2, 3]], [[1, 2, 3], [1, 3, 0]]):  # either way, the same normals
        corners = np.concatenate([quads[:, cut] for cut in cuts])
        np.testing.assert_allclose(
            point_normals(cube, corners), (2 * cube - 1) / np.sqrt(3), atol=1e-7
        )
    more = np.concatenate((cube, cube[:2]))
    with pytest.raises(NoNormalError, match="every point must have a normal, got 2 of 10 without,"):
        point_normals(more, corners)
    lacking = np.isnan(point_normals(more, corners, lenient=True)).all(1)
    assert np.flatnonzero(lacking).tolist() == [8, 9]


def test_cell_normals_of_polygons_in_their_order(tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 0.2, 0], [0, 1, 0], [0, 0, 3]], "f4")
    faces = [[0, 1, 2, 3, 4], [0, 5, 1], [0, 4, 5]]  # the first is concave
    flat = np.concatenate([[len(face), *face] for face in faces])
    path = tmp_path / "faces.vtp"
    pv.PolyData(points + 1000, flat).save(path)
    expected = [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    np.testing.assert_allclose(cell_normals(read_mesh(path)), expected, atol=1e-12)
    reversed_order = pv.PolyData(points, np.concatenate([[3, 0, 1, 5], [5, 4, 3, 2, 1, 0]]))
    got = cell_normals(Mesh("mesh", reversed_order))
    np.testing.assert_allclose(got, [[0, -1, 0], [0, 0, -1]], atol=1e-12)
    flat_cell = Mesh("mesh", pv.PolyData(points, [3, 0, 1, 1]))
    with pytest.raises(NoNormalError, match="every cell of mesh must have a normal, got 1 of 1"):
        cell_normals(flat_cell)
    assert np.isnan(cell_normals(flat_cell, lenient=True)).all()
    with pytest.raises(ValueError, match="mesh must be a surface of polygons, got .* types 12"):
        cell_normals(Mesh("mesh", pv.UnstructuredGrid({12: np.arange(8)[None]}, np.eye(8)[:, :3])))


def test_box_has_its_faces() -> None:
    points = np.array([[0, 0, 0], [1, 1, 1], [0.5, 2, 0.5], [np.nan, 0.5, 0.5], [0, 1, 0.5]], "f4")
    assert in_box(points, (0, 0, 0), (1, 1, 1)).tolist() == [True, True, False, False, True]
