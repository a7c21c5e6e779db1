"""Forces against exact integrals, loops written otherwise, and each other in all conventions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from numpy.typing import NDArray

from slipstream.data.meshes import area_vectors, face_centres, mesh_of
from slipstream.evaluation.force_conventions import (
    ON_BODY,
    ON_FLUID,
    Conventions,
    find_conventions,
    guess_traction,
    stated_form,
)
from slipstream.evaluation.force_faces import outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.forces import face_forces, forces_by_units, surface_forces

from ..data import mesh_files

Array = NDArray[Any]
COEFFICIENT = Conventions.given("coefficient")
SLOPE = np.array([0.3, -2.0, 0.7])


def scrambled(mesh: pv.PolyData, seed: int = 0) -> pv.PolyData:
    """The same surface with half of its faces turned, and rows of all sizes."""
    draw = np.random.default_rng(seed)
    cells = [mesh.get_cell(i).point_ids for i in range(mesh.n_cells)]
    turned = [ids[::-1] if draw.random() < 0.5 else ids for ids in cells]
    return pv.PolyData(mesh.points, np.concatenate([[len(ids), *ids] for ids in turned]))


def box() -> pv.PolyData:
    """2 x 3 x 4, of 94 rectangles, with points in float64."""
    grid = pv.ImageData(dimensions=(4, 5, 6), spacing=(2 / 3, 3 / 4, 4 / 5), origin=(1, -2, 0))
    surface = grid.cast_to_unstructured_grid().extract_surface(algorithm="dataset_surface")
    return pv.PolyData(np.asarray(surface.points, np.float64), surface.faces)


def warped() -> pv.PolyData:
    """A closed surface of triangles, quadrangles and a hexagon, no polygon of which is flat."""
    mesh = mesh_files.surface()
    draw = np.random.default_rng(3)
    points = np.asarray(mesh.points, np.float64) + draw.normal(size=mesh.points.shape) * 0.1
    return pv.PolyData(points, mesh.faces)


def corners(mesh: pv.PolyData) -> list[Array]:
    return [np.asarray(mesh.points)[mesh.get_cell(i).point_ids] for i in range(mesh.n_cells)]


@pytest.mark.parametrize("body", ("box", "sphere"))
def test_a_linear_pressure_pulls_by_the_volume(body: str) -> None:
    """F = - grad p V by the divergence theorem, whichever way the facets turn."""
    mesh = box() if body == "box" else pv.Icosphere(radius=1.5, nsub=3, center=(1, 2, 3))
    mesh = scrambled(mesh)
    held = mesh_of(mesh)
    faces = outward_faces(held)
    pressure = 1e4 + faces.centres @ SLOPE
    forces = surface_forces(held, pressure, None, "cell", FlowReference(), COEFFICIENT)
    volume = 24 if body == "box" else pv.Icosphere(radius=1.5, nsub=3).volume
    np.testing.assert_allclose(forces.total, -SLOPE * volume, rtol=1e-6)
    assert np.abs(forces.area_sum).max() < 1e-6 * forces.wetted and not forces.open
    assert "the file turns" in forces.facing.reason and forces.undecided == 0
    flipped = face_forces(outward_faces(held, flip=True), pressure, None, FlowReference(),
                          COEFFICIENT)  # fmt: skip
    np.testing.assert_allclose(flipped.total, SLOPE * volume, rtol=1e-6)
    assert "--flip-normals" in flipped.facing.reason


def test_pressure_and_friction_of_a_sphere_converge() -> None:
    """p = z^3 gives - 4 pi / 5 along z; a traction (1 - x^2, 0, 0) gives 8 pi / 3 along x."""
    errors = []
    totals = []
    for nsub in (3, 4, 5):
        mesh = mesh_of(pv.Icosphere(radius=1, nsub=nsub))
        x = mesh.cell_centres().astype(np.float64)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        shear = np.stack((1 - x[:, 0] ** 2, 0 * x[:, 0], 0 * x[:, 0]), 1)
        forces = surface_forces(mesh, x[:, 2] ** 3, shear, "cell", FlowReference(), COEFFICIENT)
        assert forces.friction is not None
        totals.append(np.array([forces.pressure[2], forces.friction[0]]))
        errors.append(np.abs(totals[-1] - [-4 * np.pi / 5, 8 * np.pi / 3]))
    assert (errors[1] / errors[2] > 3.8).all(), "the error falls with the area of the triangles"
    np.testing.assert_allclose((4 * totals[2] - totals[1]) / 3,
                               [-4 * np.pi / 5, 8 * np.pi / 3], rtol=2e-6)  # fmt: skip


def test_area_vectors_of_polygons_that_are_not_flat() -> None:
    mesh = warped()
    held = mesh_of(mesh)
    vectors = area_vectors(held.cells(), held.points())
    centres = face_centres(held.cells(), held.points())
    for x, vector, centre in zip(corners(mesh), vectors, centres, strict=True):
        around = np.roll(x, -1, 0)
        contour = sum(np.cross((a + b) / 2, b - a) for a, b in zip(x, around, strict=True)) / 2
        np.testing.assert_allclose(vector, contour, atol=1e-14)
        pieces = [np.cross(a - x.mean(0), b - x.mean(0)) / 2
                  for a, b in zip(x, around, strict=True)]  # fmt: skip
        np.testing.assert_allclose(vector, sum(pieces), atol=1e-14)
        unit = vector / np.linalg.norm(vector)
        middle = [(a + b + x.mean(0)) / 3 for a, b in zip(x, around, strict=True)]
        by_hand = sum(m * (p @ unit) for m, p in zip(middle, pieces, strict=True))
        np.testing.assert_allclose(centre, by_hand / np.linalg.norm(vector), atol=1e-14)
    assert np.abs(vectors.sum(0)).max() < 1e-14, "closed, polygons as they are"
    fields = np.random.default_rng(0).normal(size=held.info.cells)
    outward = outward_faces(held).vectors
    forces = surface_forces(held, fields, None, "cell", FlowReference(), COEFFICIENT)
    np.testing.assert_allclose(forces.total, -(fields[:, None] * outward).sum(0), atol=1e-14)


def test_the_centre_of_a_face_with_a_corner_inwards() -> None:
    points = np.array([[0, 0, 1], [4, 0, 1], [4, 1, 1], [1, 1, 1], [1, 3, 1], [0, 3, 1.0]])
    mesh = mesh_of((points, np.arange(6)[None]))
    expected = (4 * np.array([2, 0.5, 1]) + 2 * np.array([0.5, 2, 1])) / 6
    np.testing.assert_allclose(face_centres(mesh.cells(), points)[0], expected, atol=1e-14)
    line = mesh_of((points[[0, 1, 0]] + 0.0, np.array([[0, 1, 2]])))
    np.testing.assert_allclose(face_centres(line.cells(), line.points())[0], [4 / 3, 0, 1])


def test_openfoam_sign_and_traction_on_the_body_are_the_same_forces() -> None:
    held = mesh_of(warped())
    draw = np.random.default_rng(1)
    pressure, tau = draw.normal(size=held.info.cells), draw.normal(size=(held.info.cells, 3))
    faces = outward_faces(held)
    reference = FlowReference(area=0.5, length=2.0, centre=(0.1, 0.2, 0.3), drag=(2.0, 0.0, 0.0))
    fluid = Conventions.given("kinematic", traction=ON_FLUID)
    reference = replace(reference, speed=3.0)
    forces = surface_forces(held, pressure, tau, "cell", reference, fluid)
    inward = -faces.vectors
    areas = np.linalg.norm(inward, axis=1)
    by_hand = (pressure[:, None] * inward).sum(0) - (tau * areas[:, None]).sum(0)
    np.testing.assert_allclose(forces.total, by_hand, rtol=1e-12)
    assert forces.unit.startswith("m^4/s^2") and forces.cd is not None and forces.cs is not None
    np.testing.assert_allclose((forces.cd, forces.cs, forces.cl), by_hand / (0.5 * 9 * 0.5))
    each = pressure[:, None] * inward - tau * areas[:, None]
    moment = sum(np.cross(c - [0.1, 0.2, 0.3], f) for c, f in zip(faces.centres, each, strict=True))
    np.testing.assert_allclose(forces.moment, moment, rtol=1e-12)
    names = ("cm_roll", "cm_pitch", "cm_yaw")
    np.testing.assert_allclose([forces.coefficients[n] for n in names], moment / (4.5 * 0.5 * 2))
    body = Conventions.given("kinematic", traction=ON_BODY)
    same = surface_forces(held, pressure, -tau, "cell", reference, body)
    assert same.total == forces.total and same.friction_moment == forces.friction_moment
    assert forces.cd_pressure is not None and forces.cd_friction is not None
    assert forces.cd == pytest.approx(forces.cd_pressure + forces.cd_friction)
    other = surface_forces(held, pressure, tau, "cell", reference, fluid.flipped())
    assert other.cd_friction == -forces.cd_friction


def test_the_sign_of_a_shear_is_seen_against_the_flow() -> None:
    areas = np.array([1.0, 2.0])
    drag = np.array([0.0, 1.0, 0.0])
    along = np.array([[0, 1.0, 0], [3, 4, 0]])
    body, doubt = guess_traction(along, areas, drag)
    assert body.value == ON_BODY and "along the flow by 0.818" in body.reason and doubt is None
    fluid, doubt = guess_traction(-along, areas, drag)
    assert fluid.value == ON_FLUID and "against the flow by 0.818" in fluid.reason
    _, doubt = guess_traction(np.array([[1.0, 0, 0], [1, 0.01, 0]]), areas, drag)
    assert doubt is not None and "--flip-shear" in doubt
    known, doubt = guess_traction(along, areas, drag, openfoam=True)
    assert known.value == ON_FLUID and doubt is not None and "is drag its direction?" in doubt
    still, doubt = guess_traction(0 * along, areas, drag)
    assert still.reason == "it is 0 everywhere" and doubt is None


def test_half_a_body_with_a_mirror_is_the_whole_body() -> None:
    whole = box().translate((0, 0.5, 0))  # y from -1.5 to 1.5, with faces on neither side of 0
    held = mesh_of(whole)
    faces = outward_faces(held)
    x = faces.centres * [1, 0, 1] + np.abs(faces.centres) * [0, 1, 0]
    side = np.sign(faces.centres[:, 1])
    pressure = np.sin(x @ [1, 2, 3])
    shear = np.stack((x[:, 0] ** 2, side * x[:, 1], x[:, 2]), 1)
    kept = np.flatnonzero(side > 0)
    half = mesh_of(whole.extract_cells(kept).extract_surface(algorithm="dataset_surface"))
    for centre in ((0.0, 0.0, 0.0), (0.3, 0.7, -0.2)):
        reference = FlowReference(area=2.0, length=1.5, centre=centre)
        expected = face_forces(faces, pressure, shear, reference, COEFFICIENT)
        own = replace(faces, mesh=half, vectors=faces.vectors[kept], centres=faces.centres[kept])
        reference = replace(reference, mirror="y")
        got = face_forces(own, pressure[kept], shear[kept], reference, COEFFICIENT)
        for name in ("pressure", "friction", "pressure_moment", "friction_moment", "area_sum"):
            np.testing.assert_allclose(getattr(got, name), getattr(expected, name), atol=1e-12)
        assert got.coefficients == pytest.approx(expected.coefficients, abs=1e-12)
        assert got.wetted == pytest.approx(expected.wetted) and got.total[1] == 0
        assert not any("both sides" in sentence for sentence in got.warnings)
    crossing = face_forces(faces, pressure, shear, reference, COEFFICIENT)
    assert any("both sides of y = 0" in sentence for sentence in crossing.warnings)


def test_units_and_forms_give_the_same_coefficients() -> None:
    held = mesh_of(warped())
    draw = np.random.default_rng(2)
    cp, cf = draw.normal(size=held.info.cells), draw.normal(size=(held.info.cells, 3))
    full = FlowReference(density=1.2, speed=30.0, area=0.7)
    expected = surface_forces(held, cp, cf, "cell", full, COEFFICIENT)
    assert expected.unit == "N"
    without = FlowReference(area=0.7)
    alone = surface_forces(held, cp, cf, "cell", without, COEFFICIENT)
    assert alone.coefficients == pytest.approx(expected.coefficients) and not alone.missing
    assert alone.unit.startswith("m^2 ")
    faces = outward_faces(held)
    for unit, stress, needed in (
        ("m^2/s^2", 450.0, {"speed": 30.0}),
        ("Pa", 540.0, {"speed": 30.0, "density": 1.2}),
        ("kPa", 0.54, {"speed": 30.0, "density": 1.2}),
    ):
        form = stated_form(unit, "its unit")
        conventions, doubts = find_conventions(form, form, None, faces, np.array([1.0, 0, 0]))
        assert not doubts and unit in conventions.pressure.reason
        got = surface_forces(held, cp * stress, cf * stress, "cell",
                             FlowReference(area=0.7, **needed), conventions)  # fmt: skip
        assert got.coefficients == pytest.approx(expected.coefficients, rel=1e-12)
        if "density" in needed:
            assert got.total == pytest.approx(expected.total) and got.unit == "N"
        lacking = surface_forces(held, cp * stress, None, "cell", FlowReference(), conventions)
        assert lacking.missing == ("area", *needed) and lacking.cd is None
        assert not lacking.coefficients and not lacking.reference_changes
    mixed = Conventions.given("coefficient", "dimensional")
    got = surface_forces(held, cp, cf * 540, "cell", full, mixed)
    assert got.coefficients == pytest.approx(expected.coefficients, rel=1e-12)
    with pytest.raises(ValueError, match="density and speed must be known to add a pressure that"):
        surface_forces(held, cp, cf, "cell", without, mixed)
    with pytest.raises(ValueError, match="the unit must be one of Pa.* got 'K'"):
        stated_form("K", "its unit")


def test_forces_of_arrays_with_units() -> None:
    held = mesh_of(warped())
    rows = held.info.points
    draw = np.random.default_rng(6)
    p, tau = draw.normal(size=rows), draw.normal(size=(rows, 3)) + [2, 0, 0]
    reference = FlowReference(density=1.2, speed=3.0, area=0.7)
    forms = replace(Conventions.given("dimensional", "kinematic"), pressure_factor=1000.0)
    expected = surface_forces(held, p, tau, "point", reference, forms)
    units = ((p, "kPa"), (tau, "m^2/s^2"))
    got = forces_by_units(held, "point", *units, reference)
    assert got.coefficients == expected.coefficients and got.warnings == expected.warnings
    assert got.conventions.traction.value == ON_BODY
    for options in ({"flip_shear": True}, {"openfoam": True}):
        other = forces_by_units(held, "point", *units, reference, **options)
        assert other.friction == tuple(-f for f in expected.friction or ())
    alone = forces_by_units(held, "point", (p, "1"), None, reference)
    assert alone.friction is None and alone.conventions.pressure.value == "coefficient"


def test_an_open_surface_depends_on_the_reference_of_the_pressure() -> None:
    """A box without its floor: a constant pressure gives all the lift there is."""
    whole = box()
    floor = whole.cell_centers().points[:, 2] < 1e-9
    mesh = pv.PolyData(whole.points, np.concatenate(
        [[4, *whole.get_cell(i).point_ids] for i in np.flatnonzero(~floor)]))  # fmt: skip
    held = mesh_of(mesh)
    faces = replace(outward_faces(held, facing="out of the body"), undecided=0.25)
    ones = np.ones(held.info.cells)
    reference = FlowReference(density=1.0, speed=2.0, area=3.0, pressure=0.0)
    conventions = Conventions.given("dimensional")
    forces = face_forces(faces, 5 * ones, None, reference, conventions)
    np.testing.assert_allclose(forces.total, [0, 0, -5 * 6], atol=1e-12)  # pressed down
    np.testing.assert_allclose(forces.area_sum, [0, 0, 6], atol=1e-12)
    assert forces.open and forces.reference_changes == pytest.approx({"cd": 0, "cs": 0, "cl": -2})
    said = " ".join(forces.warnings)
    assert "open surface: the area vectors sum to 6 m^2 of 46" in said
    assert "Cl by -2 if the pressure is higher by a dynamic pressure (2 Pa)" in said
    assert "25.0% of the area may face either way" in said
    shifted = face_forces(faces, 7 * ones, None, reference, conventions)
    assert shifted.cl is not None and forces.cl is not None
    assert shifted.cl - forces.cl == pytest.approx(forces.reference_changes["cl"])
    level = face_forces(faces, 5 * ones, None, replace(reference, pressure=5.0), conventions)
    np.testing.assert_allclose(level.total, 0, atol=1e-12)
    inward = outward_faces(mesh_of(pv.PolyData(mesh.points, np.concatenate(
        [[4, *mesh.get_cell(i).point_ids[::-1]] for i in range(mesh.n_cells)]))),
        facing="into the body")  # fmt: skip
    np.testing.assert_allclose(inward.vectors, faces.vectors, atol=1e-14)
    np.testing.assert_allclose(
        face_forces(inward, 5 * ones, None, reference, conventions).total, forces.total, atol=1e-12
    )
    atmosphere = 101325 + np.linspace(-100, 100, held.info.cells)
    said = " ".join(face_forces(faces, atmosphere, None, reference, conventions).warnings)
    assert "is it absolute? Then these forces are wrong" in said
    assert "the pressure coefficient reaches 5.07e+04" in said


def test_values_at_points_are_averaged_and_it_is_said() -> None:
    mesh = warped()
    held = mesh_of(mesh)
    values = np.random.default_rng(5).normal(size=mesh.n_points)
    forces = surface_forces(held, values, None, "point", FlowReference(), COEFFICIENT)
    means = np.array([values[mesh.get_cell(i).point_ids].mean() for i in range(mesh.n_cells)])
    by_cells = surface_forces(held, means, None, "cell", FlowReference(), COEFFICIENT)
    np.testing.assert_allclose(forces.total, by_cells.total, atol=1e-14)
    assert "the mean of its corners" in forces.warnings[0]
    assert not any("corners" in sentence for sentence in by_cells.warnings)
    assert "there is no shear" in " ".join(by_cells.warnings)
    scaled = outward_faces(held, scale=0.1)
    forces = face_forces(scaled, means, None, FlowReference(), COEFFICIENT)
    np.testing.assert_allclose(forces.total, np.array(by_cells.total) * 0.01)
    np.testing.assert_allclose(forces.moment, np.array(by_cells.moment) * 0.001)


@pytest.mark.usefixtures("no_shape_checks")
def test_bad_input_is_a_sentence() -> None:
    held = mesh_of(warped())
    ones, rows = np.ones(held.info.cells), held.info.cells

    def forces(pressure: Any, shear: Any = None) -> None:
        surface_forces(held, pressure, shear, "cell", FlowReference(), COEFFICIENT)

    with pytest.raises(ValueError, match="pressure of the mesh must be finite, got 1 of 13 cells"):
        forces(np.where(np.arange(rows) == 4, np.nan, ones))
    with pytest.raises(ValueError, match=r"shear of the mesh must be numbers of shape \(13, 3\)"):
        forces(ones, ones)
    with pytest.raises(ValueError, match="must be numbers of shape"):
        forces(ones[1:])
    volume = mesh_of(mesh_files.volume(polyhedron=False))
    with pytest.raises(ValueError, match="must be a surface of polygons"):
        outward_faces(volume)
    flat = mesh_of((np.zeros((3, 3)), np.array([[0, 1, 2]])))
    with pytest.raises(ValueError, match="must be a surface with an area"):
        outward_faces(flat)
    with pytest.raises(ValueError, match="scale must be a positive number, got -1"):
        outward_faces(held, scale=-1)
    for wrong, sentence in (
        ({"area": 0}, "area must be a positive number, got 0"),
        ({"speed": float("nan")}, "speed must be a positive number, got nan"),
        ({"density": True}, "density must be a positive number, got True"),
        ({"drag": (0, 0, 0)}, "drag must be a direction, got 0, 0, 0"),
        ({"drag": (0, 0, 1)}, "lift must be perpendicular to drag, got 0 degrees"),
        ({"lift": (0, 1)}, r"lift must be three numbers, got \(0, 1\)"),
        ({"mirror": "w"}, "mirror must be one of x, y, z, got 'w'"),
        ({"pressure": "high"}, "the reference pressure must be a number"),
    ):
        with pytest.raises(ValueError, match=sentence):
            FlowReference(**wrong)  # type: ignore[arg-type]


def test_reference_values_of_a_card_with_parameters() -> None:
    values = {"density": 1.2, "speed": "U", "area": 0.7, "drag": (0.0, 1.0, 0.0), "mirror": "x"}
    got = FlowReference.of(values, {"U": np.float32(30)}, area=None, length=2)
    assert got == FlowReference(1.2, 30.0, 0.7, 2.0, (0.0, 1.0, 0.0), mirror="x")
    assert FlowReference.of(values, {"U": 30}, area=0.9).area == 0.9, "what is given wins"
    np.testing.assert_array_equal(got.axes, [[0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match="speed as a parameter must be one of V, got 'U'"):
        FlowReference.of(values, {"V": 1})
    with pytest.raises(ValueError, match="a reference value must be one of .* did you mean 'area'"):
        FlowReference.of({"aera": 1})


def test_a_tunnel_around_a_body_is_told() -> None:
    both = pv.Sphere(radius=1.0).merge(pv.Cube(x_length=40, y_length=40, z_length=40))
    mesh = mesh_of(both.extract_surface(algorithm=None).triangulate())
    zero = np.zeros(mesh.info.cells)
    forces = surface_forces(
        mesh, zero, None, "cell", FlowReference(area=1.0), Conventions.given("coefficient")
    )
    assert any("taken for a tunnel or far field" in text for text in forces.warnings)
