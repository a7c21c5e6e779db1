"""A .vtm written back: rows in their blocks, the tree as it was, old files until new are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import find_meshes, read_mesh, write_with_arrays

from ..mesh_files import (
    mixed_surface,
    quadratic_volume,
    spoil,
    surface,
    volume,
    with_arrays,
    write_xml,
)
from .written import check_fields, check_kept, check_reads_again, field, write_fields


def tree(blocks: Any) -> list[Any]:
    """Names and kinds of blocks, and of those inside them."""
    return [
        (name, tree(block) if isinstance(block, pv.MultiBlock) else type(block))
        for name, block in zip(blocks.keys(), blocks, strict=True)
    ]


def leaves(blocks: Any) -> list[Any]:
    parts = [leaves(b) if isinstance(b, pv.MultiBlock) else [b] for b in blocks if b is not None]
    return [leaf for part in parts for leaf in part]


def listing(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes() if file.is_file() else b"folder"
        for file in folder.rglob("*")
    }


def check_blocks(source: Path, out: Path) -> Any:
    written = write_fields(source, out)
    got, old = pv.read(written), pv.read(source)
    assert tree(got) == tree(old)
    for block, before in zip(leaves(got), leaves(old), strict=True):
        if before.n_points:
            check_fields(block)
        check_kept(block, before)
    check_reads_again(written, source)
    return got


def shifted(mesh: Any, by: float) -> Any:
    mesh.points += by
    return mesh


def test_surfaces_of_mixed_cells(tmp_path: Path) -> None:
    """Vertices, lines, polygons and strips of several blocks change their order when joined."""
    inner = pv.MultiBlock({"b": shifted(mixed_surface(), 5), "gap": None, "c": surface()})
    blocks = pv.MultiBlock(
        {"a": mixed_surface(), "group": inner, "none": None, "d": shifted(mixed_surface(), -3)}
    )
    blocks.save(tmp_path / "mesh.vtm")
    check_blocks(tmp_path / "mesh.vtm", tmp_path / "out.vtm")
    assert find_meshes(tmp_path) == [tmp_path / "mesh.vtm", tmp_path / "out.vtm"]


def test_volumes_of_several_kinds(tmp_path: Path) -> None:
    grid = with_arrays(pv.ImageData(dimensions=(3, 2, 4)))
    curved = with_arrays(pv.ImageData(dimensions=(3, 3, 2)).cast_to_structured_grid())
    blocks = {"a": volume(), "image": grid, "b": quadratic_volume(), "curved": curved}
    pv.MultiBlock(blocks).save(tmp_path / "mesh.vtm")
    check_blocks(tmp_path / "mesh.vtm", tmp_path / "out.vtm")


def test_a_vtm_in_a_vtm_with_empty_blocks_and_an_stl(tmp_path: Path) -> None:
    """What it names becomes part of the new file; a block without points stays one."""
    (tmp_path / "inner").mkdir()
    write_xml(mixed_surface(), tmp_path / "inner" / "ünter <1>.vtp")
    pv.PolyData().save(tmp_path / "empty.vtp")
    triangles = surface().triangulate()
    triangles.clear_data()
    triangles.save(tmp_path / "body.stl")
    frame = '<VTKFile type="vtkMultiBlockDataSet"><vtkMultiBlockDataSet>{}</vtkMultiBlockDataSet>'
    (tmp_path / "inner" / "in.vtm").write_text(
        frame.format('<DataSet index="3" name="deep" file="ünter &lt;1&gt;.vtp"/>') + "</VTKFile>"
    )
    (tmp_path / "mesh.vtm").write_text(
        frame.format(
            '<DataSet index="0" name="body" file="body.stl"/>'
            '<DataSet index="1" name="empty" file="empty.vtp"/>'
            '<DataSet index="2" name="nothing"/>'
            '<DataSet index="4" name="inside" file="inner/in.vtm"/>'
        )
        + '<FieldData><DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">'
        "2.5</DataArray></FieldData></VTKFile>"
    )
    written = write_fields(tmp_path / "mesh.vtm", tmp_path / "out")
    check_reads_again(written, tmp_path / "mesh.vtm")
    got = pv.read(written)
    assert got.field_data["TimeValue"].tolist() == [2.5]
    deep = [("deep", pv.PolyData)]
    nothing = ("nothing", type(None))
    assert tree(got) == [("body", pv.PolyData), ("empty", pv.PolyData), nothing, ("inside", deep)]
    assert got["empty"].n_points == 0
    check_fields(got["body"])
    check_fields(got["inside"]["deep"])
    check_kept(got["inside"]["deep"], mixed_surface())


def test_only_what_is_read_is_written(tmp_path: Path) -> None:
    wall = shifted(with_arrays(pv.Icosphere(nsub=1)), 2)
    boundary = pv.MultiBlock({"inlet": surface(), "wall": wall, "top": mixed_surface()})
    pv.MultiBlock({"internal": volume(), "boundary": boundary}).save(tmp_path / "mesh.vtm")
    got = pv.read(write_fields(tmp_path / "mesh.vtm", tmp_path / "volume"))
    assert got.keys() == ["internal", "boundary"]
    assert len(leaves(got)) == 1
    check_fields(got["internal"])
    check_reads_again(tmp_path / "volume.vtm", tmp_path / "mesh.vtm")
    for regions in (("wall", "inlet"), ("wall",)):
        out = write_fields(tmp_path / "mesh.vtm", tmp_path / "-".join(regions), regions=regions)
        got = pv.read(out)
        assert got["internal"] is None
        blocks = {name: got["boundary"][name] for name in got["boundary"].keys()}
        assert {name for name, block in blocks.items() if block is not None} == set(regions)
        for region in regions:
            check_fields(blocks[region])
            assert blocks[region].n_points == boundary[region].n_points
    again = read_mesh(out, regions=("wall",))
    assert np.array_equal(again.points(), wall.points)


def test_a_file_that_is_named_twice(tmp_path: Path) -> None:
    pv.MultiBlock([surface(), mixed_surface()]).save(tmp_path / "mesh.vtm")
    spoil(tmp_path / "mesh.vtm", b"mesh_1.vtp", b"mesh_0.vtp")
    before = listing(tmp_path)
    with pytest.raises(ValueError, match="mesh.vtm must name each file once, got 'mesh_0.vtp' tw"):
        write_with_arrays(tmp_path / "mesh.vtm", tmp_path / "out.vtm")
    assert listing(tmp_path) == before


def two_blocks(folder: Path) -> Path:
    pv.MultiBlock({"a": surface(), "b": mixed_surface()}).save(folder / "mesh.vtm")
    return folder / "mesh.vtm"


def write_number(source: Path, out: Path, number: float, **options: Any) -> Path:
    cells = np.full(read_mesh(source).info.cells, number)
    return write_with_arrays(source, out, cell_arrays={"number": cells}, **options)


def numbers(out: Path) -> list[set[float]]:
    return [set(block["number"].tolist()) for block in leaves(pv.read(out))]


def folders(path: Path) -> list[str]:
    return sorted(folder.name for folder in path.iterdir() if folder.is_dir())


def test_overwriting(tmp_path: Path) -> None:
    source, out = two_blocks(tmp_path), tmp_path / "out.vtm"
    write_number(source, out, 1)
    assert folders(tmp_path) == ["mesh", "out_blocks"]
    with pytest.raises(ValueError, match=r"^out must be a new file, got .*out.vtm, which exists$"):
        write_number(source, out, 2)
    assert numbers(out) == [{1}, {1}]
    for number, folder in ((2, "out_blocks_2"), (3, "out_blocks")):
        write_number(source, out, number, overwrite=True)
        assert numbers(out) == [{number}, {number}] and folders(tmp_path) == ["mesh", folder]
    before = listing(tmp_path)
    with pytest.raises(ValueError, match="'number' must have a row for each of the 22 cells"):
        write_with_arrays(source, out, cell_arrays={"number": np.ones(21)}, overwrite=True)
    assert listing(tmp_path) == before


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    """A folder with the name of ours, a file among our blocks, and blocks that the mesh has."""
    source, out = two_blocks(tmp_path), tmp_path / "out.vtm"
    (tmp_path / "out_blocks").mkdir()
    (tmp_path / "out_blocks" / "0000-a.vtp").write_text("the user's")
    write_number(source, out, 1)
    assert folders(tmp_path) == ["mesh", "out_blocks", "out_blocks_2"]
    (tmp_path / "out_blocks_2" / "notes.txt").write_text("the user's")
    write_number(source, out, 2, overwrite=True)
    assert (tmp_path / "out_blocks" / "0000-a.vtp").read_text() == "the user's"
    assert (tmp_path / "out_blocks_2" / "notes.txt").read_text() == "the user's"
    assert numbers(out) == [{2}, {2}]
    copy = tmp_path / "copy.vtm"  # the same blocks by another name, now with out.vtm in its way
    copy.write_bytes(out.read_bytes())
    got = write_with_arrays(copy, out, cell_arrays={"more": np.zeros(22)}, overwrite=True)
    assert numbers(copy) == numbers(got) == [{2}, {2}] and "more" in pv.read(got)[0].cell_data
    pv.MultiBlock({"a": surface()}).save(tmp_path / "theirs.vtm")
    write_number(source, tmp_path / "theirs.vtm", 5, overwrite=True)
    assert (tmp_path / "theirs" / "theirs_0.vtp").exists()


def test_the_mesh_itself_and_what_it_names_are_never_replaced(tmp_path: Path) -> None:
    source = two_blocks(tmp_path)
    outer = tmp_path / "outer.vtm"
    outer.write_text(
        '<VTKFile type="vtkMultiBlockDataSet"><vtkMultiBlockDataSet>'
        '<DataSet index="0" file="mesh.vtm"/></vtkMultiBlockDataSet></VTKFile>'
    )
    before = listing(tmp_path)
    for mesh, out in ((source, source), (outer, source), (outer, outer)):
        with pytest.raises(ValueError, match="out must be another file than those of the mesh"):
            write_with_arrays(mesh, out, overwrite=True)
    assert listing(tmp_path) == before
    got = write_with_arrays(
        outer, tmp_path / "out", point_arrays={"f": field(read_mesh(outer).points())}
    )
    assert [np.array_equal(b["f"], field(b.points)) for b in leaves(pv.read(got))] == [True] * 2
