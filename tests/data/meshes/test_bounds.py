"""What a small file may ask for is bounded: blocks in blocks, arrays, and what it unpacks to."""

from __future__ import annotations

import lzma
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import ReadLimits, find_meshes, mesh_info, read_mesh, read_within
from slipstream.data.meshes.blocks import blocks_of
from slipstream.data.meshes.mesh_files import parts_of

from ..mesh_files import surface


def write_blocks(path: Path, *files: str) -> Path:
    blocks = "".join(f'<DataSet index="{i}" file="{file}"/>' for i, file in enumerate(files))
    kind = "vtkMultiBlockDataSet"
    path.write_text(f'<VTKFile type="{kind}"><{kind}>{blocks}</{kind}></VTKFile>')
    return path


def test_blocks_inside_blocks(tmp_path: Path) -> None:
    one = surface()
    for name in "abc":
        one.save(tmp_path / f"{name}.vtp")
    write_blocks(tmp_path / "inner.vtm", "a.vtp", "b.vtp")
    path = write_blocks(tmp_path / "outer.vtm", "inner.vtm", "c.vtp")
    assert len(read_mesh(path).points()) == mesh_info(path).points == 3 * one.n_points
    names = ["outer.vtm", "inner.vtm", "a.vtp", "b.vtp", "c.vtp"]
    assert [p.name for p in parts_of(path)] == names
    assert find_meshes(tmp_path) == [path]


@pytest.mark.parametrize("read", [mesh_info, read_mesh])
def test_blocks_without_end(tmp_path: Path, read: object) -> None:
    """A .vtm that contains itself, directly or not; 29 inside one another; one too wide."""
    write_blocks(tmp_path / "itself.vtm", "itself.vtm")
    write_blocks(tmp_path / "one.vtm", "other.vtm")
    write_blocks(tmp_path / "other.vtm", "one.vtm")
    write_blocks(tmp_path / "deep0.vtm", "body.vtp")
    for level in range(1, 30):
        write_blocks(tmp_path / f"deep{level}.vtm", f"deep{level - 1}.vtm")
    for half in range(2):
        write_blocks(tmp_path / f"half{half}.vtm", *(f"{half}/{i}.vtp" for i in range(5000)))
    write_blocks(tmp_path / "wide.vtm", "half0.vtm", "half1.vtm")
    for name, says in (
        ("itself", "itself.vtm must not contain itself, got itself.vtm inside itself"),
        ("one", "one.vtm must not contain itself, got one.vtm inside itself"),
        ("deep29", "deep29.vtm must have at most 10 .vtm inside one another"),
        ("wide", "wide.vtm must name at most 10,000 files, got more"),
    ):
        path = tmp_path / f"{name}.vtm"
        with pytest.raises(ValueError, match=f"^{says}"):
            read(path)  # type: ignore[operator]
        assert parts_of(path) == [path]  # as `data inspect` asks before it reads anything


BLOCKS = [
    ('index="1" name="b" file="b.vtp"', 'index="1" file="./a.vtp"',
     "mesh.vtm must name each file once, got 'a.vtp' twice"),
    ('index="1"', 'index="00"', "must give each block an index of its own, got 0 2 times"),
    ('index="1"', 'index="1.0"', "an index of mesh.vtm must be a whole number, got '1.0'"),
    ("<DataSet index", "<Data index", "consist of VTKFile, .*, DataSet, .*, got 'Data'"),
    ('name="b"', 'name="b&#10;c"', r"a block of mesh.vtm must be one of a, b\\nc, got 'no'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), BLOCKS)
def test_blocks_that_vtk_would_leave_out_or_join_twice(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    for name in "ab":
        surface().save(tmp_path / f"{name}.vtp")
    kind, path = "vtkMultiBlockDataSet", tmp_path / "mesh.vtm"
    text = (
        f'<VTKFile type="{kind}"><{kind}><Block index="0"><DataSet name="a" file="a.vtp"/></Block>'
        f'<DataSet index="1" name="b" file="b.vtp"/></{kind}><FieldData><DataArray/></FieldData>'
        "</VTKFile>"
    )
    path.write_text(text)
    assert len(read_mesh(path).points()) == 2 * surface().n_points
    path.write_text(text.replace(old, new))
    assert text != text.replace(old, new)
    with pytest.raises(ValueError, match=says):
        read_mesh(path, regions=["no"] if "&#10" in new else ["internalMesh"])


def test_thousands_of_blocks_of_one_name(tmp_path: Path) -> None:
    text = "".join(f'<DataSet name="x" file="{i}.vtp"/>' for i in range(10_000))
    (tmp_path / "mesh.vtm").write_text(f"<VTKFile>{text}</VTKFile>")
    assert len({block.name for block in blocks_of(tmp_path / "mesh.vtm")}) == 10_000


def test_thousands_of_arrays(tmp_path: Path, no_shape_checks: None) -> None:
    """The file is refused while its header is read."""
    array = '<DataArray type="Float32" Name="a{}" format="appended" offset="0"/>'
    arrays = "".join(array.format(i) for i in range(60_000))
    head = '<VTKFile type="PolyData"><PolyData><Piece NumberOfPoints="4"><PointData>'
    path = tmp_path / "many.vtp"
    path.write_text(f"{head}{arrays}</PointData></Piece></PolyData></VTKFile>")
    with pytest.raises(
        ValueError, match="many.vtp must be a whole VTK XML file, got more than 10,"
    ):
        mesh_info(path)
    head = "# vtk DataFile Version 3.0\nx\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\n"
    scalars = "".join(f"a{i} 1 1 float\n1\n" for i in range(10_001))
    path = tmp_path / "many.vtk"
    path.write_text(f"{head}POINT_DATA 1\nFIELD f 10001\n{scalars}")
    with pytest.raises(ValueError, match="many.vtk must be a whole legacy VTK file, got more than"):
        mesh_info(path)


def packed_points(path: Path, block: bytes, *, packer: str, sizes: list[int], points: int) -> Path:
    """A .vtu of points alone; `block` is repeated for each size that is declared for it."""
    count, size, last = len(sizes), sizes[0], sizes[-1]
    lengths = [count, size, 0 if last == size else last, *[len(block)] * count]
    head = (
        '<VTKFile type="UnstructuredGrid" byte_order="LittleEndian" header_type="UInt64"'
        f' compressor="vtk{packer}DataCompressor"><UnstructuredGrid><Piece'
        f' NumberOfPoints="{points}" NumberOfCells="0"><Points><DataArray type="Float32"'
        ' NumberOfComponents="3" format="appended" offset="0"/></Points><Cells>'
    )
    for name, kind in (("connectivity", "Int64"), ("offsets", "Int64"), ("types", "UInt8")):
        head += f'<DataArray type="{kind}" Name="{name}" format="appended" offset="0"/>'
    head += '</Cells></Piece></UnstructuredGrid><AppendedData encoding="raw">_'
    tail = b"</AppendedData></VTKFile>"
    raw = struct.pack(f"<{len(lengths)}Q", *lengths) + block * count
    path.write_bytes(head.encode() + raw + tail)
    return path


@pytest.mark.parametrize(("packer", "pack"), [("LZMA", lzma.compress), ("ZLib", zlib.compress)])
def test_bombs(tmp_path: Path, packer: str, pack: object, request: pytest.FixtureRequest) -> None:
    """Blocks that unpack to more than they declare, or to more than memory may take."""
    zeros = np.zeros(1 << 20, np.uint8)
    block = pack(zeros.tobytes())  # type: ignore[operator]
    assert len(block) < 1200
    good = packed_points(tmp_path / "good.vtu", block, packer=packer, sizes=[1 << 20] * 3,
                         points=1 << 18)  # fmt: skip
    assert read_mesh(good).points().shape == (1 << 18, 3)
    path = packed_points(tmp_path / "lies.vtu", block, packer=packer, sizes=[120], points=10)
    request.addfinalizer(tracemalloc.stop)
    tracemalloc.start()
    with pytest.raises(
        ValueError, match="the points of lies.vtu must be whole, got a block of another"
    ):
        read_mesh(path)
    assert tracemalloc.get_traced_memory()[1] < 12_000_000  # LZMA itself takes 8
    count = 6399  # 6.7 GB
    path = packed_points(tmp_path / "bomb.vtu", block, packer=packer, sizes=[1 << 20] * count,
                         points=count * (1 << 18) // 3)  # fmt: skip
    says = "^reading bomb.vtu needs more than the 4 GB that --read-memory allows: it declares 6.71 "
    tracemalloc.reset_peak()
    with read_within(ReadLimits(memory=4)), pytest.raises(ValueError, match=says):
        read_mesh(path)
    assert tracemalloc.get_traced_memory()[1] < 12_000_000
    path = packed_points(tmp_path / "tera.vtu", block, packer=packer, sizes=[12 * 10**12],
                         points=10**12)  # fmt: skip
    with pytest.raises(ValueError, match="tera.vtu must be whole, got blocks of 12000000000000 b"):
        read_mesh(path)


def test_blocks_may_be_stl(tmp_path: Path) -> None:
    """They are read as they are outside of a .vtm."""
    pv.Cube().save(tmp_path / "a.stl", binary=False)
    text = (tmp_path / "a.stl").read_text().upper()
    (tmp_path / "a.stl").write_text(text)  # VTK needs a copy of it in small letters
    (tmp_path / "b.stl").write_text(text)
    path = write_blocks(tmp_path / "both.vtm", "a.stl", "b.stl")
    assert read_mesh(path).info.cells == 24
