"""Files that hold other than what their headers say: refused with one sentence, never guessed."""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from vtkmodules import vtkIOXML
from vtkmodules.vtkIOLegacy import vtkDataSetWriter

from slipstream.data.meshes import Wanted, read_mesh

from ..mesh_files import ALL, spoil, surface, volume, with_arrays, write_xml
from .test_structured import grids

P = Wanted("p", "point", 1)
XML_WRITERS = {
    "vtp": "PolyData", "vtu": "UnstructuredGrid", "vti": "ImageData", "vtr": "RectilinearGrid",
    "vts": "StructuredGrid",
}  # fmt: skip


def some_mesh(kind: str) -> Any:
    if kind in ("vtp", "vtu"):
        return surface() if kind == "vtp" else volume(polyhedron=False)
    return with_arrays(grids()[kind])


def write(kind: str, way: str, path: Path) -> Path:
    """A file by VTK's writer; `way` is as in "Appended base64 ZLib 64 Big", or a legacy version."""
    mesh = some_mesh(kind)
    if way.startswith("legacy"):
        writer: Any = vtkDataSetWriter()
        writer.SetFileTypeToBinary()
        writer.SetFileVersion(int(way.split()[1]))
    else:
        mode, encoding, packed, header, order = way.split()
        writer = getattr(vtkIOXML, f"vtkXML{XML_WRITERS[kind]}Writer")()
        getattr(writer, f"SetDataModeTo{mode}")()
        writer.SetEncodeAppendedData(encoding == "base64")
        getattr(writer, f"SetCompressorTypeTo{packed}")()
        getattr(writer, f"SetHeaderTypeToUInt{header}")()
        getattr(writer, f"SetByteOrderTo{order}Endian")()
        writer.SetBlockSize(256)
    writer.SetInputData(mesh)
    writer.SetFileName(str(path))
    assert writer.Write()
    return path


def everything(path: Path) -> list[Any]:
    mesh = read_mesh(path, ALL)
    cells = [np.array(part) for c in mesh.cells().checked() for part in (c.types, c.corners)]
    arrays = [np.array(mesh.array(wanted)) for wanted in ALL]
    return [np.array(mesh.points()), mesh.cell_centres(), *arrays, *cells]


def begin_of_values(raw: bytes) -> int:
    if b"<AppendedData" in raw:
        return raw.index(b"_", raw.index(b"<AppendedData"))
    first = (raw.find(word) for word in (b"<Piece", b"POINTS ", b"X_COORD", b"ORIGIN"))
    return raw.index(b"\n", min(place for place in first if place > 0))


WAYS = ("Appended raw None 32 Little", "Appended base64 None 64 Little", "Appended raw LZ4 64 Big",
        "Appended raw ZLib 32 Little", "Binary base64 None 32 Little", "Binary base64 ZLib 64 Big",
        "legacy 42", "legacy 51")  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", XML_WRITERS)
def test_lost_bytes_are_never_read_as_values(kind: str, way: str, tmp_path: Path) -> None:
    """1 to 24 bytes lost among the values: refused, or nothing read is different."""
    path = write(kind, way, tmp_path / f"mesh.{'vtk' if 'legacy' in way else kind}")
    raw, truth = path.read_bytes(), everything(path)
    begin, draw = begin_of_values(raw), np.random.default_rng(7)
    end = raw.rindex(b"</AppendedData") if b"</AppendedData" in raw else len(raw)
    cuts = [(int(draw.integers(begin, len(raw) - 24)), int(draw.integers(1, 25))) for _ in range(6)]
    last = len(raw[:end].rstrip(b"\n ")) if end < len(raw) else len(raw)
    cuts += [(last - lost, lost) for lost in (1, 2, 3, 4, 24)]  # the last of the values
    for place, lost in cuts:
        path.write_bytes(raw[:place] + raw[place + lost :])
        try:
            got = everything(path)
        except ValueError as error:
            assert path.name in str(error) and "\n" not in str(error)
        else:
            same = [np.array_equal(a, b) for a, b in zip(got, truth, strict=True)]
            assert all(same), (place, lost, raw[place : place + lost])


def image(pieces: str, *, extent: str = "0 1 0 1 0 2", more: str = "", given: str = "") -> str:
    return (
        f'<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian"{given}>'
        f'<ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="1 1 1">{pieces}</ImageData>'
        f"{more}</VTKFile>"
    )


def piece(extent: str, text: str, name: str = "p") -> str:
    return (
        f'<Piece Extent="{extent}"><PointData><DataArray type="Float32" Name="{name}"'
        f' format="ascii">{text}</DataArray></PointData></Piece>'
    )


LOWER, UPPER = piece("0 1 0 1 0 1", "0 1 2 3 4 5 6 7"), piece("0 1 0 1 1 2", "4 5 6 7 8 9 10 11")
COVER: list[tuple[str, str]] = [
    (LOWER, "must cover its 2 cells, each once, got 1 pieces of 1 cells"),
    (LOWER + LOWER, "must cover its 2 cells, each once, got 2 pieces of 2 cells"),
    ("", "must cover its 2 cells, each once, got 0 pieces of 0 cells"),
    (piece("0 1 0 1 0 3", "0 " * 16), r"must lie in its extent \(0, 1, 0, 1, 0, 2\), got \(0, 1,"),
    (LOWER + piece("0 1 0 1 1 2", "0 " * 8, "q"), "must have the same arrays in the same order"),
    (piece("0 1 0 1 0", ""), "got the Extent '0 1 0 1 0', not six numbers below 2\\^31"),
]


@pytest.mark.parametrize(("pieces", "says"), COVER)
def test_pieces_must_cover_a_structured_grid(pieces: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.vti"
    path.write_text(image(LOWER + UPPER))
    assert read_mesh(path, [P]).array(P).tolist() == list(range(12))
    path.write_text(image(pieces))
    with pytest.raises(ValueError, match=says) as caught:
        read_mesh(path, [P])
    assert "\n" not in str(caught.value)


def raw_image(tail: bytes, mark: bytes, gap: bytes, order: str) -> bytes:
    """A grid of two arrays as other programs write it."""
    values = np.arange(12, dtype=f"{order}f4").tobytes()
    block = np.array([len(values)], f"{order}u8").tobytes() + values
    arrays = "".join(
        f'<DataArray type="Float32" Name="{name}" format="appended" offset="{offset}"/>'
        for name, offset in (("q", 0), ("p", len(block + gap)))
    )
    pieces = f'<Piece Extent="0 1 0 1 0 2"><PointData>{arrays}</PointData></Piece>'
    text = image(pieces, more='<AppendedData encoding="raw">@', given=' header_type="UInt64"')
    text = text.replace("><", ">\r\n<") if tail == b"\r\n" else text
    text = text.replace("LittleEndian", "BigEndian" if order == ">" else "LittleEndian")
    head, rest = text.encode().split(b"@")
    return head + mark + block + gap + block + tail + b"</AppendedData>" + rest


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("gap", [b"", b"\0" * 4, b"\n"])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n  ", b" ", b"\r\n", b"ENDBINARY\n\t"])
def test_appended_values_of_other_programs(
    tail: bytes, gap: bytes, order: str, tmp_path: Path
) -> None:
    path = tmp_path / "grid.vti"
    whole = raw_image(tail, b"\n   _", gap, order)
    path.write_bytes(whole)
    assert read_mesh(path, [P]).array(P).tolist() == list(range(12))
    last = whole.index(tail + b"</AppendedData>")
    for lost in (1, 2, 3, 24):  # also the last bytes, which blanks may replace
        for place in (last - lost, last - 30 - lost):
            path.write_bytes(whole[:place] + whole[place + lost :])
            with pytest.raises(ValueError, match=r"grid\.vti must"):
                read_mesh(path, [P])


def test_types_of_tetrahedra_may_end_the_values(tmp_path: Path) -> None:
    """Their number is that of a newline, 10: VTK writes a newline behind, dune-vtk does not."""
    points, corners = np.eye(5, 3, dtype=np.float32), np.array([4, 0, 1, 2, 3, 4, 0, 1, 2, 4])
    path = tmp_path / "mesh.vtu"
    write_xml(pv.UnstructuredGrid(corners, np.array([10, 10]), points), path, packed="None")
    raw = path.read_bytes()
    assert b"\x0a\x0a\n  </AppendedData>" in raw
    for tail in (b"\n  ", b"\n", b""):
        path.write_bytes(raw.replace(b"\n  </AppendedData>", tail + b"</AppendedData>"))
        assert read_mesh(path).cell_centres().shape == (2, 3)


def test_appended_values_must_follow_one_another(tmp_path: Path) -> None:
    path = tmp_path / "grid.vti"
    for gap, says in (
        (b"\0" * 64, "must follow one another, got a gap of 64 bytes after 'q'"),
        (b"1234", "must follow one another, got a gap of 4 bytes after 'q'"),
    ):
        path.write_bytes(raw_image(b"\n", b"_", gap, "<"))
        with pytest.raises(ValueError, match=says):
            read_mesh(path, [P])
    path.write_bytes(raw_image(b"\n", b"x_", b"", "<"))
    with pytest.raises(ValueError, match="got no _ before the appended values"):
        read_mesh(path, [P])


LEGACY = (
    b"# vtk DataFile Version 3.0\nby hand\nBINARY\nDATASET POLYDATA\nPOINTS 3 float\n%s%s"
    b"POLYGONS 1 4\n%s%sPOINT_DATA 3\nSCALARS p float\nLOOKUP_TABLE default\n%s%s"
)


@pytest.mark.parametrize("gap", [b"\n", b"\r\n", b"\n\n", b" \n"])
@pytest.mark.parametrize("tail", [b"", b"\n"])
def test_legacy_values_of_other_programs(gap: bytes, tail: bytes, tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 7]], ">f4").tobytes()
    cells, values = (
        np.array(a, t).tobytes() for a, t in (([3, 0, 1, 2], ">i4"), ([1, 2, 3], ">f4"))
    )
    whole = LEGACY % (points, gap, cells, gap, values, tail)
    path = tmp_path / "mesh.vtk"
    path.write_bytes(whole)
    assert read_mesh(path, [P]).array(P).tolist() == [1, 2, 3]
    for block in (points, cells, values):
        for lost in (1, 2, 5):
            end = whole.index(block) + len(block)
            path.write_bytes(whole[: end - lost] + whole[end:])
            with pytest.raises(ValueError, match=r"mesh\.vtk must be a whole legacy VTK file, got"):
                read_mesh(path, [P])


TEXT = "# vtk DataFile Version 3.0\nx\nASCII\nDATASET "
GRID = f"{TEXT}STRUCTURED_POINTS\nDIMENSIONS 2 2 1\nORIGIN 0 0 0\nSPACING 1 1 1\n"
DATA = "POINT_DATA 4\nSCALARS p float\nLOOKUP_TABLE default\n1 2 3 4\n"
CLOUD = f"{TEXT}UNSTRUCTURED_GRID\nPOINTS 3 float\n0 0 0 1 0 0 1 1 0\n"
MESH = f"{CLOUD}CELLS 1 4\n3 0 1 2\nCELL_TYPES 1\n5\n"
VTU = (
    '<VTKFile type="UnstructuredGrid" byte_order="LittleEndian"><UnstructuredGrid>'
    '<Piece NumberOfPoints="3" NumberOfCells="1"><Points><DataArray type="Float32"'
    ' NumberOfComponents="3" format="ascii">0 0 0 1 0 0 1 1 0</DataArray></Points><Cells>'
    '<DataArray type="Int32" Name="connectivity" format="ascii">0 1 2</DataArray>'
    '<DataArray type="Int32" Name="offsets" format="ascii">3</DataArray>'
    '<DataArray type="UInt8" Name="types" format="ascii">5</DataArray></Cells></Piece>'
    "</UnstructuredGrid></VTKFile>"
)
NAMED = (
    '<VTKFile type="PolyData"><PolyData><Piece NumberOfPoints="1"><Points><DataArray type="Float32"'
    ' NumberOfComponents="3">0 0 0</DataArray></Points><PointData><DataArray type="Float32"'
    ' Name="p">1</DataArray></PointData></Piece></PolyData></VTKFile>'
)
TEXTS: list[tuple[str, str, str, str, str]] = [
    ("vtk", GRID + DATA, "1 2 3 4", "1 2 **** 4", r"got '\*\*\*\*' where a number of float32 must"),
    ("vtk", GRID + DATA, "1 2 3 4", "1 2 1,5 4", "got '1,5' where a number of float32 must be"),
    ("vtk", GRID + DATA, "1 2 3 4", "1 2 3e99 4", "got '3e99' where a number of float32 must be"),
    ("vtk", GRID, "2 2 1", "100000 100000 100000", "at most 100000000 points for its size, got 10"),
    ("vtk", GRID, "2 2 1", "2 2 -1", "got '-1' where a count must be"),
    ("vtk", MESH, "POINTS 3", "POINTS 1000000000", "an end where|'CELLS' where a number of float"),
    ("vtk", MESH, "CELLS 1 4", "CELLS -1 4", "got '-1' where a count must be"),
    ("vtk", MESH, "3 0 1 2", "9999999 0 1 2", "the cells of mesh.vtk must take 4 numbers, got 10"),
    ("vtk", MESH, "3 0 1 2", "-3 0 1 2", "must follow one another, got a wrong length"),
    ("vtk", MESH, "3 0 1 2", "3 0 1 7", "must have corners among its 3 points, got numbers from 0"),
    ("vtk", MESH, "CELL_TYPES 1\n5", "CELL_TYPES 1\n10", "type 10 in mesh.vtk must have 4 corners"),
    ("vtu", VTU, "</Points>", "</Points >", ""),
    ("vtu", VTU, '"3" Num', '"1000000000000000000" Num', "must have 3000000000000000000 values"),
    ("vtu", VTU, 'Cells="1"', 'Cells="-1"', "got NumberOfCells -1"),
    ("vtu", VTU, 'Cells="1"', 'Cells="1000000000"', "'offsets' of mesh.vtu must have 1000000000 v"),
    ("vtu", VTU, ">0 1 2<", ">0 1 2,<", "'connectivity' of mesh.vtu must be numbers, got '2,' wh"),
    ("vtu", VTU, ">5<", ">300<", "'types' of mesh.vtu must be numbers, got '300' where a number"),
    ("vtu", VTU, ">0 0 0 1 ", ">0 0 0 ", "the points of mesh.vtu must have 9 values, .*, got 15 l"),
    ("vtu", VTU, "<VTKFile", '<?xml version="1.0" encoding="foo"?><VTKFile', "unknown encoding: f"),
    ("vtu", VTU, 'type="Int32"', 'type="Int3"', "got an array of the unknown type 'Int3'"),
    ("vtu", VTU, "LittleEndian", "ittleEndian", "got byte_order 'ittleEndian', not LittleEndian"),
    ("vtp", NAMED, 'Name="p"', "", "got an array of PointData without Name"),
    ("vtp", NAMED, 'Name="p"', 'Name=""', "got an array of PointData without Name"),
    ("vtu", VTU, 'NumberOfComponents="3"', "", "the points of mesh.vtu must have 3 components"),
    ("vtm", "<VTKFile/>", "<V", '<?xml version="1.0" encoding="foo"?><V', "unknown encoding: foo"),
    ("vti", image(LOWER + UPPER), ">0 1", ">**** 1", r"'p' of mesh.vti must be numbers, got '\*\*"),
    ("vti", image(LOWER + UPPER), ">0 1", ">0,1 1", "'p' of mesh.vti must be numbers, got '0,1'"),
    ("vti", image('<Piece Extent="0 1 0 1 0 1"/>', extent="0 1 0 1 0 1"), "0 1 0 1 0 1",
     "0 99999 0 99999 0 99999", "must have at most 100000000 points for its size, got 1000000000"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "text", "old", "new", "says"), TEXTS)
def test_text_and_sizes(
    suffix: str, text: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    """Words that are no numbers, and sizes that no file can have: before VTK sees them."""
    path = tmp_path / f"mesh.{suffix}"
    wanted = [P] if 'Name="p"' in text or "SCALARS p" in text else []
    if suffix != "vtm":
        path.write_text(text)
        read_mesh(path, wanted).cell_centres()
    path.write_text(text.replace(old, new))
    if not says:
        return
    with pytest.raises(ValueError, match=says) as caught:
        read_mesh(path, wanted).cell_centres()
    assert path.name in str(caught.value) and "\n" not in str(caught.value)


def test_control_characters_of_a_file_are_not_printed(tmp_path: Path) -> None:
    named = "element x\x1b[31m 1\n"
    for name, text in (
        ("mesh.vtk", MESH.replace("UNSTRUCTURED_GRID", "UNSTRUCTURE\x1b_GRID")),
        ("mesh.ply", f"ply\nformat ascii 1.0\n{named}{named}end_header\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=rf"^{name} must be a whole .*\\x1b") as caught:
            read_mesh(tmp_path / name)
        assert str(caught.value).isprintable()


WAYS = ("Binary raw None 32 Little", "Binary raw ZLib 64 Little", "Appended base64 None 64 Little")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["vtp", "vts"])
def test_letters_that_are_no_base64(kind: str, way: str, tmp_path: Path) -> None:
    """VTK stops at such a letter: the rest of the array would be what was in memory."""
    path = write(kind, way, tmp_path / f"mesh.{kind}")
    raw = path.read_bytes()
    everything(path)
    words = sorted(re.finditer(rb"[A-Za-z0-9+/=]{60,}", raw), key=lambda word: len(word[0]))
    place = words[-1].end() - 20
    for letter in (b"?", b" ", b"=", b"\x00", b"\xff"):
        path.write_bytes(raw[:place] + letter + raw[place + 1 :])
        with pytest.raises(ValueError, match=path.name):
            everything(path)


def test_clouds_of_points(tmp_path: Path) -> None:
    """UNSTRUCTURED_GRID without CELLS, with none, and what VTK writes for it."""
    path = tmp_path / "mesh.vtk"
    for cells in ("", "CELLS 0 0\nCELL_TYPES 0\n"):
        path.write_text(CLOUD + cells + DATA.replace("4\n", "3\n", 1).replace(" 4\n", "\n"))
        mesh = read_mesh(path, [P])
        assert mesh.array(P).tolist() == [1, 2, 3] and mesh.info.cells == 0
        assert mesh.cell_centres().shape == mesh.triangles()[1].shape == (0, 3)
    cloud = pv.UnstructuredGrid()
    cloud.points = np.eye(3, dtype=np.float32)
    for binary in (True, False):
        cloud.save(path, binary=binary)
        assert read_mesh(path).cell_centres().shape == (0, 3)


def packed_image(compressor: str, pack: Callable[[bytes], bytes], size: int, declared: int) -> str:
    """A grid of `size` zeros in one block, whose header declares another length."""
    block = pack(bytes(size))
    lengths = np.array([1, declared, 0, len(block)], "<u8").tobytes()
    data = (base64.b64encode(lengths) + base64.b64encode(block)).decode()
    array = f'<DataArray type="UInt8" Name="p" format="binary">{data}</DataArray>'
    extent = f"0 {declared - 1} 0 0 0 0"
    pieces = f'<Piece Extent="{extent}"><PointData>{array}</PointData></Piece>'
    given = f' header_type="UInt64" compressor="vtk{compressor}DataCompressor"'
    return image(pieces, extent=extent, given=given)


@pytest.mark.parametrize(
    ("compressor", "pack", "size", "declared", "says"),
    [
        ("ZLib", zlib.compress, 5000, 5000, ""),
        ("LZMA", lzma.compress, 5000, 5000, ""),
        ("ZLib", zlib.compress, 5000, 50_000_000, "got 50000000 bytes packed into 28, fewer than"),
        ("LZMA", lzma.compress, 1 << 24, 1 << 24, "must be whole, got 16777216 bytes packed into"),
        ("LZMA", lzma.compress, 5000, 12 * 10**12, "six numbers below 2.31"),
        ("Snappy", zlib.compress, 5000, 5000, "the compressor of grid.vti must be vtkZLib.*, got "),
    ],
)
def test_packed_sizes(
    compressor: str,
    pack: Callable[[bytes], bytes],
    size: int,
    declared: int,
    says: str,
    tmp_path: Path,
) -> None:
    """A block cannot become larger than its codec allows: refused before memory is allocated."""
    path = tmp_path / "grid.vti"
    path.write_text(packed_image(compressor, pack, size, declared))
    if not says:
        assert read_mesh(path, [P]).array(P).tolist() == [0] * size
        return
    with pytest.raises(ValueError, match=says):
        read_mesh(path, [P])


def test_a_header_of_twelve_terabytes(tmp_path: Path) -> None:
    path = write("vtu", "Appended raw LZMA 64 Little", tmp_path / "mesh.vtu")
    raw = path.read_bytes()
    first = raw.index(b"_", raw.index(b"<AppendedData")) + 1
    huge = (12 * 10**12).to_bytes(8, "little")
    path.write_bytes(raw[: first + 8] + huge + raw[first + 16 :])
    with pytest.raises(
        ValueError, match="of mesh.vtu must be whole, got blocks of 12000000000000 bytes"
    ):
        read_mesh(path, ALL)


PLY = (
    "ply\nformat ascii 1.0\ncomment by hand\nelement vertex 3\nproperty float x\nproperty float y\n"
    "property float z\nproperty uchar red\nproperty int part\nelement face 1\n"
    "property list uchar int vertex_indices\nend_header\n"
    "0 0 0 7 1\n1 0 0 8 2\n1 1 0 9 3\n3 0 1 2\n"
)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("property uchar red", "property uchar x", "got two properties called x in vertex"),
        ("element face 1", "element vertex 1", "got two elements called vertex"),
        ("0 0 0 7 1", "0 0 0 300 1", "got '300' where a number of uint8 must be"),
        ("0 0 0 7 1", "0 0 0 7 1.5", "got '1.5' where a number of int32 must be"),
        ("0 0 0 7 1", "0 0 0 -1 1", "got '-1' where a number of uint8 must be"),
        ("0 0 0 7 1", "0 0 1_0 7 1", "got '1_0' where a number of float32 must be"),
        ("3 0 1 2\n", "3 0 1 2 2\n", "got 1 words after its last row"),
        ("property uchar red", "proprty uchar red", "got the line 'proprty uchar red' in its head"),
        ("property uchar red", "property byte red", "got a property of the unknown type 'byte'"),
        ("list uchar int", "list float int", "lists in vertex_indices with lengths that are no in"),
    ],
)
def test_ply_values_are_what_the_file_says(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mesh.ply"
    path.write_text(PLY)
    assert read_mesh(path, [Wanted("red", "point", 1)]).array(Wanted("red", "point", 1)).sum() == 24
    spoil(path, old.encode(), new.encode())
    with pytest.raises(ValueError, match=f"^mesh.ply must be a whole PLY file, .*{says}"):
        read_mesh(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"vertex 1 0 0", b"vertex 1 0", "got a last triangle of 20 words"),
        (b"vertex 1 0 0", b"vertx 1 0 0", "got 'vertx' where 'vertex' must be"),
        (b"vertex 1 0 0", b"vertex 1,5 0 0", "got '1,5' where a number of float32 must be"),
        (b"  endloop", b"", "got a last triangle of 20 words"),
    ],
)
def test_text_of_stl_is_triangles(old: bytes, new: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "body.stl"
    path.write_text(
        "solid a body\n facet normal 0 0 1\n  outer loop\n   vertex 0 0 0\n   vertex 1 0 0\n"
        "   vertex 1 1 0\n  endloop\n endfacet\nendsolid a body\n"
    )
    assert read_mesh(path).points().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    spoil(path, old, new)
    with pytest.raises(ValueError, match=f"^body.stl must be a whole STL file, .*{says}"):
        read_mesh(path)
