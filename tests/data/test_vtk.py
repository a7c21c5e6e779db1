from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from numpy.typing import NDArray
from vtkmodules.vtkCommonCore import vtkBitArray

from slipstream.data.extras import need
from slipstream.data.readers.vtk import ArrayInfo, Mesh, MeshInfo, Wanted, describe, read_mesh

from .mesh_files import (
    ALL,
    FLUX,
    HEAT,
    PRESSURE,
    VELOCITY,
    surface,
    volume,
    with_arrays,
    write_case,
    write_legacy,
    write_parts,
    write_xml,
)


def check_same(mesh: Mesh, truth: Any) -> None:
    """Points, all arrays and the centres of cells are those of a mesh in memory."""
    assert np.array_equal(mesh.points(), truth.points) and mesh.points().dtype == truth.points.dtype
    for wanted, expected in (
        (PRESSURE, truth.point_data["Pressure (N/m²)"]),
        (VELOCITY, truth.point_data["U"]),
        (HEAT, truth.cell_data["heat"]),
        (FLUX, truth.cell_data["flux"]),
    ):
        got = mesh.array(wanted)
        assert np.array_equal(got, expected) and got.dtype == expected.dtype
    corners = [truth.points[truth.get_cell(i).point_ids] for i in range(truth.n_cells)]
    centres = [points.astype(np.float64).mean(0) for points in corners]
    np.testing.assert_allclose(mesh.cell_centres(), centres, rtol=1e-6, atol=1e-7)
    assert np.array_equal(mesh.locations("point"), mesh.points())
    assert np.array_equal(mesh.locations("cell"), mesh.cell_centres())


def info_of(truth: Any) -> MeshInfo:
    points, cells = truth.n_points, truth.n_cells
    arrays = (
        ArrayInfo("Pressure (N/m²)", "point", 1, points, "float32"),
        ArrayInfo("U", "point", 3, points, "float64"),
        ArrayInfo("heat", "cell", 1, cells, "int32"),
        ArrayInfo("flux", "cell", 3, cells, "float32"),
    )
    return MeshInfo(points, cells, arrays)


def test_every_way_to_write_xml(tmp_path: Path) -> None:
    """Read here or by VTK: what was written comes back."""
    ways = [
        {"mode": mode, "encoded": encoded, "packed": packed, "order": order, "header": header}
        for (mode, encoded), packed, (order, header) in itertools.product(
            [("Ascii", False), ("Binary", False), ("Appended", False), ("Appended", True)],
            ["None", "ZLib", "LZMA", "LZ4"],
            [("Little", 64), ("Big", 32)],
        )
    ]
    for make, suffix in ((volume, "vtu"), (surface, "vtp")):
        truth = make()
        for way in ways:
            path = write_xml(truth, tmp_path / f"mesh.{suffix}", **way)
            assert describe(path) == info_of(truth), way
            mesh = read_mesh(path, ALL)
            check_same(mesh, truth)
            read_here = way["mode"] != "Ascii"
            assert type(mesh).__name__ == ("_FileMesh" if read_here else "Mesh")
            assert mesh.data.GetNumberOfCells() == truth.n_cells
            assert mesh.info == describe(path)


def test_pieces_are_one_mesh(tmp_path: Path) -> None:
    truth = with_arrays(pv.ImageData(dimensions=(3, 4, 5)).cast_to_unstructured_grid())
    for mode in ("Appended", "Ascii"):  # read here, and by VTK
        path = write_xml(truth, tmp_path / "mesh.vtu", pieces=3, mode=mode)
        assert path.read_text("latin-1").count("<Piece") == 3
        mesh = read_mesh(path, ALL)
        assert describe(path).cells == mesh.info.cells == truth.n_cells
        assert describe(path).points == len(mesh.points()) > truth.n_points  # shared ones twice
        assert sorted(mesh.array(HEAT)) == list(range(truth.n_cells))
        centres = truth.cell_centers().points[mesh.array(HEAT)]
        np.testing.assert_allclose(mesh.cell_centres(), centres, atol=1e-6)


def test_lines_and_polygons_in_one_file(tmp_path: Path) -> None:
    """VTK gives them its own order, here too."""
    points = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    truth = with_arrays(pv.PolyData(points, faces=[3, 0, 1, 2, 4, 2, 3, 4, 5], lines=[2, 0, 5]))
    check_same(read_mesh(write_xml(truth, tmp_path / "mesh.vtp"), ALL), truth)
    path = write_legacy(truth, tmp_path / "mesh.vtk", binary=True, version="5.1")
    check_same(read_mesh(path, ALL), truth)


def test_only_the_wanted_is_read(tmp_path: Path) -> None:
    """Spoil the values of everything else: nobody notices until it is asked for."""
    truth = volume()
    path = write_xml(truth, tmp_path / "mesh.vtu")
    raw = path.read_bytes()
    header, values = raw.split(b'<AppendedData encoding="raw">')
    offsets = [int(part.split(b'"')[0]) for part in header.split(b'offset="')[1:]]
    start = len(raw) - len(values) + values.index(b"_") + 1
    spoilt = bytearray(raw)
    for offset in [offsets[0], *offsets[2:4], *offsets[5:]]:  # all but U and the points
        first = int.from_bytes(raw[start + offset : start + offset + 4], "little")
        begin = start + offset + 4 * (3 + first)
        spoilt[begin : begin + 12] = b"\xff" * 12
    path.write_bytes(spoilt)
    mesh = read_mesh(path, [VELOCITY])
    assert np.array_equal(mesh.array(VELOCITY), truth.point_data["U"])
    assert np.array_equal(mesh.points(), truth.points)
    assert [array.name for array in mesh.info.arrays] == ["U"]
    assert describe(path) == info_of(truth)
    with pytest.raises(ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got"):
        read_mesh(path, [PRESSURE])
    later = read_mesh(path, [VELOCITY, PRESSURE], later=True)
    assert np.array_equal(later.array(VELOCITY), truth.point_data["U"])
    with pytest.raises(ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got"):
        later.array(PRESSURE)
    with pytest.raises(ValueError, match="'offsets' of mesh.vtu must be whole, got Error -3"):
        mesh.cell_centres()
    with pytest.raises(ValueError, match="mesh.vtu must have point data 'Pressure .'..., got poi"):
        mesh.array(PRESSURE)
    blocks = start + offsets[0]
    path.write_bytes(raw[:blocks] + b"\xff" * 4 + raw[blocks + 4 :])
    with pytest.raises(
        ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got the "
    ):
        read_mesh(path, [PRESSURE])  # of 4 billion blocks
    for encoded in (False, True):
        write_xml(truth, path, packed="None", header=64, encoded=encoded)
        raw = path.read_bytes()
        blocks = raw.index(b"_", raw.index(b"<AppendedData")) + 1
        path.write_bytes(raw[:blocks] + (b"//////" if encoded else b"\xff" * 7) + raw[blocks + 6 :])
        with pytest.raises(ValueError, match="of mesh.vtu must be whole, got the end of the file"):
            read_mesh(path, [PRESSURE])  # of 2 ** 56 bytes
    path = write_xml(truth, tmp_path / "mesh.vtu", mode="Ascii")
    spoil(path, b"0 1 2 3 4 5", b"x 1 2 3 4 5")
    assert read_mesh(path, [VELOCITY]).array(VELOCITY).shape == (30, 3)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("version", ["4.2", "5.1"])
def test_legacy_files(tmp_path: Path, binary: bool, version: str) -> None:
    """One of each: scalars, vectors, the rest as fields; and text, which no reader wants."""
    points = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    faces = [[4, 0, 1, 2, 3], [3, 4, 5, 6], [5, 7, 8, 9, 10, 11]]  # of 4 corners in the mean
    uneven = with_arrays(pv.PolyData(points, np.concatenate(faces)))
    truths = [surface(), uneven, with_arrays(pv.Icosphere(nsub=1)), volume(polyhedron=False)]
    if version == "5.1":
        truths.append(volume())
    for truth in truths:
        truth.point_data.active_scalars_name = "Pressure (N/m²)"
        truth.point_data.active_vectors_name = "U"
        truth.field_data["note"] = ["some text", "a" * 100]
        path = write_legacy(truth, tmp_path / "mesh.vtk", binary=binary, version=version)
        text = path.read_bytes()
        assert f"Version {version}".encode() in text and b"FIELD" in text and b"VECTORS" in text
        assert set(describe(path).arrays) >= set(info_of(truth).arrays)
        assert (describe(path).points, describe(path).cells) == (truth.n_points, truth.n_cells)
        mesh = read_mesh(path, [PRESSURE, FLUX])
        assert type(mesh).__name__ == ("_FileMesh" if binary else "Mesh")
        assert {array.name for array in mesh.info.arrays} == {"Pressure (N/m²)", "flux"}
        assert mesh.data.GetPointData().GetNumberOfArrays() == 1
        if binary:
            check_same(read_mesh(path, ALL), truth)
        else:
            close = read_mesh(path, ALL).array(VELOCITY)
            np.testing.assert_allclose(close, truth.point_data["U"], rtol=1e-5, atol=1e-5)


def test_legacy_files_of_other_hands(tmp_path: Path) -> None:
    """Sections in any order, data on the line of their header, sections nobody asks for."""
    path = tmp_path / "mesh.vtk"
    path.write_text(
        "# vtk DataFile Version 3.0\nby hand\nASCII\nDATASET POLYDATA\n"
        "FIELD FieldData 1\nTIME 1 1 double 7\n"
        "POINTS 4 double 0 0 0  1 0 0\n1 1 0  0 1 0\n\nPOLYGONS 2 8\n3 0 1 2 3 0 2 3\n"
        "CELL_DATA 2\nSCALARS area float\nLOOKUP_TABLE mine\n0.5\n0.5\n"
        "LOOKUP_TABLE mine 2\n0 0 0 1\n1 1 1 1\nCOLOR_SCALARS paint 2\n0 1 0 1\n"
        "POINT_DATA 4\nNORMALS n float\n0 0 1 0 0 1 0 0 1 0 0 1\n"
        "TEXTURE_COORDINATES t 2 float\n0 0 1 0 1 1 0 1\n"
        "TENSORS s float\n" + "1 2 3 4 5 6 7 8 9\n" * 4 + "FIELD attributes 2\n"
        "p 1 4 float\n1 2 3 4\nMETADATA\nCOMPONENT_NAMES\nwhat\n\n"
        "wall%20shear 3 4 double\n1 2 3 4 5 6 7 8 9 10 11 12\n"
    )
    assert [(a.name, a.components, a.rows, a.dtype) for a in describe(path).arrays] == [
        ("area", 1, 2, "float32"), ("paint", 2, 2, "uint8"), ("n", 3, 4, "float32"),
        ("t", 2, 4, "float32"), ("s", 9, 4, "float32"), ("p", 1, 4, "float32"),
        ("wall shear", 3, 4, "float64"),
    ]  # fmt: skip
    shear = Wanted("wall shear", "point", 3)
    mesh = read_mesh(path, [shear])
    assert np.array_equal(mesh.array(shear), np.arange(1, 13).reshape(4, 3))
    assert mesh.triangles()[1].tolist() == [[0, 1, 2], [0, 2, 3]]
    spoil(path, b"p 1 4 float\n1 2 3 4", b"p 1 3 float\n1 2 3")
    with pytest.raises(
        ValueError, match="'p' of mesh.vtk must have a row for each of the 4 points"
    ):
        read_mesh(path, [Wanted("p", "point", 1)])


def test_bits_and_short_arrays_of_legacy_files(tmp_path: Path) -> None:
    ball = with_arrays(pv.Icosphere(nsub=1))
    bits = vtkBitArray()
    bits.SetName("a bit")
    for value in np.arange(ball.n_points) % 3 == 0:
        bits.InsertNextValue(int(value))
    ball.GetPointData().AddArray(bits)
    path = write_legacy(ball, tmp_path / "mesh.vtk", binary=True, version="5.1")
    check_same(read_mesh(path, ALL), ball)
    flags = Wanted("a bit", "point", 1)
    assert read_mesh(path, [flags]).array(flags).tolist() == [i % 3 == 0 for i in range(42)]
    raw = path.read_bytes()
    begin = raw.index(b"flux 3 80 float\n")  # as if it had a row less
    cut = raw[:begin] + b"flux 3 79 float\n" + raw[begin + 16 : begin + 16 + 79 * 12]
    path.write_bytes(cut + raw[begin + 16 + 80 * 12 :])
    with pytest.raises(
        ValueError, match="'flux' of mesh.vtk must have a row for each of the 80 ce"
    ):
        read_mesh(path, [FLUX])


def test_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read where they lie, or joined in TMPDIR for VTK, which is left as it was."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    truth = volume()
    for mode in ("Appended", "Ascii"):
        path = write_xml(truth, tmp_path / "volume_1.vtu", mode=mode)
        size = path.stat().st_size
        for cuts in ((size // 2,), (1, 2, 800, size - 3)):
            parts = write_parts(path, cuts)
            mesh = read_mesh(parts, ALL)
            check_same(mesh, truth)
            assert mesh.name == "volume_1.vtu"
            assert mesh.data.GetNumberOfCells() == truth.n_cells
            assert describe(parts) == info_of(truth)
        with pytest.raises(ValueError, match="without a gap, got volume_1.vtu.00.part, volume_1.v"):
            read_mesh([parts[0], *parts[2:]])
        with pytest.raises(ValueError, match="without a gap, got volume_1.vtu.01.part$"):
            describe(parts[1])
        with pytest.raises(ValueError, match=r"volume_1.vtu must be a whole VTK XML file, got "):
            read_mesh(parts[:-1])
        with pytest.raises(ValueError, match=r"volume_1.vtu must have point data 'T'"):
            read_mesh(parts, [Wanted("T", "point", 1)])
        parts[2].unlink()
        with pytest.raises(ValueError, match=r"volume_1.vtu.02.part must exist, got no such file"):
            read_mesh(parts)
    legacy = tmp_path / "volume_1.vtk"
    truth.save(legacy)
    check_same(read_mesh(write_parts(legacy, (100, 1000)), ALL), truth)
    assert list(temporary.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert read_mesh(write_parts(write_xml(truth, path), (500,))).points().shape == (30, 3)


def write_files(folder: Path) -> list[tuple[Path, tuple[Wanted, ...]]]:
    """One file of each format and encoding."""
    files: list[tuple[Path, tuple[Wanted, ...]]] = []
    for index, (mode, encoded, packed) in enumerate(
        [("Ascii", False, "None"), ("Binary", False, "ZLib"), ("Appended", False, "None"),
         ("Appended", False, "ZLib"), ("Appended", True, "LZ4")]
    ):  # fmt: skip
        path = write_xml(
            volume(), folder / f"{index}.vtu", mode=mode, encoded=encoded, packed=packed
        )
        files.append((path, ALL))
    files.append((write_xml(surface(), folder / "surface.vtp"), ALL))
    ball = with_arrays(pv.Icosphere(nsub=1))
    for binary, name in ((True, "binary"), (False, "ascii")):
        volume().save(folder / f"{name}-volume.vtk", binary=binary)
        surface().save(folder / f"{name}.vtk", binary=binary)
        ball.save(folder / f"{name}.stl", binary=binary)
        ball.save(folder / f"{name}.ply", binary=binary)
        files += [(folder / f"{name}-volume.vtk", ALL), (folder / f"{name}.vtk", ALL)]
        files += [(folder / f"{name}.stl", ()), (folder / f"{name}.ply", ())]
    return files


def test_a_truncated_file_is_never_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Cut anywhere: one sentence that names the file, and nothing printed."""
    draw = np.random.default_rng(0)
    for path, wanted in write_files(tmp_path):
        whole = path.read_bytes()
        places = read_mesh(path, wanted).cell_centres()
        ends = len(whole.rstrip())
        as_binary = range(84, ends, 50 * 40)  # lengths of binary STL, for which VTK takes it then
        for cut in {0, 1, ends - 3, *draw.integers(2, ends - 2, 25).tolist(), *as_binary}:
            path.write_bytes(whole[:cut])
            try:
                mesh = read_mesh(path, wanted)
            except ValueError as error:
                said = str(error)
                assert path.name in said and "\n" not in said and "0x" not in said, said
            else:  # the last number of a text may be cut and none would know
                assert path.name.startswith("ascii") and cut == ends - 3, (path.name, cut)
                assert mesh.cell_centres().shape == places.shape
    out, printed = capfd.readouterr()
    assert (out, printed) == ("", "")


def test_wrong_bytes_are_an_error_or_harmless(tmp_path: Path) -> None:
    """Some changed, lost or added: never a crash, endless reading, or any error but ours."""
    read_here = ("0.vtu", "1.vtu", "2.vtu", "3.vtu", "4.vtu", "surface.vtp", "binary.vtk")
    refused = 0
    for path, wanted in write_files(tmp_path):
        whole = path.read_bytes()
        draw = np.random.default_rng(1)
        for _ in range(40 if path.name in read_here or path.suffix in (".ply", ".stl") else 0):
            raw = bytearray(whole)
            at, length = int(draw.integers(0, len(raw))), int(draw.integers(1, 9))
            raw[at : at + int(draw.integers(0, 9))] = draw.bytes(length)
            path.write_bytes(raw)
            try:
                read_mesh(path, wanted).cell_centres()
            except ValueError as error:
                assert path.name in str(error) and "\n" not in str(error)
                refused += 1
    assert refused > 200


def spoil(path: Path, old: bytes, new: bytes) -> None:
    raw = path.read_bytes()
    assert old in raw
    path.write_bytes(raw.replace(old, new, 1))


SPOILT: list[tuple[str, bytes, bytes, str]] = [
    (
        "vtu",
        b'NumberOfPoints="30"',
        b'NumberOfPoints="31"',
        "'Points' of mesh.vtu must have 93 val",
    ),
    ("vtu", b'NumberOfCells="7"', b'NumberOfCells="6"', "'heat' of mesh.vtu must have 6 values"),
    (
        "vtu",
        b"</VTKFile>",
        b"</VTKfile>",
        "mesh.vtu must be a whole VTK XML file, got no </VTKFile>",
    ),
    ("vtu", b"UnstructuredGrid", b"ImageData", "mesh.vtu must hold PolyData or UnstructuredGrid,"),
    (
        "vtu",
        b'Name="connectivity"',
        b'Name="connectivitx"',
        "mesh.vtu must be a whole file, got an",
    ),
    ("vtk", b"POINTS 30", b"POINTS 31", "mesh.vtk must be a whole legacy VTK file, got"),
    ("vtk", b"CELL_TYPES", b"CELL_TUPES", "got the unknown section 'CELL_TUPES'"),
    ("vtk", b"UNSTRUCTURED_GRID", b"STRUCTURED_GRID", "got the data set STRUCTURED_GRID, not POL"),
    ("vtk", b"BINARY", b"BINRAY", "got 'BINRAY' where ASCII or BINARY must be"),
    ("vtk", b"# vtk", b"# vtx", "mesh.vtk must be a whole legacy VTK file, got another first line"),
    ("ply", b"ply", b"plx", "mesh.ply must be a whole PLY file, got another first line"),
    ("ply", b"end_header", b"end_haeder", "whole PLY file, got a header without end_header"),
    ("ply", b"element face 80", b"element face 81", "mesh.ply must be a whole PLY file, got"),
]


@pytest.mark.parametrize(("suffix", "old", "new", "says"), SPOILT)
def test_spoilt_files(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    suffix: str,
    old: bytes,
    new: bytes,
    says: str,
) -> None:
    path = tmp_path / f"mesh.{suffix}"
    if suffix == "vtu":
        write_xml(volume(), path, packed="None")
    else:
        (volume() if suffix == "vtk" else pv.Icosphere(nsub=1)).save(path)
    spoil(path, old, new)
    with pytest.raises(ValueError, match=says) as caught:
        read_mesh(path, ALL if suffix != "ply" else ())
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_cells_that_name_no_points(tmp_path: Path) -> None:
    says = "the cells of mesh.{} must have corners among its 5 points, got numbers from 0 to 70"
    for suffix, packed in (("vtu", "None"), ("vtk", "")):
        path = tmp_path / f"mesh.{suffix}"
        points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
        mesh = pv.UnstructuredGrid(np.array([4, 0, 1, 2, 3]), np.array([10]), points)
        write_xml(mesh, path, packed=packed) if packed else mesh.save(path)
        wrong = [np.array([0, 1, 2, n], f"{'<' if packed else '>'}i8").tobytes() for n in (3, 70)]
        spoil(path, *wrong)
        with pytest.raises(ValueError, match=says.format(suffix)):
            read_mesh(path).cell_centres()


WANTS: list[tuple[Wanted, str]] = [
    (
        Wanted("T", "point", 1),
        r"mesh.vtu must have point data 'T', got point data 'Pressure \(N/m²\)', 'U' and cell data"
        r" 'heat', 'flux'",
    ),
    (
        replace(VELOCITY, location="cell"),
        "mesh.vtu must have 'U' as cell data, got it as point data",
    ),
    (replace(VELOCITY, components=1), "'U' of mesh.vtu must have 1 component, got 3"),
    (replace(HEAT, components=3), "'heat' of mesh.vtu must have 3 components, got 1"),
    (Wanted("Pressure", "point", 1), "mesh.vtu must have point data 'Pressure', got point data"),
    (
        Wanted("", "cell", 1, prefix=True),
        "mesh.vtu must have one cell array ''..., got 'heat', 'flux'",
    ),
]


@pytest.mark.parametrize(("wanted", "says"), WANTS)
def test_arrays_that_are_not_there(tmp_path: Path, wanted: Wanted, says: str) -> None:
    for mode in ("Appended", "Ascii"):
        path = write_xml(volume(), tmp_path / "mesh.vtu", mode=mode)
        with pytest.raises(ValueError, match=f"^{says}"):
            read_mesh(path, [PRESSURE, wanted])


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "mesh.msh").touch()
    (tmp_path / "folder").mkdir()
    none = pv.UnstructuredGrid()
    none.save(tmp_path / "empty.vtu")
    pv.PolyData().save(tmp_path / "empty.vtk")
    for name, says in (
        ("absent.vtu", "absent.vtu must exist, got no such file"),
        ("mesh.msh", "mesh.msh must be .vtp, .vtu, .* OpenFOAM case, got '.msh'"),
        ("folder", "folder must be .vtp, .vtu, .* OpenFOAM case, got a folder"),
        ("empty.vtu", "empty.vtu must have at least one point, got none"),
        ("empty.vtk", "empty.vtk must have at least one point, got none"),
    ):
        with pytest.raises(ValueError, match=says):
            read_mesh(tmp_path / name)
    with pytest.raises(ValueError, match=r"without a gap, got none"):
        read_mesh([])
    with pytest.raises(ValueError, match=r"^no_such_thing must be .* 'slipstream\[mesh\]'$"):
        need("no_such_thing", "mesh")


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
    assert mesh.data.IsA("vtkPolyData")
    assert [array.name for array in mesh.info.arrays] == ["U", "heat"]
    assert set(describe(path).arrays) >= set(mesh.info.arrays)
    assert describe(path).points == len(mesh.points())
    two.point_data.remove("U")
    pv.MultiBlock([one, two]).save(path)
    block = sorted((tmp_path / "mesh").iterdir())[1].name
    with pytest.raises(ValueError, match=f"{block} must have point data 'U', got"):
        read_mesh(path, [VELOCITY])
    assert "U" not in {array.name for array in describe(path).arrays}
    volumes = pv.MultiBlock([volume(), one])
    volumes.save(path)
    mesh = read_mesh(path, [FLUX])
    assert mesh.array(FLUX).shape == (volume().n_cells + one.n_cells, 3)
    (tmp_path / "mesh" / block).unlink()
    with pytest.raises(ValueError, match=f"{block} must exist, got no such file"):
        read_mesh(path)
    path.write_text("<VTKFile/>")
    with pytest.raises(ValueError, match="mesh.vtm must name the files of its blocks, got none"):
        describe(path)


def test_openfoam_case(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = write_case(tmp_path / "case")
    pressure, velocity = Wanted("p", "cell", 1), Wanted("U", "cell", 3)
    for path in (case, case / "any.foam"):
        mesh = read_mesh(path, [pressure, velocity])
        assert mesh.array(pressure).tolist() == [10, 11]
        assert mesh.array(velocity).tolist() == [[10, 0, 1], [11, 0, 1]]
        assert mesh.cell_centres().tolist() == [[0.5, 0.5, 0.5], [1.5, 0.5, 0.5]]
    with pytest.raises(ValueError, match="case must be a surface of polygons, got .* types 12"):
        mesh.triangles()
    info = describe(case)
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
    arrays = [(a.name, a.components) for a in describe(tmp_path / "by_hand.ply").arrays]
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
        "import sys, slipstream.data.readers.vtk, slipstream.data.geometry\n"
        "print([m for m in ('pyvista', 'vtkmodules', 'scipy', 'h5py') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
