from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pytest
import pyvista as pv
from matplotlib.figure import Figure

from slipstream.models.variants import VARIANTS
from slipstream.reports.content import Array, Scene, SceneField
from slipstream.reports.draw import canvas as canvases
from slipstream.reports.draw import fields, raster, style
from slipstream.reports.draw.canvas import Canvas, camera, section_canvas, surface_canvas

FOUR = ("baseline", "no-token-attention", "mlp-only", "slice-once")


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvases, "_COLUMNS", 100)


def sphere(count: int = 3000) -> Array:
    points = np.random.default_rng(0).normal(size=(count, 3))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def cube(count: int = 20000) -> Array:
    return np.random.default_rng(1).uniform(0, [4, 3, 2], (count, 3)).astype(np.float32)


def scene(
    coords: Array,
    kind: Literal["surface", "volume"] = "surface",
    sizes: Mapping[str, float] | None = None,
    normals: Array | None = None,
) -> Scene:
    """Pressure is 100 x; each variant is wrong by a part of |z|."""
    sizes = sizes or {name: 0.1 * (k + 1) for k, name in enumerate(FOUR)}
    truth = 100 * coords[:, 0]
    errors = {name: size * np.abs(coords[:, 2]) for name, size in sizes.items()}
    field = SceneField(
        "pressure",
        "m^2/s^2",
        truth,
        {name: truth + error for name, error in errors.items()},
        errors,
        {name: float(error.sum() / np.abs(truth).sum()) for name, error in errors.items()},
    )
    return Scene("s", "drivaerml", "run_472", kind, coords, "m", (field,), normals)


def pictured(figure: Figure) -> list[list[tuple[float | None, float | None]]]:
    """Scales of the pictures, row by row from the top."""
    rows: dict[int, list[tuple[float | None, float | None]]] = {}
    for axes in figure.axes:
        place = axes.get_subplotspec()
        if place is not None and axes.images:
            norm = axes.images[0].norm
            rows.setdefault(place.rowspan.start, []).append((norm.vmin, norm.vmax))
    return [rows[row] for row in sorted(rows)]


def labels(figure: Figure) -> list[str]:
    return [" ".join(axes.get_ylabel().split()) for axes in figure.axes if axes.get_ylabel()]


def test_a_row_shares_its_scale_and_is_labelled_with_the_unit() -> None:
    points = sphere()
    figure = fields.field_figure(scene(points), "pressure", FOUR)
    above, below = pictured(figure)
    assert len(above) == 5 and len(below) == 4
    assert len(set(above)) == len(set(below)) == 1 and above[0] != below[0]
    assert below[0][0] == 0 and below[0][1] == pytest.approx(0.4, rel=0.1)
    assert above[0] == (-above[0][1], above[0][1]), "both signs: about zero"
    assert labels(figure) == ["pressure [m²/s²]", "absolute error [m²/s²]"]
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles[0] == "truth"
    assert titles[3].splitlines()[0] == "mlp-only"
    assert titles[3].endswith(style.number(scene(points).fields[0].relative["mlp-only"]))


@pytest.mark.parametrize("count", [1, 10])
def test_any_number_of_variants_is_shown(count: int) -> None:
    names = list(VARIANTS)[:count]
    made = scene(sphere(500), sizes={name: 0.1 for name in names})
    rows = pictured(fields.field_figure(made, "pressure", names))
    assert sum(len(row) for row in rows[1::2]) == count
    assert sum(len(row) for row in rows[::2]) == count + len(rows) // 2, "the truth in each block"
    assert len({scale for row in rows[::2] for scale in row}) == 1


def test_unknown_names_are_told() -> None:
    made = scene(sphere(50))
    with pytest.raises(ValueError, match="field must be one of pressure, got 'presure'; did you"):
        fields.field_figure(made, "presure", FOUR)
    with pytest.raises(ValueError, match="variant must be one of baseline, .*, got 'untied'"):
        fields.field_figure(made, "pressure", ["untied"])
    with pytest.raises(ValueError, match="variants must name at least one variant, got none"):
        fields.field_figure(made, "pressure", [])
    volume = scene(cube(500), "volume")
    with pytest.raises(ValueError, match="axis must be one of x, y, z, got 'w'"):
        fields.field_figure(volume, "pressure", FOUR, axis="w")
    with pytest.raises(ValueError, match="position must lie in .* to .*, got 7"):
        fields.field_figure(volume, "pressure", FOUR, axis="x", position=7.0)


def test_the_same_bytes_come_twice() -> None:
    texts = [
        style.svg_text(fields.field_figure(scene(sphere(400)), "pressure", FOUR[:1]))
        for _ in range(2)
    ]
    assert texts[0] == texts[1] and texts[0].startswith("<?xml")


def test_missing_values_are_grey_and_spoil_no_scale() -> None:
    points = sphere(800)
    made = scene(points, sizes={"baseline": 0.1})
    made.fields[0].predictions["baseline"][points[:, 0] > 0] = np.nan
    above, _ = pictured(fields.field_figure(made, "pressure", ["baseline"]))
    assert np.isfinite(np.array(above, float)).all()
    canvas = surface_canvas(points)
    colours, norm = fields.value_scale(made.fields[0].truth)
    bare = Canvas(canvas.raster)
    picture = bare.image(np.full(800, np.nan), colours, norm)
    assert np.ptp(picture[canvas.raster.covered], axis=-1).max() == pytest.approx(0), "no hue"


# --- surfaces ------------------------------------------------------------------------------------


def test_a_near_point_hides_a_far_one() -> None:
    positions = np.array([[5.5, 5.5, 0.0], [5.5, 5.5, 40.0]])
    facing = np.tile([0.0, 0.0, 1.0], (2, 1))
    for order in ([0, 1], [1, 0]):
        made = raster.splat(positions[order], np.full(2, 3.0), (11, 11), facing)
        picture = made.paint(positions[order, 2])
        assert picture[5, 5] == 40 and set(picture[made.covered]) == {40.0}
        assert not made.covered[0, 0] and np.isnan(picture[0, 0])


def test_a_back_face_just_in_front_stays_hidden() -> None:
    """The lower side of a thin wing, where noise of the depth would let it through."""
    positions = np.array([[5.5, 5.5, 0.0], [5.5, 5.5, 1.0]])
    normals = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    made = raster.splat(positions, np.full(2, 3.0), (11, 11), normals)
    assert made.paint(np.array([7.0, 8.0]))[5, 5] == 7


@pytest.mark.parametrize("with_normals", [True, False])
@pytest.mark.parametrize("count", [600, 5000])
def test_a_sphere_has_no_holes_and_cannot_be_seen_through(count: int, with_normals: bool) -> None:
    points = sphere(count)
    canvas = surface_canvas(points, points if with_normals else None)
    toward = camera(points)[2]
    rows, columns = canvas.raster.shape
    y, x = np.mgrid[:rows, :columns] + 0.5
    reach = np.hypot(x - columns / 2, y - rows / 2) / (columns / 2 / 1.06)
    assert canvas.raster.covered[reach < 0.93].all()
    assert not canvas.raster.covered[reach > 1.02 + 5 / np.sqrt(count)].any()
    depth = canvas.raster.paint(points @ toward)
    assert np.nanmin(depth[reach < 0.9]) > -0.2, "nothing of the far side"
    inner = reach < 0.7
    assert np.abs(depth - np.sqrt(np.maximum(1 - reach**2, 0)))[inner].max() < 3 / np.sqrt(count)


def test_triangles_hide_what_is_behind_and_are_linear_within() -> None:
    corners = np.array([[1, 1, 0], [9, 1, 0], [1, 9, 0]], np.float64)
    positions = np.concatenate([corners, corners + [0, 0, 5], corners + [6, 6, -5]])
    triangles = np.arange(9).reshape(3, 3)
    made = raster.mesh(positions, triangles, (16, 16))
    assert np.nanmax(np.abs(made.paint(positions[:, 2]) - 5)[2:4, 2:4]) < 1e-12
    picture = made.paint(positions[:, 0])
    inside = made.covered[:5, :5]
    columns = np.broadcast_to(np.arange(5) + 0.5, (5, 5))
    assert np.allclose(picture[:5, :5][inside], columns[inside])
    assert made.covered.sum() == pytest.approx(2 * 32, rel=0.2) and not made.covered[15, 0]


def test_a_mesh_is_drawn_without_gaps() -> None:
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, np.pi, 20))
    points = np.stack([3 * np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)], -1)
    corner = np.arange(19 * 40).reshape(19, 40)[:, :-1]
    pair = (corner, corner + 1, corner + 41), (corner, corner + 41, corner + 40)
    triangles = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in pair]).astype(np.int32)
    canvas = surface_canvas(points.reshape(-1, 3).astype(np.float32), None, triangles)
    filled = canvas.raster.covered
    for line in filled[filled.any(1)]:
        assert line[np.argmax(line) : len(line) - np.argmax(line[::-1])].all(), "a convex body"


def test_a_mesh_is_lit_by_the_normals_of_its_corners() -> None:
    ball = pv.Icosphere(radius=1, nsub=4)
    points, triangles = np.asarray(ball.points), np.asarray(ball.regular_faces, np.int32)
    spare = np.concatenate([points, [[0, 0, 0]]]).astype(np.float32)  # a point of no triangle
    canvas = surface_canvas(spare, None, triangles)
    facing = points @ camera(spare).T
    shown = facing[np.unique(canvas.raster.points)]
    assert canvas.light is not None and (shown[:, 2] > -0.1).all()
    inner = canvas.raster.paint(np.append(facing[:, 2], 0)) > 0.3
    exact = canvas.raster.paint(np.append(np.clip(facing @ [-0.4, 0.55, 0.73], 0, 1), 0))
    assert inner.any() and np.abs(canvas.light - exact)[inner].max() < 0.01


def test_the_longest_axis_lies_across_and_z_upwards() -> None:
    box = np.random.default_rng(2).uniform(-1, 1, (400, 3))
    for size in ([4, 2, 1.5], [2, 6, 0.3], [1, 1.5, 5]):
        right, up, toward = camera(box * size)
        long = int(np.argmax(size))
        assert abs(right[long]) > 0.8
        assert long == 2 or up[2] > 0.5
        assert np.allclose(
            np.stack([right, up, toward]) @ np.stack([right, up, toward]).T, np.eye(3)
        )
        assert np.allclose(np.cross(right, up), toward)
    assert camera(box * [4, 2, 1.5])[0][0] > 0, "flow goes to the right"
    swept = box * [0.5, 6, 0.2] + np.outer(box[:, 1], [4, 0, 0])
    picture = swept @ camera(swept).T
    assert np.ptp(picture[:, 0]) > 2 * np.ptp(picture[:, 1])


def test_spacing_is_that_of_a_grid_and_copies_do_not_count() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(9.0)] * 3), -1).reshape(-1, 3)
    inner = ((grid > 0) & (grid < 8)).all(1)
    found = raster.spacing(grid)
    assert (found[inner] >= 1).all() and np.median(found[inner]) <= 2**0.5
    assert (raster.spacing(np.concatenate([grid] * 8)) > 0.9).all()
    assert np.isfinite(raster.spacing(np.zeros((3, 3)))).all()


# --- sections ------------------------------------------------------------------------------------


def test_a_linear_field_is_interpolated() -> None:
    points = cube()
    canvas = section_canvas(points, "m", axis="y", position=1.2)
    values = 2 * points[:, 0] - points[:, 1] + 3 * points[:, 2]
    left, right, low, high = canvas.extent or (0, 0, 0, 0)
    rows, columns = canvas.raster.shape
    x = left + (np.arange(columns) + 0.5) / columns * (right - left)
    z = low + (np.arange(rows) + 0.5) / rows * (high - low)
    wanted = 2 * x - 1.2 + 3 * z[:, None]
    wrong = np.abs(canvas.raster.paint(values) - wanted)[4:-4, 4:-4]
    assert np.isfinite(wrong).all()
    assert np.median(wrong) < 0.002 and wrong.max() < 0.2, "of a range of 14"
    assert canvas.labels == ("x [m]", "z [m]") and canvas.note == "section at y = 1.2 m"


def test_a_section_goes_through_the_middle_of_the_shortest_axis() -> None:
    points = np.concatenate([cube(2000), np.array([[2, 1, 0], [2, 1, 2]], np.float32)])
    canvas = section_canvas(points, "1")
    assert canvas.labels == ("x", "y") and canvas.note == "section at z = 1"
    assert canvas.raster.shape[1] > canvas.raster.shape[0]


def test_there_is_white_where_no_points_are() -> None:
    points = cube()
    points = points[np.hypot(points[:, 0] - 2, points[:, 2] - 1) > 0.6]
    canvas = section_canvas(points, "m", axis="y")
    rows, columns = canvas.raster.shape
    assert not canvas.raster.covered[rows // 2, columns // 2]
    assert canvas.raster.covered[rows // 2, columns // 8]
    colours, norm = fields.value_scale(points[:, 0])
    picture = canvas.image(points[:, 0], colours, norm)
    assert (picture[rows // 2, columns // 2] == 1).all()
    assert (picture[rows // 2, columns // 8] != 1).any()


def test_the_body_is_grey_and_what_surrounds_it_is_not() -> None:
    points = cube()
    turn = np.random.default_rng(3).uniform(0, 2 * np.pi, 6000)
    body = np.stack([2 + 0.6 * np.cos(turn), np.linspace(0, 3, 6000), 1 + 0.6 * np.sin(turn)], 1)
    points = points[np.hypot(points[:, 0] - 2, points[:, 2] - 1) > 0.6]
    canvas = section_canvas(points, "m", axis="y", body=body.astype(np.float32))
    rows, columns = canvas.raster.shape
    assert canvas.grey is not None
    assert canvas.grey[rows // 2, columns // 2] and canvas.grey[rows // 2 + 8, columns // 2]
    assert not canvas.grey[rows // 2, columns // 8] and not canvas.grey[2:6, 2:-2].any()
    area = np.pi * 0.6**2 / 8 * rows * columns
    assert canvas.grey[2:-2, 2:-2].sum() == pytest.approx(area, rel=0.15)
    for shift in ([0, 9, 0], [40, 0, 0]):
        away = section_canvas(points, "m", axis="y", body=(body + shift).astype(np.float32))
        assert away.grey is not None and not away.grey.any(), "the plane misses it"


def test_the_body_is_also_known_by_the_distance_of_the_points() -> None:
    """A cylinder along y: no point is in it, and each says how far it is."""
    points = cube()
    distance = np.hypot(points[:, 0] - 2, points[:, 2] - 1) - 0.6
    points, distance = points[distance > 0], distance[distance > 0].astype(np.float32)
    canvas = section_canvas(points, "m", axis="y", wall_distance=distance)
    rows, columns = canvas.raster.shape
    assert canvas.grey is not None
    assert canvas.grey[rows // 2, columns // 2] and not canvas.grey[rows // 2, columns // 8]
    area = np.pi * 0.6**2 / 8 * rows * columns
    assert canvas.grey.sum() == pytest.approx(area, rel=0.15)
    assert canvas.grey.sum() >= 0.98 * area, "what is grey is at least the body"
    few = section_canvas(points[:40], "m", axis="y", wall_distance=distance[:40] * 0.1)
    assert few.grey is not None and not few.grey[[0, -1]].any() and not few.grey[:, [0, -1]].any()


def test_the_scale_is_of_what_the_section_shows() -> None:
    made = scene(cube(), "volume", {"baseline": 1.0})
    across_x, across_z = (
        pictured(fields.field_figure(made, "pressure", ["baseline"], axis=axis, position=0.4))
        for axis in "xz"
    )
    assert across_x[0][0] == pytest.approx((40, 40), abs=25), "of 0 to 400"
    assert across_x[1][0] == pytest.approx((0, 2), abs=0.1)
    assert across_z[0][0] == pytest.approx((0, 400), abs=20)
    assert across_z[1][0] == pytest.approx((0, 0.5), abs=0.2), "of 0 to 2"


@pytest.mark.parametrize("count", [1, 4, 6])
def test_every_row_and_column_of_a_section_has_its_coordinates(count: int) -> None:
    names = list(VARIANTS)[:count]
    made = scene(cube(2000), "volume", {name: 0.1 for name in names})
    figure = fields.field_figure(made, "pressure", names, axis="y")
    placed = {}
    for axes in figure.axes:
        place = axes.get_subplotspec()
        if place is not None and axes.images:
            placed[place.rowspan.start, place.colspan.start] = axes
    for (row, column), axes in placed.items():
        first = (row, column - 1) not in placed
        last = row % 2 == 1 or (row + 1, column) not in placed
        assert axes.get_ylabel() == ("z [m]" if first else ""), (row, column)
        assert axes.get_xlabel() == ("x [m]" if last else ""), (row, column)
        shown = axes.xaxis.get_tick_params()["labelbottom"], axes.yaxis.get_tick_params()
        assert (shown[0], shown[1]["labelleft"]) == (last, first), (row, column)
    assert len(placed) == 2 * count + len({row for row, _ in placed}) // 2


def test_far_points_do_not_shrink_the_picture() -> None:
    points = cube()
    far = np.concatenate([points, np.array([[400.0, 1, 1], [1, 1, 90]], np.float32)])
    canvas = section_canvas(far, "m", axis="y")
    assert canvas.extent is not None and canvas.extent[1] < 5 and canvas.extent[3] < 3


# --- slices --------------------------------------------------------------------------------------


def slices(count: int) -> tuple[list[Array], list[Array]]:
    points = sphere(count)
    tops = [np.abs(points.T) * np.array([[s], [2], [5]], np.float32) for s in (1.0, 3.0)]
    return tops, [1 + np.abs(points[:, 0]), 2 + np.abs(points[:, 1])]


def test_slices_have_one_scale_and_entropies_another() -> None:
    points = sphere(800)
    tops, entropies = slices(800)
    figure = fields.slice_figure(points, points, tops, entropies, [0.82, 0.72, 0.69], ["a", "b"])
    for row in pictured(figure):
        assert row[:3] == [(0, 1)] * 3
        assert row[3] == pytest.approx((1, 3), rel=0.05), "over both runs"
    titles = [axes.get_title() for axes in figure.axes[:4]]
    assert titles[:2] == ["pair 1, cosine 0.82", "pair 2, cosine 0.72"]
    assert [axes.get_xlabel() for axes in figure.axes[-2:]][1] == "entropy [nats]"


def test_slices_of_another_shape_are_refused() -> None:
    points = sphere(50)
    tops, entropies = slices(50)
    with pytest.raises(ValueError, match=r"tops must have shape \(K, N\) = \(2, 50\), got"):
        fields.slice_figure(points, None, tops, entropies, [0.8, 0.7], ["a", "b"])
    with pytest.raises(ValueError, match="entropies must hold one array for each of 2 labels"):
        fields.slice_figure(points, None, tops, entropies[:1], [0.8, 0.7, 0.6], ["a", "b"])
    with pytest.raises(ValueError, match=r"entropies must have shape \(N,\) = \(50,\), got \(49"):
        short = [each[:49] for each in entropies]
        fields.slice_figure(points, None, tops, short, [0.8, 0.7, 0.6], ["a", "b"])
