"""Which way faces turn: mixed, inside out, open, one-sided, in polygons, loose or in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from numpy.typing import NDArray

from slipstream.data.cards import (
    MeshSource,
    draft_card,
    look_at,
    look_at_file,
    normals_warning,
    read_card,
)
from slipstream.data.cards.shape import percent
from slipstream.data.geometry import find_winding, open_edges, places
from slipstream.data.geometry.edges import hole_areas
from slipstream.data.meshes import Mesh, triangle_cells
from slipstream.data.store import ingest, read_manifest

from ..cards.test_mesh_source import columns, source_of
from ..mesh_folders import ball, save, with_fields

Array = NDArray[Any]
NORMALS = [{"name": "normal", "computed": "normals"}]


def sphere(centre: tuple[float, float, float] = (0, 0, 0), nsub: int = 2) -> tuple[Array, Array]:
    mesh = pv.Icosphere(radius=1, nsub=nsub, center=centre)
    return np.asarray(mesh.points), np.asarray(mesh.regular_faces).astype(np.int64)


def flipped(triangles: Array, rows: Array) -> Array:
    out = triangles.copy()
    out[rows] = out[rows][:, ::-1]
    return out


def some(count: int, share: float = 0.2, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(count) < share


@pytest.mark.parametrize("y", [-5000.0, 5000.0])
def test_outward_is_outward(y: float) -> None:
    points, triangles = sphere((0, y, 0))
    for share in (0, 0.2, 0.5, 0.9, 1):
        rows = some(len(triangles), share)
        for kept in (slice(None), slice(1, None)):  # the second has a small hole
            found = find_winding(points, flipped(triangles, rows)[kept])
            assert np.array_equal(found.turned, rows[kept]) and found.clashes == 0


def test_open_surfaces_and_closed_ones_in_parts() -> None:
    """A ring that is seen from both sides stays as it is; its area vectors cancel. Of a long tube
    the outside is seen more."""
    for height, known in ((0.2, False), (4, True)):
        tube = pv.Cylinder(capping=False, resolution=24, height=height).triangulate()
        points, triangles = np.asarray(tube.points), np.asarray(tube.regular_faces)
        middles = points[triangles].mean(1)
        middles[:, 0] = 0
        vectors = np.cross(*(points[triangles[:, k]] - points[triangles[:, 0]] for k in (1, 2)))
        inward = (vectors * middles).sum(1) < 0
        for rows in (np.zeros(len(inward), bool), ~np.zeros(len(inward), bool), some(len(inward))):
            found = find_winding(points, flipped(triangles, rows))
            assert found.undecided == 1 - known
            expected = inward ^ rows if known else np.zeros(len(rows), bool)
            assert np.array_equal(found.turned, expected)
            assert (found.clashes > 0) == (not known and 0 < rows.sum() < len(rows))
    tube = pv.Cylinder(resolution=24, height=4).triangulate()  # its ends have their own points
    points, triangles = np.asarray(tube.points), np.asarray(tube.regular_faces)
    rows = some(len(triangles))
    assert np.array_equal(find_winding(points, flipped(triangles, rows)).turned, rows)
    assert not find_winding(points[:0], triangles[:0]).turned.any()


def test_each_body_is_turned_out_of_itself() -> None:
    """Beside each other, far apart in size and place, one in another, one open."""
    bodies = [((0, 0, 0), 1.0), ((3, 0, 0), 1.0), ((4e5, 5e6, 0), 0.01), ((0, 0, 0), 0.5)]
    points, triangles, inward = [], [], []
    ball_points, ball_triangles = sphere()
    for k, (centre, radius) in enumerate(bodies):
        rows = some(len(ball_triangles), k / 3, k)
        points.append(ball_points * radius + centre)
        triangles.append(flipped(ball_triangles, rows) + k * len(ball_points))
        inward.append(rows)
    sheet = pv.Plane(i_resolution=3, j_resolution=2).triangulate()
    points.append(np.asarray(sheet.points, float) + (0, 9, 0))
    triangles.append(flipped(np.asarray(sheet.regular_faces), np.arange(1)) + 4 * len(ball_points))
    found = find_winding(np.concatenate(points), np.concatenate(triangles))
    expected = np.concatenate([*inward, np.zeros(len(sheet.regular_faces), bool)])
    assert np.array_equal(found.turned, expected) and found.clashes > 0


def test_loose_triangles_hang_together_by_their_places() -> None:
    points, triangles = sphere()
    rows = some(len(triangles))
    loose = points[flipped(triangles, rows)].reshape(-1, 3)
    numbers = np.arange(len(loose)).reshape(-1, 3)
    assert np.array_equal(find_winding(loose, numbers).turned, rows)
    loose = np.concatenate((loose, loose[[0, 0, 1]]))  # a triangle that is a line
    numbers = np.arange(len(loose)).reshape(-1, 3)
    assert np.array_equal(find_winding(loose, numbers).turned, np.append(rows, False))
    inward = find_winding(loose, numbers[:, ::-1])
    assert np.array_equal(inward.turned, np.append(~rows, False))
    all_inward = points[triangles[:, ::-1]].reshape(-1, 3)
    all_inward = np.concatenate((all_inward, all_inward[[0, 0, 1]]))
    assert find_winding(all_inward, numbers).turned.all()


def test_bodies_that_touch_are_told_apart_by_their_own_points() -> None:
    """Two cubes face to face, one inside out."""
    cube = pv.Cube().triangulate().clean()
    points, triangles = np.asarray(cube.points), np.asarray(cube.regular_faces)
    both = np.concatenate((points, points + np.array([1, 0, 0], points.dtype)))
    pair = np.concatenate((triangles, triangles[:, ::-1] + len(points)))
    expected = np.repeat([False, True], len(triangles))
    assert np.array_equal(find_winding(both, pair).turned, expected)


def test_edges_of_many_faces_and_surfaces_with_one_side() -> None:
    points, triangles = sphere()
    fin = np.append(points, [[2, 0, 0]], 0)
    with_fin = np.append(triangles, [[*triangles[5, :2], len(points)]], 0)  # an edge of three faces
    assert not find_winding(fin, with_fin).turned.any()
    assert find_winding(fin, with_fin[:, ::-1]).turned.all()
    rows = np.append(some(len(triangles)), False)
    assert np.array_equal(find_winding(fin, flipped(with_fin, rows)).turned, rows)
    strip = pv.ParametricMobius(u_res=20, v_res=4).triangulate().clean()
    points, triangles = np.asarray(strip.points), np.asarray(strip.regular_faces)
    found = find_winding(points, triangles)
    assert not found.turned.any()


def box(more: int = 0) -> tuple[Array, Array]:
    """Of 12 triangles, outward; top and bottom are cut into so many more, twice each."""
    points = [(x, y, z) for z in (-1.0, 1.0) for y in (-1.0, 1.0) for x in (-1.0, 1.0)]
    squares = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (1, 3, 7, 5), (3, 2, 6, 7), (2, 0, 4, 6)]
    triangles = [t for a, b, c, d in squares for t in ((a, b, c), (a, c, d))]
    for first in (0, 2):
        for _ in range(more):
            a, b, c = triangles[first]
            middle = np.mean([points[k] for k in (a, b, c)], 0)
            points.append(tuple(middle))
            new = len(points) - 1
            triangles[first] = (a, b, new)
            triangles += [(b, c, new), (c, a, new)]
    return np.array(points), np.array(triangles)


def test_the_volume_is_that_of_faces_which_agree() -> None:
    """Few faces, but most of the volume, are inside out."""
    points, triangles = box(more=3)
    middles = points[triangles].mean(1)
    rows = np.abs(middles[:, 2]) < 0.9
    assert 0 < rows.sum() < len(rows) / 2
    assert np.array_equal(find_winding(points, flipped(triangles, rows)).turned, rows)


def test_bodies_that_share_an_edge_keep_what_most_of_their_faces_say() -> None:
    """An edge of four faces joins two pieces, which nothing but their faces' majority aligns."""
    points, triangles = box()
    moved = points + (2.0, 2.0, 0.0)
    whole, same = np.unique(np.concatenate((points, moved)), axis=0, return_inverse=True)
    both = same[np.concatenate((triangles, triangles + len(points)))]
    assert len(whole) == 14, "they share an edge"
    for turned in (0, 5, 12, 20):
        rows = np.arange(len(both)) == turned
        assert np.array_equal(find_winding(whole, flipped(both, rows)).turned, rows)


def test_what_encloses_nothing_stays_as_it_is() -> None:
    """Two faces back to back are closed, and have no outside."""
    points = np.array([(0.0, 0, 0), (1, 0, 0), (0, 1, 0)])
    found = find_winding(points, np.array([(0, 1, 2), (0, 1, 2)]))
    assert not found.turned.any() and found.clashes == 3


def test_what_is_not_finite_is_not_turned() -> None:
    points, triangles = sphere()
    for value in (np.nan, np.inf, -np.inf):
        spoilt = points.copy()
        spoilt[7, 1] = value
        assert not find_winding(spoilt, triangles[:, ::-1]).turned.any()


def test_a_gap_without_width_is_no_hole() -> None:
    points = np.array([[0, 0, 0], [2, 0, 0], [1, 1, 0], [1, -1, 0], [1, 0, 0], [1, 0, 1]], float)
    lower = [[0, 2, 1], [0, 1, 3]]
    upper = [[0, 5, 2], [2, 5, 1], [1, 5, 3], [3, 5, 0]]
    divided = [[0, 2, 4], [4, 2, 1], [0, 1, 3]]  # one side of the edge 0-1 has a point more
    place = places(points)
    for faces, area in ((lower + upper, 0), (divided + upper, 0), (upper, 2)):
        edges = open_edges(place[np.array(faces)])
        assert hole_areas(points, place, edges).sum() == pytest.approx(area)
        assert not find_winding(points, np.array(faces)).turned.any()
        inward = find_winding(points, np.array(faces)[:, ::-1])
        assert inward.turned.all()
        assert (inward.directions > 0) == (area > 0), "only the open one must be looked at"


def test_polygons_turn_as_a_whole() -> None:
    """A pillow of two quadrangles, whose diagonals fall together, on a prism of all sorts."""
    angle = np.arange(6) * np.pi / 3
    ring = np.stack((np.cos(angle), np.sin(angle)), 1)
    points = np.concatenate([np.insert(ring, 2, height, 1) for height in (0, 2)])
    faces = [[i, (i + 1) % 6, 6 + (i + 1) % 6, 6 + i] for i in range(6)]
    faces += [[5, 4, 3, 2, 1, 0], [6, 7, 8, 9, 10, 11]]
    inward = np.array([0, 1, 0, 0, 1, 0, 1, 0], bool)
    faces = [face[::-1] if turn else face for face, turn in zip(faces, inward, strict=True)]
    pillow = np.array([[0, 0, 5], [1, 0, 5.2], [1, 1, 5], [0, 1, 5.2]])
    points = np.concatenate((points, pillow))
    faces += [[12, 13, 14, 15], [12, 13, 14, 15]]
    cells = np.concatenate([[len(face), *face] for face in faces])
    mesh = Mesh("prism", pv.PolyData(points, cells))
    of = triangle_cells(mesh.cells())
    found = find_winding(*mesh.triangles(), of)
    turned = np.zeros(len(faces), bool)
    turned[of] = found.turned
    assert np.array_equal(turned[:8], inward) and turned[8:].sum() <= 1
    assert np.array_equal(turned[of], found.turned)


@pytest.mark.parametrize("location", ["point", "cell"])
def test_computed_normals_of_mixed_faces_point_outward(location: str, tmp_path: Path) -> None:
    body = ball()
    rows = some(body.n_cells)
    mixed = pv.PolyData.from_regular_faces(body.points, flipped(body.regular_faces, rows))
    save(with_fields(mixed, location), tmp_path / "raw" / "mixed.vtp")
    other = pv.PolyData.from_regular_faces(body.points + 5, body.regular_faces[:, ::-1])
    two = pv.PolyData(body.points, body.faces).append_polydata(other)
    save(with_fields(two, location), tmp_path / "raw" / "two.vtp")
    source = source_of(tmp_path / "raw", location=location, features=NORMALS)
    for sample in ("mixed", "two"):
        found = columns(source, sample)
        away = found["position"] - 5 * (found["position"].sum(1, keepdims=True) > 6)
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        np.testing.assert_allclose((found["normal"] * away).sum(1), 1, atol=2e-2)
    look = look_at_file(tmp_path / "raw" / "mixed.vtp")
    assert (look.shape.open_edges, look.shape.outward) == (0, None)
    assert look.shape.turned == rows.sum()
    says = f"{rows.sum()} of the 320 triangles of the closed parts turn inward; computed normals"
    assert any(warning.startswith(says) for warning in look.warnings)


def parts_of(mesh: Any) -> tuple[Array, Array]:
    whole = mesh.triangulate().clean()
    return np.asarray(whole.points, float), np.asarray(whole.regular_faces).astype(np.int64)


def together(*parts: tuple[Array, Array]) -> tuple[Array, Array]:
    firsts = np.cumsum([0, *(len(points) for points, _ in parts)])
    triangles = [t + first for (_, t), first in zip(parts, firsts[:-1], strict=True)]
    return np.concatenate([points for points, _ in parts]), np.concatenate(triangles)


def area_of(part: tuple[Array, Array]) -> float:
    return float(pv.PolyData.from_regular_faces(*part).area)


def channel_with_a_block() -> tuple[Array, Array]:
    """The boundary of the fluid in a channel that has a block on its floor: one closed surface."""
    grid = pv.ImageData(dimensions=(21, 11, 11)).cast_to_unstructured_grid()
    x, y, z = grid.cell_centers().points.T
    fluid = ~((abs(x - 8) < 2) & (abs(y - 5) < 2) & (z < 3))
    return parts_of(grid.extract_cells(np.flatnonzero(fluid)).extract_surface(algorithm=None))


TUNNEL = parts_of(pv.Box((-5, 5, -4, 4, -3, 3), level=3))
AWAY = sphere((20, 0, 0))


@pytest.mark.parametrize(
    ("surface", "share"),
    [
        (sphere(), 0),
        (TUNNEL, 0),  # a plain box is a body
        (together(sphere(), AWAY), 0),
        ((sphere()[0], sphere()[1][1:]), 0),  # a hole of less than 5 %
        (parts_of(pv.Icosphere(nsub=2).clip("y")), 0),  # the half of a symmetric body
        (together(TUNNEL, sphere()), 0),  # a box around much smaller bodies is a tunnel
        (together(sphere(), (sphere()[0] / 2, sphere()[1])), 1),  # a far field, or a cavity
        (together(TUNNEL, sphere(), AWAY), 1 - area_of(AWAY) / (2 * area_of(AWAY) + 376)),
        (channel_with_a_block(), 1),
        (parts_of(pv.Cone(height=40, radius=1, resolution=24, capping=False)), 0),  # hole of 2.5 %
        (parts_of(pv.Plane(i_resolution=3)), 1),
    ],
)
def test_the_share_that_is_not_known_to_face_out_of_the_body(
    surface: tuple[Array, Array], share: float
) -> None:
    points, triangles = surface
    for turned in (triangles, triangles[:, ::-1], flipped(triangles, some(len(triangles), 0.1))):
        assert find_winding(points, turned).undecided == pytest.approx(share, abs=1e-6)


def test_pieces_that_touch_are_asked_one_by_one() -> None:
    points, triangles = box()
    both = np.concatenate((points, points + (2.0, 2.0, 0.0)))
    whole, same = np.unique(both, axis=0, return_inverse=True)
    pair = same[np.concatenate((triangles, triangles + len(points)))]
    assert find_winding(whole, pair).undecided == 0
    assert find_winding(whole, pair[:, ::-1]).undecided == 0
    against = np.concatenate((pair[:12], pair[12:, ::-1]))
    found = find_winding(whole, against)
    assert found.undecided == 0 and np.array_equal(found.turned, np.repeat([False, True], 12))


def test_faces_may_be_numbered_with_gaps() -> None:
    """As in a file with lines between the faces."""
    points, triangles = sphere()
    faces = np.arange(len(triangles))
    faces[5:] += 1
    assert find_winding(points, triangles[:, ::-1], faces).turned.all()


def test_what_is_not_established_is_not_claimed(tmp_path: Path) -> None:
    """At inspect, in the drafted card and in the store."""
    plane = pv.Plane(i_resolution=3, j_resolution=2).triangulate()
    sheet, whole = pv.PolyData(plane.points, plane.faces), ball()  # without the plane's normals
    for name, mesh in (("sheet", sheet), ("whole", whole), ("both", sheet)):
        folder = tmp_path / name
        for k in range(3):
            mesh = whole if name == "both" and k == 1 else mesh
            save(with_fields(mesh), folder / f"{k}.vtp")
    notes, cards = {}, {}
    for name in ("sheet", "whole", "both"):
        look = look_at(tmp_path / name)
        notes[name], cards[name] = " ".join(look.notes), draft_card(look)
    says = "which side is out of the body is not established for 100 % of the area"
    assert says in notes["sheet"] and f"# {says}" in cards["sheet"]
    assert "# out of the body" not in cards["sheet"] and "# out of the body" not in cards["both"]
    assert "out of the body" not in notes["whole"]
    assert "computed: normals}  # out of the body" in cards["whole"]
    (tmp_path / "card.yaml").write_text(cards["both"])
    source = MeshSource(tmp_path / "both", read_card(tmp_path / "card.yaml"))
    ingest(source, tmp_path / "store")
    manifest = read_manifest(tmp_path / "store" / "manifest.json")
    shares = {k: entry.parameters.get("normals_undecided") for k, entry in manifest.samples.items()}
    assert shares == {"0": 1.0, "1": None, "2": None}
    (warning,) = normals_warning(manifest)
    assert warning.startswith(
        "computed normals are not known to point out of the body in 1 of 3 samples, on up to 100 %"
        " of the area (0)"
    )


def test_shares_are_never_rounded_to_nothing_or_all() -> None:
    shares = (1.0, 0.9999, 0.374, 0.051, 0.0004)
    assert [percent(s) for s in shares] == ["100 %", ">99 %", "37 %", "5.1 %", "<0.1 %"]


def test_what_inspect_says_of_sides_and_points(tmp_path: Path) -> None:
    body = ball()
    inside_out = pv.PolyData.from_regular_faces(body.points, body.regular_faces[:, ::-1])
    look = look_at_file(save(inside_out, tmp_path / "in.vtp"))
    assert look.shape.outward is False
    says = "the faces of the closed surface turn inward; computed normals are turned outward"
    assert look.warnings == (says,)
    spoilt = ball()
    spoilt.points[3] = np.nan
    look = look_at_file(save(spoilt, tmp_path / "nan.vtp"))
    assert look.warnings == ("1 points have NaN or infinite coordinates in float32",)
    assert (look.shape.open_edges, look.shape.outward) == (None, None)
    assert max(look.shape.high) == pytest.approx(1) and look.shape.non_finite == 1
    spoilt.points[:] = np.inf
    assert look_at_file(save(spoilt, tmp_path / "inf.vtp")).shape.non_finite == 162
    sheet = pv.Plane(i_resolution=3, j_resolution=2).triangulate()
    faces = flipped(sheet.regular_faces, np.arange(1))
    sheet = pv.PolyData.from_regular_faces(sheet.points, faces)
    clashing, undecided = look_at_file(save(sheet, tmp_path / "sheet.vtp")).warnings
    assert clashing.startswith("neighbouring faces turn to different sides at 1 edges")
    assert "out of the body is not established for 100 % of the area" in undecided


def test_inspect_warns_of_points_that_float32_cannot_tell_apart(tmp_path: Path) -> None:
    points = np.asarray(ball().points, np.float64)
    for name, offset in (("near", (0, 0, 0)), ("far", (500_000, 5_400_000, 0))):
        mesh = pv.PolyData(points + offset, ball().faces)
        look = look_at_file(save(mesh, tmp_path / f"{name}.vtp"))
        kept = len(np.unique((points + offset).astype(np.float32), axis=0))
        assert look.shape.merged == 162 - kept
        said = [w for w in look.warnings if "fall together in float32" in w]
        assert len(said) == (name == "far")
    assert "`subtract: [500000, 5400000, 0]` in the card's `coords`" in said[0]


@pytest.mark.parametrize("location", ["point", "cell"])
def test_coordinates_far_from_the_origin_can_be_moved(location: str, tmp_path: Path) -> None:
    offset = (500_000.0, 5_400_000.0, 0.0)
    near = np.asarray(ball().points, np.float64)
    mesh = pv.PolyData(near + offset, ball().faces)
    save(with_fields(mesh, location), tmp_path / "raw" / "a.vtp")
    high = [500_002, None, 0]
    box = {"low": [None] * 3, "high": high}
    card = {"location": location, "features": NORMALS, "box": box}
    source = source_of(tmp_path / "raw", **card)
    assert "subtract" not in source.options
    moved = source_of(tmp_path / "raw", **card, coords={"subtract": list(offset)})
    assert moved.options["subtract"] == offset
    found, there = columns(moved, "a"), columns(source, "a")
    assert len(found["p"]) == len(there["p"]) < mesh.n_cells
    assert len(np.unique(there["position"], axis=0)) < len(found["p"])
    assert len(np.unique(found["position"], axis=0)) == len(found["p"])
    np.testing.assert_allclose((found["normal"] * found["position"]).sum(1), 1, atol=0.05)


def test_coordinates_are_moved_in_double(tmp_path: Path) -> None:
    """By a number that float32 has only to 0.2."""
    offset = (0.0, 5_400_000.3, 0.0)
    mesh = pv.PolyData(np.asarray(ball().points, np.float64) + offset, ball().faces)
    save(with_fields(mesh, "point"), tmp_path / "raw" / "a.vtp")
    source = source_of(tmp_path / "raw", coords={"subtract": list(offset)})
    found = columns(source, "a")["position"]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("location", ["point", "cell"])
def test_rows_without_a_normal_can_be_dropped(location: str, tmp_path: Path) -> None:
    body = ball()
    points = np.concatenate((body.points, [[3, 0, 0], [4, 0, 0], [5, 0, 0]])).astype(np.float32)
    faces = np.concatenate((body.regular_faces, [[162, 163, 164]]))
    mesh = pv.PolyData.from_regular_faces(points, faces)
    save(with_fields(mesh, location), tmp_path / "raw" / "a.vtp")
    card = {"location": location, "features": NORMALS}
    where = "point" if location == "point" else "cell of a.vtp"
    says = rf"every {where} must have a normal, .* \(`drop: non-finite` leaves such rows out\)$"
    with pytest.raises(ValueError, match=says):
        source_of(tmp_path / "raw", **card).read("a")
    cloud = source_of(tmp_path / "raw", **card, drop="non-finite").read("a")
    lost = 3 if location == "point" else 1
    assert cloud.parameters == {"rows_left_out": lost}
    assert cloud.rows == (162 if location == "point" else 320)
    spoilt = ball()
    spoilt.points[0] = np.nan
    save(with_fields(spoilt, location, p=np.ones(162 if location == "point" else 320),
                     tau=np.ones((162 if location == "point" else 320, 3))),
         tmp_path / "nan" / "a.vtp")  # fmt: skip
    cloud = source_of(tmp_path / "nan", **card, drop="non-finite").read("a")
    assert 0 < cloud.rows < 320
