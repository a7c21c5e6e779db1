"""Blocks, OpenFOAM, STL and PLY, and what every mesh can do."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from numpy.typing import NDArray

from slipstream.data.meshes import Mesh, Wanted, mesh_info, parts_of, read_mesh

from ..mesh_files import (
    FLUX,
    HEAT,
    PRESSURE,
    VELOCITY,
    surface,
    volume,
    with_arrays,
    write_case,
    write_xml,
)


def test_blocks_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "mesh.vtm"
    one, two = surface(), with_arrays(pv.Icosphere(nsub=1))
    pv.MultiBlock({"one": one, "nested": pv.MultiBlock({"two": two})}).save(path)
    mesh = read_mesh(path, [VELOCITY, HEAT])
    assert np.array_equal(mesh.points(), np.concatenate((one.points, two.points)))
    for wanted in (VELOCITY, HEAT):
        parts = [one[wanted.name], two[wanted.name]]
        assert np.array_equal(mesh.array(wanted), np.concatenate(parts))
    assert mesh.triangles()[1].max() == len(mesh.points()) - 1
    assert {int(kind) for part in mesh.cells().chunks() for kind in part.types} == {7}
    assert [array.name for array in mesh.info.arrays] == ["U", "heat"]
    assert set(mesh_info(path).arrays) >= set(mesh.info.arrays)
    assert mesh_info(path).points == len(mesh.points())
    two.point_data.remove("U")
    pv.MultiBlock([one, two]).save(path)
    block = sorted((tmp_path / "mesh").iterdir())[1].name
    with pytest.raises(ValueError, match=f"{block} must have point data 'U', got"):
        read_mesh(path, [VELOCITY])
    assert "U" not in {array.name for array in mesh_info(path).arrays}
    pv.MultiBlock([volume(), volume()]).save(path)
    mesh = read_mesh(path, [FLUX])
    assert mesh.array(FLUX).shape == (2 * volume().n_cells, 3)
    block = sorted((tmp_path / "mesh").iterdir())[1].name
    (tmp_path / "mesh" / block).unlink()
    with pytest.raises(ValueError, match=f"{block} must exist, got no such file"):
        read_mesh(path)
    path.write_text("<VTKFile/>")
    with pytest.raises(ValueError, match="mesh.vtm must name the files of its blocks, got none"):
        mesh_info(path)


def test_openfoam_case(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = write_case(tmp_path / "case")
    pressure, velocity = Wanted("p", "cell", 1), Wanted("U", "cell", 3)
    for path in (case, case / "any.foam", case / "any.OpenFOAM"):
        assert parts_of(path) == parts_of(case) and case / "10" / "p" in parts_of(path)
        mesh = read_mesh(path, [pressure, velocity])
        assert mesh.array(pressure).tolist() == [10, 11]
        assert mesh.array(velocity).tolist() == [[10, 0, 1], [11, 0, 1]]
        assert mesh.cell_centres().tolist() == [[0.5, 0.5, 0.5], [1.5, 0.5, 0.5]]
    with pytest.raises(ValueError, match="case must be a surface of polygons, got .* types 12"):
        mesh.triangles()
    info = mesh_info(case)
    assert (info.points, info.cells) == (12, 2)
    assert {(a.name, a.location, a.components) for a in info.arrays} == {
        ("p", "cell", 1), ("U", "cell", 3)
    }  # fmt: skip
    ends = read_mesh(case, [velocity], regions=("outlet", "inlet"))
    assert ends.array(velocity).tolist() == [[7, 8, 9]] * 2
    assert ends.cell_centres().tolist() == [[2, 0.5, 0.5], [0, 0.5, 0.5]]
    assert [a.name for a in ends.info.arrays] == ["U"] and len(ends.triangles()[1]) == 4
    for bad, says in (
        ({"wanted": [Wanted("k", "cell", 1)]}, "case must have cell data 'k', got cell data 'U',"),
        ({"wanted": [Wanted("p", "point", 1)]}, "case must have 'p' as point data, got it as cell"),
        ({"wanted": [Wanted("U", "cell", 1)]}, "'U' of internalMesh of case must have 1 component"),
        ({"regions": ["wall"]}, "a region of case must be one of internalMesh, walls, inlet"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            read_mesh(case, **bad)
    (case / "10" / "U").write_text("spoilt")
    assert read_mesh(case, [pressure]).array(pressure).tolist() == [10, 11]
    for name in ("10/p", "constant/polyMesh/faces"):
        text = (case / name).read_text()
        (case / name).write_text(text[: len(text) * 2 // 3])
        with pytest.raises(ValueError, match="^case must be a whole file, got an error of VTK's"):
            read_mesh(case, [pressure])
    (case / "constant").rename(case / "processor0")
    with pytest.raises(ValueError, match="case must be an OpenFOAM case .* which reconstructPar j"):
        read_mesh(case / "any.foam")
    assert capfd.readouterr() == ("", "")


def test_stl_and_ply(tmp_path: Path) -> None:
    """An ascii STL of several solids is one surface, whose equal points are one."""
    ball = pv.Icosphere(nsub=1)
    solids = []
    for name, shift in (("body", 0.0), ("wheel front", 5.0)):
        ball.translate((shift, 0, 0)).save(tmp_path / "one.stl", binary=False)
        lines = (tmp_path / "one.stl").read_text().splitlines()
        solids += [f"solid {name}", *lines[1:-1], f"endsolid {name}"]
    (tmp_path / "car.stl").write_text("\n".join(solids) + "\n")
    points, triangles = read_mesh(tmp_path / "car.stl").triangles()
    assert points.shape == (84, 3) and triangles.shape == (160, 3) and triangles.dtype == np.int64
    both = np.concatenate((ball.points, ball.points + np.array([5, 0, 0], "f4")))
    away = np.linalg.norm(points[:, None] - both, axis=2)
    assert away.min(0).max() < 1e-5
    prism = surface()
    prism.save(tmp_path / "prism.ply")
    mesh = read_mesh(tmp_path / "prism.ply")
    assert np.array_equal(mesh.points(), prism.points) and mesh.info.cells == 13
    assert len(mesh.triangles()[1]) == 12 + 6 + 4
    text = (
        "ply\nformat ascii 1.0\ncomment by hand\nelement vertex 4\nproperty double x\n"
        "property double y\nproperty double z\nproperty float p\nproperty float nx\n"
        "property float ny\nproperty float nz\nelement face 2\nproperty uchar kind\n"
        "property list uchar int vertex_index\nproperty list uchar float uv\nend_header\n"
        "0 0 0 1.5 0 0 1\n1 0 0 2.5 0 0 1\n1 1 0 3.5 0 0 1\n0 1 0 4.5 0 0 1\n"
        "7 3 0 1 2 1 9\n8 4 0 1 2 3 0\n"
    )
    (tmp_path / "by_hand.ply").write_text(text)
    pressure, kind = Wanted("p", "point", 1), Wanted("kind", "cell", 1)
    mesh = read_mesh(tmp_path / "by_hand.ply", [pressure, kind])
    assert mesh.array(pressure).tolist() == [1.5, 2.5, 3.5, 4.5]
    assert mesh.array(kind).tolist() == [7, 8] and mesh.points().dtype == np.float64
    assert mesh.triangles()[1].tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 3]]
    arrays = [(a.name, a.components) for a in mesh_info(tmp_path / "by_hand.ply").arrays]
    assert arrays == [("p", 1), ("Normals", 3), ("kind", 1)]
    (tmp_path / "by_hand.ply").write_text(text.replace("7 3 0 1 2", "7 3 0 1 4"))
    with pytest.raises(ValueError, match="got corners of faces that are not among its 4 points"):
        read_mesh(tmp_path / "by_hand.ply")
    uneven = [[4, 0, 1, 2, 3], [3, 4, 5, 6], [5, 7, 8, 9, 10, 11]]  # of 4 corners in the mean
    prism = pv.PolyData(prism.points, np.concatenate(uneven))
    prism.save(tmp_path / "prism.ply")
    assert np.array_equal(
        read_mesh(tmp_path / "prism.ply").triangles()[1], Mesh("prism", prism).triangles()[1]
    )


def test_triangles_of_all_flat_cells() -> None:
    points = np.array([[x, y, 0] for y in (0, 1) for x in range(4)], np.float32)
    cells = [3, 0, 1, 5, 4, 0, 1, 4, 5, 6, 0, 4, 1, 5, 2, 6, 5, 0, 1, 2, 6, 5, 2, 0, 1, 1, 3]
    kinds = [5, 8, 6, 7, 3, 1]  # triangle, pixel, strip, polygon, line, vertex
    mesh = Mesh("mesh", pv.UnstructuredGrid(np.array(cells), np.array(kinds), points))
    got = mesh.triangles()[1]
    assert got.tolist() == [
        [0, 1, 5], [0, 1, 5], [0, 5, 4], [0, 4, 1], [4, 5, 1], [1, 5, 2], [5, 6, 2], [0, 1, 2],
        [0, 2, 6], [0, 6, 5],
    ]  # fmt: skip
    lines = pv.PolyData(points, faces=[4, 0, 1, 5, 4], lines=[2, 0, 1], verts=[1, 3])
    assert Mesh("mesh", lines).triangles()[1].tolist() == [[0, 1, 5], [0, 5, 4]]
    np.testing.assert_allclose(
        Mesh("mesh", lines).cell_centres(), [[3, 0, 0], [0.5, 0, 0], [0.5, 0.5, 0]]
    )


def test_memory_stays_near_what_is_held(tmp_path: Path) -> None:
    """Points and arrays once, cells never: 8 numbers of 8 bytes and an offset for each of them."""
    mesh = with_arrays(pv.ImageData(dimensions=(60, 60, 60)).cast_to_unstructured_grid())
    for packed in ("None", "ZLib"):
        path = write_xml(mesh, tmp_path / "mesh.vtu", packed=packed, block=1 << 15)
        for wanted in ((PRESSURE, VELOCITY), (HEAT, FLUX)):
            tracemalloc.start()
            read = read_mesh(path, wanted)
            kept: list[NDArray[Any]] = [read.locations(wanted[0].location)]
            kept += [read.points(), *(read.array(array) for array in wanted)]
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            held = sum({id(array): array.nbytes for array in kept}.values())
            assert peak < 1.1 * held + 30e6, (packed, peak / held)


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, slipstream.data.meshes.mesh, slipstream.data.geometry.normals\n"
        "print([m for m in ('pyvista', 'vtkmodules', 'scipy', 'h5py') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", ["vtp", "vtu", "vtk"])
def test_empty_blocks_are_passed_over(kind: str, tmp_path: Path) -> None:
    """Most blocks of a decomposed result may be empty, and lack the arrays."""
    one = surface() if kind == "vtp" else volume()
    nothing = pv.PolyData() if kind == "vtp" else pv.UnstructuredGrid()
    for name, mesh in (("none", nothing), ("one", one), ("two", one)):
        mesh.save(tmp_path / f"{name}.{kind}")
    named = enumerate(("none", "one", "two"))
    files = [f'<DataSet index="{i}" file="{name}.{kind}"/>' for i, name in named]
    path = tmp_path / "mesh.vtm"
    for names in (files[:2], files[1::-1], files):
        text = "".join(names)
        path.write_text(f"<VTKFile><vtkMultiBlockDataSet>{text}</vtkMultiBlockDataSet></VTKFile>")
        mesh = read_mesh(path, [VELOCITY, HEAT])
        count = len(names) - 1
        assert np.array_equal(mesh.array(HEAT), np.tile(one["heat"], count))
        assert mesh_info(path).points == len(mesh.points()) == count * one.n_points
    path.write_text(f"<VTKFile><vtkMultiBlockDataSet>{files[0]}</vtkMultiBlockDataSet></VTKFile>")
    with pytest.raises(ValueError, match="mesh.vtm must have at least one point, got none"):
        read_mesh(path, [VELOCITY])


def test_stl_in_capitals(tmp_path: Path) -> None:
    pv.Icosphere(nsub=1).save(tmp_path / "a.stl", binary=False)
    text = (tmp_path / "a.stl").read_text()
    points, triangles = read_mesh(tmp_path / "a.stl").triangles()
    for other in (text.upper(), text.title(), text.replace("solid", "SOLID")):
        (tmp_path / "b.stl").write_text(other)
        found = read_mesh(tmp_path / "b.stl").triangles()
        assert np.array_equal(found[0], points) and np.array_equal(found[1], triangles)
    (tmp_path / "b.stl").write_text(text.upper()[: len(text) // 2])
    with pytest.raises(ValueError, match="b.stl must be a whole STL file"):
        read_mesh(tmp_path / "b.stl")
