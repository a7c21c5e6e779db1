"""Meshes of Python users: rows as those of files, and arrays added without changing their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from vtkmodules.vtkCommonDataModel import vtkTable

from slipstream.data.meshes import (
    Wanted,
    as_pyvista,
    mesh_of,
    read_mesh,
    units_of,
    with_arrays,
    write_with_arrays,
)

from ..mesh_files import (
    FLUX,
    VELOCITY,
    check_same,
    mixed_surface,
    odd_names,
    quadratic_volume,
    surface,
    volume,
    write_case,
    write_parts,
    write_xml,
)
from ..mesh_files import with_arrays as with_data
from .written import CELL_NAME, NAME, UNITS, check_kept, corners_of, field, vectors


def meshes() -> list[Any]:
    image = pv.ImageData(dimensions=(3, 4, 2), spacing=(1, 0.5, 2), origin=(-1, 2, 0))
    axes = np.array([0, 1, 3.0]), np.array([0, 2.0, 2.5, 4]), np.array([-1, 0.5])
    curved = pv.StructuredGrid(*np.meshgrid(*axes, indexing="ij"))
    made = [
        image,
        pv.RectilinearGrid(*axes),
        curved,
        pv.Sphere(phi_resolution=6, theta_resolution=8),
        pv.Cube().triangulate().strip(),
    ]
    return [mixed_surface(), surface(), volume(), quadratic_volume(), *map(with_data, made)]


def centres(mesh: Any) -> Any:
    x = np.asarray(mesh.points, np.float64)
    return np.array([x[corners].mean(0) for corners in corners_of(mesh)])


def added(data: Any) -> Any:
    mesh = mesh_of(data)
    return with_arrays(
        data,
        point_arrays={NAME: field(mesh.locations("point"))},
        cell_arrays={CELL_NAME: vectors(mesh.locations("cell"))},
        units=UNITS,
    )


def check_added(got: Any) -> None:
    np.testing.assert_allclose(got.point_data[NAME], field(got.points), rtol=1e-6, atol=1e-6)
    expected = vectors(centres(got))
    np.testing.assert_allclose(got.cell_data[CELL_NAME], expected, rtol=1e-5, atol=1e-6)
    assert units_of(got).items() >= UNITS.items()


@pytest.mark.parametrize("data", meshes(), ids=lambda data: f"{type(data).__name__}{data.n_cells}")
def test_pyvista_objects(data: Any) -> None:
    before = data.copy()
    mesh = mesh_of(data)
    np.testing.assert_array_equal(mesh.points(), data.points)
    np.testing.assert_array_equal(mesh.array(VELOCITY), data.point_data["U"])
    np.testing.assert_array_equal(mesh.array(FLUX), data.cell_data["flux"])
    np.testing.assert_allclose(mesh.cell_centres(), centres(data), rtol=1e-6, atol=1e-6)
    got = added(data)
    check_added(got)
    check_kept(got, before)
    assert NAME not in data.point_data and CELL_NAME not in data.cell_data
    check_kept(data, before)
    got.point_data[NAME][:] = 0  # memory of its own
    check_added(added(data))


def test_points_and_arrays_are_not_copied() -> None:
    data = surface()
    mesh = mesh_of(data, name="body")
    check_same(mesh, data)
    assert np.shares_memory(mesh.points(), data.points)
    assert np.shares_memory(np.asarray(added(data).points), data.points)
    with pytest.raises(ValueError, match="^body must have point data 'k', got point data"):
        mesh.array(Wanted("k", "point", 1))
    np.testing.assert_allclose(
        mesh_of(volume()).volumes()[:2], volume().compute_cell_sizes()["Volume"][:2]
    )


def test_trees_of_blocks() -> None:
    """Rows go to their blocks, also where a block is there twice, empty, or missing."""
    twice = mixed_surface()
    inner = pv.MultiBlock({"b": surface(), "twice": twice, "empty": pv.UnstructuredGrid()})
    data = pv.MultiBlock({"a": twice, "none": None, "inner": inner})
    assert mesh_of(data).info.points == 2 * twice.n_points + surface().n_points
    got = added(data)
    assert got.keys() == ["a", "none", "inner"] and got["inner"].keys() == inner.keys()
    for block in (got["a"], got["inner"]["b"], got["inner"]["twice"]):
        check_added(block)
    check_kept(got["inner"]["b"], surface())
    assert got["none"] is None and got["inner"]["empty"].n_points == 0
    assert NAME not in twice.point_data and NAME not in data["inner"]["b"].point_data
    numbers = np.arange(mesh_of(data).info.points)
    got = with_arrays(data, point_arrays={"n": numbers})
    blocks = got["a"], got["inner"]["b"], got["inner"]["twice"]
    assert np.concatenate([b["n"] for b in blocks]).tolist() == numbers.tolist()


def test_numpy_arrays() -> None:
    corners = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [1, 1, 3]], np.float32)
    cells = np.array([[0, 1, 4], [2, 3, 4]], np.uint8)
    mesh = mesh_of((corners, cells))
    assert np.array_equal(mesh.points(), corners) and mesh.points().dtype == np.float32
    assert np.array_equal(mesh.triangles()[1], cells)
    np.testing.assert_allclose(mesh.cell_centres(), corners[cells].mean(1), rtol=1e-6)
    assert mesh_of((corners, [[0, 1, 2, 3]])).info.cells == 1
    alone = mesh_of((corners,))
    assert (alone.info.points, alone.info.cells) == (5, 0)
    flat = mesh_of((corners[:, :2].astype(int),))
    assert flat.points().dtype == np.float64 and flat.points()[:, 2].tolist() == [0] * 5
    assert np.array_equal(flat.points()[:, :2], corners[:, :2])
    got = with_arrays((corners, cells), cell_arrays={"f": np.array([3, 4])})
    assert isinstance(got, pv.PolyData) and got["f"].tolist() == [3, 4] and got.n_points == 5
    corners[:] = 9  # a copy was made
    assert mesh.points()[0].tolist() == [0, 0, 0]


def test_what_is_no_mesh() -> None:
    points = np.zeros((4, 3))
    form = "^a mesh must be a pyvista or VTK data set, or numpy arrays .* got"
    for data, says in (
        (points, f"{form} ndarray"), ((points,) * 3, f"{form} 3 arrays"), ((), f"{form} 0 arrays"),
        ("mesh.vtp", f"{form} str"), (None, f"{form} NoneType"), (vtkTable(), f"{form} vtkTable"),
        (pv.MultiBlock({"t": pv.Table({"a": np.ones(1)})}), f"{form} a block that is vtkTable"),
        (pv.PolyData(), "^the mesh must have at least one point, got none"),
        (pv.MultiBlock(), "^the mesh must have at least one point, got none"),
        (pv.MultiBlock([pv.PolyData(), None]), "^the mesh must have at least one point, got none"),
        ((points[:, :1],), r"^points must be numbers of shape \(P, 3\) or \(P, 2\), got float64"),
        ((points.astype(str),), "^points must be numbers of shape"),
        ((points.astype(complex),), "^points must be numbers of shape"),
        ((points, [[0, 1]]), "^cells must be whole numbers of shape"),
        ((points, [[0, 1, 2.0]]), "^cells must be whole numbers of shape"),
        ((points, [[0, 1, 4]]), "^cells must have corners among the 4 points, got .* 0 to 4"),
        ((points, [[0, 1, -1]]), "^cells must have corners among the 4 points, got .* -1 to 1"),
    ):  # fmt: skip
        for function in (mesh_of, with_arrays):
            with pytest.raises(ValueError, match=says):
                function(data)
    for arrays, says in (
        ({"point_arrays": {"f": np.zeros(3)}}, "'f' must have a row for each of the 4 points"),
        ({"cell_arrays": {"f": np.zeros(1)}}, "'f' must have a row for each of the 0 cells"),
        ({"point_arrays": {"f": points + 1j}}, "'f' must be an array of real numbers, got complex"),
        ({"units": {"f": "m"}}, "units must be of arrays that are added, got one of 'f'"),
        ({"point_arrays": {"f": points}, "units": {"f": "\0"}}, "a unit must be text without"),
    ):
        with pytest.raises(ValueError, match=says):
            with_arrays((points,), **arrays)
    with pytest.raises(ValueError, match="'U' must be a new name, got one that an array at the po"):
        with_arrays(surface(), point_arrays={"U": np.zeros(13)})


def test_files_as_pyvista_objects(tmp_path: Path) -> None:
    """All arrays of a file, in the order of its rows; what was added is found again."""
    for mesh, name in ((mixed_surface(), "mesh.vtp"), (odd_names(volume()), "mesh.vtu")):
        if name == "mesh.vtu":
            mesh.point_data.remove('T <"K"> & [ü] %20')
            mesh.cell_data.remove("shear stress")
            mesh.field_data.clear()
        source = write_xml(mesh, tmp_path / name)
        got = as_pyvista(source)
        check_kept(got, mesh)
        check_added(added(got))
        check_kept(as_pyvista(write_parts(source, [700])), mesh)
    blocks = pv.MultiBlock({"a": surface(), "inner": pv.MultiBlock({"b": mixed_surface()})})
    blocks.save(tmp_path / "mesh.vtm")
    got = as_pyvista(tmp_path / "mesh.vtm")
    assert got.keys() == ["a", "b"]
    assert np.array_equal(mesh_of(got).points(), read_mesh(tmp_path / "mesh.vtm").points())
    case = write_case(tmp_path / "case")
    assert as_pyvista(case)["p"].tolist() == [10, 11]
    assert as_pyvista(case, regions=("walls",)).n_cells == 8
    patches = as_pyvista(case, regions=("outlet", "inlet"))
    assert patches.keys() == ["outlet", "inlet"]
    assert np.array_equal(
        mesh_of(patches).cell_centres(), read_mesh(case, regions=("outlet", "inlet")).cell_centres()
    )
    body = surface().triangulate()
    body.clear_data()
    body.save(tmp_path / "body.stl")
    assert np.array_equal(
        as_pyvista(tmp_path / "body.stl").points, pv.read(tmp_path / "body.stl").points
    )
    (tmp_path / "cut.vtu").write_bytes((tmp_path / "mesh.vtu").read_bytes()[:900])
    pv.PolyData().save(tmp_path / "empty.vtp")
    for name, says in (("cut.vtu", "whole VTK XML"), ("empty.vtp", "at least one point, got none")):
        with pytest.raises(ValueError, match=f"^{name} must .*{says}"):
            as_pyvista(tmp_path / name)


def test_units_come_back_from_every_format(tmp_path: Path) -> None:
    units = {"p": "m²/s²", "tau": "N/m^2", "x <&>": '"°" [-]'}
    arrays: dict[str, Any] = {name: np.zeros(13) for name in units}
    surface().save(tmp_path / "mesh.vtk")
    for source in (write_xml(surface(), tmp_path / "mesh.vtp"), tmp_path / "mesh.vtk"):
        out = write_with_arrays(source, tmp_path / "out", point_arrays=arrays, units=units)
        assert units_of(pv.read(out)) == units_of(as_pyvista(out)) == units
        again = write_with_arrays(out, tmp_path / "again")
        assert units_of(pv.read(again)) == units
    assert units_of(pv.MultiBlock([as_pyvista(out), None])) == units and units_of(surface()) == {}
