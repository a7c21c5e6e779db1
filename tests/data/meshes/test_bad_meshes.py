"""Files in parts, cut short, spoilt or not meshes: one sentence each."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.core.extras import need
from slipstream.data.meshes import Wanted, mesh_info, read_mesh

from ..mesh_files import (
    ALL,
    HEAT,
    PRESSURE,
    VELOCITY,
    check_same,
    info_of,
    spoil,
    surface,
    volume,
    with_arrays,
    write_parts,
    write_xml,
)


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
            assert mesh.cells().count == truth.n_cells
            assert mesh_info(parts) == info_of(truth)
        with pytest.raises(ValueError, match="without a gap, got volume_1.vtu.00.part, volume_1.v"):
            read_mesh([parts[0], *parts[2:]])
        with pytest.raises(ValueError, match="without a gap, got volume_1.vtu.01.part$"):
            mesh_info(parts[1])
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


SPOILT: list[tuple[str, bytes, bytes, str]] = [
    (
        "vtu",
        b'NumberOfPoints="30"',
        b'NumberOfPoints="31"',
        r"'Pressure \(N/m²\)' of mesh.vtu must have 31 values, as the header says, got 30 in 120 b",
    ),
    ("vtu", b'NumberOfCells="7"', b'NumberOfCells="6"', "'heat' of mesh.vtu must have 6 values"),
    (
        "vtu",
        b"</VTKFile>",
        b"</VTKfile>",
        "mesh.vtu must be a whole VTK XML file, got no </VTKFile>",
    ),
    ("vtu", b"UnstructuredGrid", b"ImageData", "a whole VTK XML file, got no ImageData in it"),
    (
        "vtu",
        b'Name="connectivity"',
        b'Name="connectivitx"',
        "mesh.vtu must have Cells connectivity, got none",
    ),
    ("vtk", b"POINTS 30", b"POINTS 31", "mesh.vtk must be a whole legacy VTK file, got"),
    ("vtk", b"CELL_TYPES", b"CELL_TUPES", "got the unknown section 'CELL_TUPES'"),
    ("vtk", b"UNSTRUCTURED_GRID", b"STRUCTURED_GRID", "got STRUCTURED_GRID without DIMENSIONS"),
    (
        "vtk",
        b"UNSTRUCTURED_GRID",
        b"UNSTRUCTURED_GRIT",
        "got the data set UNSTRUCTURED_GRIT, not P",
    ),
    ("vtk", b"BINARY", b"BINRAY", "got 'BINRAY' where ASCII or BINARY must be"),
    ("vtk", b"# vtk", b"# vtx", "mesh.vtk must be a whole legacy VTK file, got another first line"),
    ("ply", b"ply", b"plx", "mesh.ply must be a whole PLY file, got another first line"),
    ("ply", b"end_header", b"end_haeder", "whole PLY file, got the line .end_haeder. in its"),
    ("ply", b"element face 80", b"element face 81", "mesh.ply must be a whole PLY file, got"),
    ("ply", b"vertex 42", b"vertex 99999999999999", "before the last of the 99999999999999 rows"),
    ("ply", b"face 80", b"face 99999999999999", "before the last of the 99999999999999 rows of"),
    ("ply", b"vertex 42", b"vertex -42", "got an end before the last of the -42 rows of vertex"),
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
    with pytest.raises(
        ValueError, match=r"^no_such_thing must be .* pip install 'slipstream-cfd\[mesh\]'"
    ):
        need("no_such_thing", "mesh")
