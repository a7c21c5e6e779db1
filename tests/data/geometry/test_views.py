"""Faces turned to the side that is seen from outside: open, loose, cut, in tunnels, on the ground.

The outer sides of all bodies are known: half of the faces, drawn at random, are turned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import torch
from numpy.typing import NDArray

from slipstream.data.cards import look_at_file
from slipstream.data.geometry import find_winding, outward_normals
from slipstream.data.geometry.pieces import meetings, pieces_of
from slipstream.data.geometry.raster import crossings
from slipstream.data.geometry.views import Scene, Viewer, directions
from slipstream.data.geometry.votes import Ballot
from slipstream.data.meshes import Mesh
from slipstream.physics.bodies import FAMILIES, draw_body, icosphere

from ..mesh_folders import save
from .test_orientation import flipped, parts_of, some, together

Array = NDArray[Any]
Surface = tuple[Array, Array]


def areas(surface: Surface) -> Array:
    a, b, c = (surface[0][surface[1][:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def built_in(family: str, frequency: int = 12) -> Surface:
    mesh = draw_body(family, 0.1, torch.Generator().manual_seed(1)).mesh(frequency)
    return mesh.vertices.numpy(), mesh.faces.numpy()


def ball(radius: float = 1.0, frequency: int = 8, centre: Any = (0, 0, 0)) -> Surface:
    mesh = icosphere(frequency)
    return mesh.vertices.numpy() * radius + np.array(centre, float), mesh.faces.numpy()


def torus() -> Surface:
    points, triangles = parts_of(
        pv.ParametricTorus(ringradius=1, crosssectionradius=0.4, u_res=30, v_res=20, w_res=2)
    )
    ring = points * (1, 1, 0)
    ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    away = (points - ring)[triangles].mean(1)
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = (np.cross(b - a, c - a) * away).sum(1) < 0
    return points, flipped(triangles, inward)


def brick(*bounds: float) -> Surface:
    points, triangles = parts_of(pv.Box(bounds, level=4))
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = (np.cross(b - a, c - a) * (a - points.mean(0))).sum(1) < 0
    return points, flipped(triangles, inward)


def car() -> Surface:
    """Shells that overlap: hull, cabin, four wheels, a wing on a strut."""
    hull, triangles = ball(frequency=12)
    wheels = [ball(0.3, 5, (x, y, 0.3)) for x in (-1.3, 1.3) for y in (-0.75, 0.75)]
    return together(
        (hull * (2.2, 0.9, 0.4) + (0, 0, 0.65), triangles),
        (hull * (1.1, 0.7, 0.4) + (0.2, 0, 1.0), triangles),
        *wheels,
        brick(1.9, 2.3, -0.6, 0.6, 1.2, 1.25),
        brick(2.0, 2.1, -0.05, 0.05, 0.5, 1.22),
    )


def cut(surface: Surface, axis: int, share: float) -> Surface:
    """What lies above a plane, open there."""
    low, high = surface[0][:, axis].min(), surface[0][:, axis].max()
    origin, normal = np.zeros(3), np.zeros(3)
    origin[axis], normal[axis] = low + share * (high - low), 1
    mesh = pv.PolyData.from_regular_faces(*surface)
    mesh = mesh.clip(normal=normal, origin=origin, invert=False).triangulate()
    return np.asarray(mesh.points, float), np.asarray(mesh.regular_faces).astype(np.int64)


def loose(surface: Surface) -> Surface:
    """Triangles that are a little smaller, so that none shares a place with another."""
    corners = surface[0][surface[1]]
    middle = corners.mean(1, keepdims=True)
    corners = middle + 0.9999 * (corners - middle)
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def right(surface: Surface, among: Array | slice = slice(None)) -> tuple[float, float]:
    """The share of the area of some triangles that is right in the end, and what is undecided."""
    points, triangles = surface
    rows = some(len(triangles), 0.5, seed=5)
    found = find_winding(points, flipped(triangles, rows))
    size = areas(surface)
    return float((size * (found.turned == rows))[among].sum() / size[among].sum()), found.undecided


BODIES = {family: built_in(family) for family in FAMILIES}
BODIES |= {"ball": ball(), "torus": torus(), "brick": brick(0, 3, 0, 1, 0, 1), "car": car()}


@pytest.mark.parametrize("name", BODIES)
def test_scrambled_faces_of_open_and_loose_bodies(name: str) -> None:
    body = BODIES[name]
    half, standing = cut(body, 1, 0.47), cut(body, 2, 0.12)
    tilted = half[0] @ np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0].T
    if np.linalg.det(np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]) < 0:
        tilted = -tilted
    assert right(body) == (1, 0)
    for surface in (half, standing, (tilted, half[1])):
        share, undecided = right(surface)
        assert share >= 0.99 and undecided <= 0.01
    if name != "car":  # loose faces of shells inside one another cannot be seen
        for surface in (loose(body), loose(half), loose(standing)):
            share, undecided = right(surface)
            assert share >= 0.99 and undecided <= 0.01


def test_loose_faces_that_others_hide_are_undecided() -> None:
    """What is decided is right: half of the undecided faces are so by chance."""
    share, undecided = right(loose(car()))
    assert 0.05 < undecided < 0.4 and 1 - share < 0.6 * undecided
    hidden = together(loose(built_in("car")), loose(ball(0.1, 4)))
    inner = areas(hidden)[-320:].sum() / areas(hidden).sum()
    assert right(hidden, slice(0, -320))[0] > 0.99
    assert right(hidden)[1] == pytest.approx(inner, abs=2e-3)


@pytest.mark.parametrize("name", ["car", "wing"])
def test_a_body_in_a_tunnel_and_on_the_ground(name: str) -> None:
    """Walls of tunnels and far fields face the fluid; the ground stays as it is, undecided."""
    for body in (built_in(name), cut(built_in(name), 1, 0.47), loose(built_in(name))):
        low = body[0].min(0)
        inside = np.arange(len(body[1]))
        tunnel = brick(-6, 10, -4, 4, low[2] - 1e-4, 5)
        tunnel = (tunnel[0], tunnel[1][:, ::-1])
        middle = np.abs(tunnel[0][tunnel[1]].mean(1)[:, 0] - 2)
        tube = (tunnel[0], tunnel[1][middle < 7.99])
        far = (ball(30)[0], ball()[1][:, ::-1])
        for walls in (tunnel, tube, far):
            share, undecided = right(together(body, walls))
            assert share > 0.999 and undecided < 0.001
        ground = parts_of(pv.Plane(center=(0, 0, low[2] - 1e-2), i_size=6, j_size=6))
        both = together(body, ground)
        share, undecided = right(both, inside)
        assert share > 0.99
        assert undecided == pytest.approx(36 / (36 + areas(body).sum()), abs=1e-3)


def test_bodies_that_share_a_face() -> None:
    """Of two blocks with common points the face between them cannot be seen."""
    small = brick(1, 1.5, 0, 0.6, 0, 0.6)
    large = brick(0, 1, 0, 0.6, 0, 1.2)
    points, triangles = together(large, small)
    points, same = np.unique(np.round(points, 12), axis=0, return_inverse=True)
    surface = points, same.ravel()[triangles]
    middles = points[surface[1]].mean(1)
    between = (np.abs(middles[:, 0] - 1) < 1e-9) & (middles[:, 2] < 0.6)
    assert right(surface, ~between)[0] > 0.99
    assert right(surface)[1] < 0.3


def test_sheets_do_not_disturb_the_bodies() -> None:
    plate = parts_of(pv.Plane(center=(0, 0, 1.6), direction=(1, 0, 0), i_resolution=4))
    body = cut(ball(), 1, 0.4)
    both = together(body, plate)
    share, undecided = right(both, slice(0, len(body[1])))
    assert share == 1 and undecided == pytest.approx(1 / areas(both).sum(), rel=1e-6)
    dish = cut(ball(), 2, 0.92)
    assert right(dish)[1] == 1, "seen from both sides"


def test_skins_that_lie_on_one_another_are_both_seen() -> None:
    """At a distance that is none: neither hides the other."""
    skin = loose(ball())
    assert right(together(skin, (skin[0] * (1 + 1e-9), skin[1])))[0] > 0.99


def test_inspect_says_what_is_taken_for_a_tunnel(tmp_path: Path) -> None:
    tunnel, body = brick(-9, 9, -9, 9, -9, 9), ball()
    for walls in (tunnel[1], tunnel[1][:, ::-1]):
        mesh = pv.PolyData.from_regular_faces(*together(body, (tunnel[0], walls)))
        look = look_at_file(save(mesh, tmp_path / "tunnel.vtp"))
        assert (look.shape.turned, look.shape.around) == (0, len(walls))
        (said,) = look.warnings
        assert said.startswith(f"{len(walls)} triangles around all others are taken for a tunnel")


def test_inspect_says_what_is_turned_in_open_parts(tmp_path: Path) -> None:
    half = cut(ball(), 1, 0.5)
    mesh = pv.PolyData.from_regular_faces(half[0], half[1][:, ::-1])
    look = look_at_file(save(mesh, tmp_path / "half.vtp"))
    says = f"{len(half[1])} of the {len(half[1])} triangles of the open parts turn away from the"
    assert any(warning.startswith(says) for warning in look.warnings)
    assert look.shape.undecided == 0


def test_clean_bodies_are_not_looked_at() -> None:
    """Neither are closed ones that are nested, scrambled, or in a tunnel."""
    inner, tunnel = ball(0.3), brick(-9, 9, -9, 9, -9, 9)
    for surface in (ball(), torus(), car(), together(ball(), inner), together(ball(), tunnel)):
        for rows in (np.zeros(len(surface[1]), bool), some(len(surface[1]))):
            assert find_winding(surface[0], flipped(surface[1], rows)).directions == 0
    assert find_winding(*cut(ball(), 1, 0.5)).directions > 0


def test_open_polygons_turn_as_a_whole() -> None:
    mesh = pv.Box((0, 3, 0, 1, 0, 1), level=3, quads=True)
    keep = mesh.cell_centers().points[:, 1] > 0.01  # open at y = 0
    quads = mesh.regular_faces[keep]
    middles = mesh.points[quads].mean(1) - (1.5, 0.5, 0.5)
    vectors = np.cross(*(mesh.points[quads[:, k]] - mesh.points[quads[:, 0]] for k in (1, 2)))
    inward = (vectors * middles).sum(1) < 0
    rows = some(len(quads), 0.5)
    quads[rows] = quads[rows][:, ::-1]
    triangles = quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    found = find_winding(mesh.points, triangles, np.repeat(np.arange(len(quads)), 2))
    assert np.array_equal(found.turned, np.repeat(rows ^ inward, 2)) and found.undecided == 0


def test_faces_that_cannot_agree_are_decided_one_by_one() -> None:
    """A ball with an edge more, between faces far apart, along which nothing can agree."""
    points, triangles = ball()
    rows = some(len(triangles), 0.5)
    face = np.arange(len(triangles))
    scrambled = flipped(triangles, rows)
    meet = meetings(points, scrambled, face)
    one, other = np.append(meet.one, 0), np.append(meet.other, 600)
    clash = np.append(meet.clash, rows[0] == rows[600])
    pieces = pieces_of(one, other, clash, len(face))
    assert pieces.one_sided.all()
    a, b, c = (points[scrambled[:, k]] for k in range(3))
    meet = type(meet)(one, other, clash, meet.left, meet.ends, meet.single, meet.place)
    viewer = Viewer(Scene(points, scrambled, face, np.ones(len(face), bool)), len(face))
    views = viewer.look(directions(12)[0])
    for rotation in directions(12)[1:]:
        views += viewer.look(rotation)
    votes = Ballot(meet, pieces, np.cross(b - a, c - a)).count(views)
    assert votes.decided.all() and np.array_equal(votes.turned, rows)


def test_what_is_spoilt_is_as_harmless_as_before() -> None:
    half, triangles = cut(ball(), 1, 0.5)
    lines = np.append(triangles[:, ::-1], [[0, 0, 1], [5, 5, 5]], 0)
    found = find_winding(half, lines)
    assert found.turned[:-2].all() and found.undecided == 0
    for value in (np.nan, np.inf):
        spoilt = half.copy()
        spoilt[triangles[3, 0]] = value
        found = find_winding(spoilt, triangles)
        assert not found.turned.any() and found.undecided == 1
    point = np.zeros((3, 3))
    assert find_winding(point, np.array([[0, 1, 2]])).undecided == 1
    assert find_winding(half, triangles[:0]).undecided == 0


def test_any_heap_of_polygons_has_a_share_and_turns_as_a_whole() -> None:
    """Flat ones, on a coarse lattice, huge or tiny, with points that are not finite."""
    for seed in range(48):
        draw = np.random.default_rng(seed)
        points = draw.normal(size=(20, 3))
        if seed % 3 == 2:
            points *= 10.0 ** draw.integers(-150, 150)
        if seed % 3 == 1:
            points = np.round(points * (1, 1, seed % 2))
        if seed % 4 == 0:
            points[draw.integers(20)] = draw.choice([np.nan, np.inf])
        triangles = draw.integers(0, 20 - seed % 2, (40, 3))
        faces = np.sort(draw.integers(0, 30, 40))
        found, again = (find_winding(points, triangles, faces) for _ in range(2))
        assert 0 <= found.undecided <= 1 and np.array_equal(found.turned, again.turned)
        both = np.unique(np.stack((faces, found.turned)), axis=1).shape[1]
        assert both == len(np.unique(faces))


@pytest.mark.parametrize("location", ["point", "cell"])
def test_normals_of_half_a_body_point_outward(location: Any) -> None:
    points, triangles = cut(ball(), 1, 0.5)
    scrambled = flipped(triangles, some(len(triangles), 0.5))
    mesh = Mesh("half", pv.PolyData.from_regular_faces(points, scrambled))
    found = outward_normals(mesh, location, lenient=True)
    places = points if location == "point" else points[triangles].mean(1)
    along = (found.normals * places).sum(1)
    assert np.nanmin(along) > 0.9 and found.undecided == 0 and 0.4 < found.turned < 0.6


def test_lines_cross_triangles_where_planes_say() -> None:
    """Against barycentric coordinates, also of triangles that reach beyond the grid."""
    draw = np.random.default_rng(0)
    width = 20
    places = draw.uniform(-8, width + 8, (3, 90))
    triangles = np.arange(90).reshape(-1, 3)
    depths = {}
    for found in crossings(places, triangles, width):
        for triangle, line, depth in zip(found.triangle, found.line, found.depth, strict=True):
            depths[int(triangle), int(line)] = depth
    expected = {}
    for number, corners in enumerate(triangles):
        matrix = np.concatenate((places[:2, corners], np.ones((1, 3))))
        for line in range(width * width):
            weights = np.linalg.solve(matrix, [line % width, line // width, 1])
            if (weights >= 0).all():
                expected[number, line] = weights @ places[2, corners]
    assert depths.keys() == expected.keys()
    np.testing.assert_allclose([depths[key] for key in expected], list(expected.values()))


def test_no_line_slips_between_two_triangles() -> None:
    points, triangles = ball(frequency=20)
    for rotation in directions(6):
        places = (points @ rotation).T * 100 + 120
        lines = np.concatenate([x.line for x in crossings(places, triangles, 240)])
        count = np.bincount(lines, minlength=240 * 240).reshape(240, 240)
        i, j = np.meshgrid(np.arange(240), np.arange(240))
        inside = np.hypot(i - 120, j - 120) < 99
        assert (count[inside] == 2).all() and (count[np.hypot(i - 120, j - 120) > 100] == 0).all()


def test_a_triangle_without_area_across_a_body_changes_nothing() -> None:
    ball = pv.Icosphere(radius=1.1, nsub=2)
    points, triangles = np.asarray(ball.points), ball.regular_faces
    for odd in ([0, 0, 1], [0, 0, 0]):
        winding = find_winding(points, np.vstack((triangles, [odd])))
        assert winding.undecided == 0 and not winding.turned.any()
