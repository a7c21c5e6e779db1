"""A mesh of every format written back with arrays added, read by pyvista and compared by value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import Wanted, output_path, read_mesh, units_of, write_with_arrays

from ..mesh_files import (
    mixed_surface,
    odd_names,
    quadratic_volume,
    surface,
    volume,
    with_arrays,
    write_case,
    write_legacy,
    write_parts,
    write_xml,
)
from .written import check_fields, check_kept, check_reads_again, field, write_fields

XML_FORMS: tuple[dict[str, Any], ...] = (
    {"mode": "Ascii"}, {"mode": "Binary"}, {"mode": "Binary", "packed": "None"},
    {"encoded": True}, {"packed": "LZ4"}, {"packed": "None", "order": "Big", "header": 64},
)  # fmt: skip


def grid(kind: str) -> Any:
    x, y, z = np.array([0, 1, 3.0]), np.array([0, 2.0, 2.5, 4]), np.array([-1, 0.5])
    if kind == "vti":
        mesh: Any = pv.ImageData(dimensions=(3, 4, 2), spacing=(1, 0.5, 2), origin=(-1, 2, 0))
    elif kind == "vtr":
        mesh = pv.RectilinearGrid(x, y, z)
    else:
        mesh = pv.StructuredGrid(*np.meshgrid(x, y, z, indexing="ij"))
        mesh.points += 0.1 * np.sin(mesh.points[:, [1, 2, 0]])
    return odd_names(with_arrays(mesh))


def check_written(source: Path, out: Path) -> Any:
    written = write_fields(source, out)
    got = pv.read(written)
    check_fields(got)
    check_kept(got, pv.read(source))
    check_reads_again(written, source)
    assert [f.name for f in out.parent.glob(f".{out.name}*")] == []
    return got


@pytest.mark.parametrize("form", XML_FORMS, ids=lambda form: "-".join(map(str, form.values())))
@pytest.mark.parametrize("make", (mixed_surface, surface, volume, quadratic_volume))
def test_xml(tmp_path: Path, make: Callable[[], Any], form: dict[str, Any]) -> None:
    suffix = ".vtp" if "surface" in make.__name__ else ".vtu"
    source = write_xml(_encoded(odd_names(make())), tmp_path / f"mesh{suffix}", **form)
    got = check_written(source, tmp_path / f"out{suffix}")
    if make is mixed_surface:
        assert (got.n_verts, got.n_lines, got.n_faces, got.n_strips) == (2, 2, 3, 2)


def _encoded(mesh: Any) -> Any:
    """With names as VTK's writer must be given them: it writes < and & into XML as they are."""
    for held in (mesh.GetPointData(), mesh.GetCellData(), mesh.GetFieldData()):
        for i in range(held.GetNumberOfArrays()):
            array = held.GetAbstractArray(i)
            for letter, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
                array.SetName(array.GetName().replace(letter, code))
                for c in range(array.GetNumberOfComponents() * array.HasAComponentName()):
                    array.SetComponentName(c, array.GetComponentName(c).replace(letter, code))
    return mesh


def test_pieces_and_parts_of_a_file(tmp_path: Path) -> None:
    """A mesh in two pieces becomes one piece; one in byte parts becomes one file."""
    source = write_xml(volume(polyhedron=False), tmp_path / "mesh.vtu", pieces=2)
    check_written(source, tmp_path / "out.vtu")
    parts = write_parts(source, [500, 1000])
    points = read_mesh(parts).points()
    out = write_with_arrays(parts, tmp_path / "again", point_arrays={"f": field(points)})
    assert out == tmp_path / "again.vtu" and output_path(parts, tmp_path / "again") == out
    assert np.array_equal(pv.read(out)["f"], field(pv.read(source).points))


@pytest.mark.parametrize("binary", (True, False))
@pytest.mark.parametrize("version", ("4.2", "5.1"))
@pytest.mark.parametrize("make", (mixed_surface, volume, quadratic_volume))
def test_legacy(tmp_path: Path, make: Callable[[], Any], version: str, binary: bool) -> None:
    mesh = odd_names(make())
    source = write_legacy(mesh, tmp_path / "mesh.vtk", binary=binary, version=version)
    check_written(source, tmp_path / "out.vtk")


@pytest.mark.parametrize("kind", ("vti", "vtr", "vts"))
def test_structured(tmp_path: Path, kind: str) -> None:
    """They stay structured; rows are in the order of points and cells of the listed mesh."""
    mesh = grid(kind)
    for name in (f"mesh.{kind}", "mesh.vtk"):
        source = tmp_path / name
        (mesh if name.endswith("vtk") else _encoded(mesh.copy())).save(source)
        check_written(source, tmp_path / f"out{source.suffix}")


def test_stl_and_ply_become_vtp(tmp_path: Path) -> None:
    body = surface().triangulate()
    body.clear_data()
    for binary in (True, False):
        for suffix in (".stl", ".ply"):
            source = tmp_path / f"body{binary}{suffix}"
            body.save(source, binary=binary)
            written = write_fields(source, tmp_path / source.stem, overwrite=True)
            assert written == tmp_path / f"{source.stem}.vtp"
            got, old = pv.read(written), pv.read(source)
            check_fields(got)
            assert np.array_equal(got.points, old.points) and np.array_equal(got.faces, old.faces)
            check_reads_again(written, source)
    body.point_data["RGB"] = np.arange(3 * body.n_points, dtype=np.uint8).reshape(-1, 3)
    body.save(tmp_path / "red.ply", texture="RGB")
    got = pv.read(write_fields(tmp_path / "red.ply", tmp_path / "red.vtp"))
    columns = [got.point_data[name] for name in ("red", "green", "blue")]
    assert np.array_equal(np.stack(columns, 1), body.point_data["RGB"])


def test_cases(tmp_path: Path) -> None:
    """The volume is one .vtu, a patch one .vtp, several patches are blocks of a .vtm."""
    case = write_case(tmp_path / "case")
    written = write_fields(case, tmp_path / "volume")
    assert written == tmp_path / "volume.vtu"
    got = pv.read(written)
    check_fields(got)
    check_reads_again(written, case)
    assert got["p"].tolist() == [10, 11] and got["U"].tolist() == [[10, 0, 1], [11, 0, 1]]
    assert got.cell_centers().points.tolist() == [[0.5, 0.5, 0.5], [1.5, 0.5, 0.5]]
    written = write_fields(case / "x.foam", tmp_path / "walls.vtp", regions=("walls",))
    got = pv.read(written)
    check_fields(got)
    check_reads_again(written, case, regions=("walls",))
    assert got.n_cells == 8 and got["U"].tolist() == [[7, 8, 9]] * 8
    for regions, names in (
        (("outlet", "walls"), ["outlet", "walls"]),
        (("*let",), ["inlet", "outlet"]),
        (("inl*",), ["inlet"]),
    ):
        written = write_fields(case, tmp_path / "patches", regions=regions, overwrite=True)
        assert written == tmp_path / "patches.vtm"
        blocks = pv.read(written)
        assert blocks.keys() == names
        for block in blocks:
            check_fields(block)
        check_reads_again(written, case, regions=regions)


def test_polyhedra(tmp_path: Path) -> None:
    """Rows of polyhedra are at the mean of their corners, and their faces stay as they are."""
    corners = np.array(
        [[x, y, z] for z in (0, 1) for x, y in ((0, 0), (2, 0), (3, 2), (1, 3), (-1, 1))], float
    )
    tip = [[1.0, 1.0, 4.0]]  # a prism of five sides below a pyramid: two polyhedra
    ring = [(i, (i + 1) % 5, 5 + (i + 1) % 5, 5 + i) for i in range(5)]
    prism = [(4, 3, 2, 1, 0), *ring, (5, 6, 7, 8, 9)]
    top = [(9, 8, 7, 6, 5), *((5 + i, 5 + (i + 1) % 5, 10) for i in range(5))]
    cells: list[int] = []
    for faces in (prism, top):
        flat = [len(faces), *(n for face in faces for n in (len(face), *face))]
        cells += [len(flat), *flat]
    mesh = pv.UnstructuredGrid(np.array(cells), [42, 42], np.concatenate((corners, tip)))
    for suffix in (".vtu", ".vtk"):
        source = tmp_path / f"mesh{suffix}"
        mesh.save(source)
        places = read_mesh(source).locations("cell")
        np.testing.assert_allclose(places, [corners.mean(0), [1, 7 / 6, 9 / 6]], rtol=1e-15)
        got = check_written(source, tmp_path / f"out{suffix}")
        for number, faces in enumerate((prism, top)):
            assert [tuple(f.point_ids) for f in got.get_cell(number).faces] == faces
        volumes = read_mesh(tmp_path / f"out{suffix}").volumes()
        np.testing.assert_allclose(volumes, read_mesh(source).volumes())
        area = 0.5 * sum(
            corners[i, 0] * corners[(i + 1) % 5, 1] - corners[(i + 1) % 5, 0] * corners[i, 1]
            for i in range(5)
        )
        np.testing.assert_allclose(volumes, [area, area], rtol=1e-12)


def test_every_type_of_number(tmp_path: Path) -> None:
    """Values come back bit by bit, NaN and infinity too; bool as uint8 and float16 as float32."""
    count = surface().n_points
    values = np.random.default_rng(0).integers(0, 100, (count, 4))
    arrays = {kind: values.astype(kind) for kind in ("i1", "u2", "i4", "u8", "f4", ">f8", "<i8")}
    arrays["bad"] = np.resize([np.nan, np.inf, -np.inf, 1e308, 5e-324], count)
    arrays["turned"] = np.asfortranarray(values.astype(np.float64))[::-1, ::2]
    arrays["wide"] = np.arange(count * 7.0).reshape(count, 7)
    converted = {"half": np.full(count, 0.1, np.float16), "flag": values[:, 0] > 50}
    for write in (
        lambda path: write_xml(surface(), path.with_suffix(".vtp")),
        lambda path: write_legacy(surface(), path.with_suffix(".vtk"), binary=True, version="5.1"),
    ):
        source = write(tmp_path / "mesh")
        out = write_with_arrays(source, tmp_path / "out", point_arrays={**arrays, **converted})
        got = pv.read(out).point_data
        for name, expected in arrays.items():
            assert np.asarray(got[name]).tobytes() == expected.astype(
                expected.dtype.newbyteorder("<")
            ).tobytes(order="C"), name
        assert got["half"].dtype == np.float32 and got["half"][0] == np.float16(0.1)
        assert got["flag"].dtype == np.uint8 and np.array_equal(got["flag"], values[:, 0] > 50)
        assert read_mesh(out, [Wanted("wide", "point", 7)]).info.points == count


def test_a_surface_in_a_vtu_becomes_a_vtp(tmp_path: Path) -> None:
    """The format is that of the content; the suffix of a file may be another one."""
    source = write_xml(surface(), tmp_path / "surface.vtu")
    assert output_path(source, tmp_path / "out") == tmp_path / "out.vtp"
    assert isinstance(pv.read(write_fields(source, tmp_path / "out")), pv.PolyData)
    with pytest.raises(ValueError, match=r"out must end with .vtp for this mesh, .* got out.vtu"):
        output_path(source, tmp_path / "out.vtu")


def test_where_the_output_is(tmp_path: Path) -> None:
    """Folders above are made; dots in a name are no suffix; a suffix in capitals is one."""
    source = write_xml(surface(), tmp_path / "mesh.vtp")
    for out, expected in (
        ("new/folder/run", "new/folder/run.vtp"),
        ("run_0.5", "run_0.5.vtp"),
        ("OUT.VTP", "OUT.VTP"),
    ):
        written = write_with_arrays(source, tmp_path / out, cell_arrays={"f": np.arange(13.0)})
        assert written == tmp_path / expected
        assert read_mesh(written, [Wanted("f", "cell", 1)]).info.cells == 13
    assert units_of(pv.read(source)) == {}
