"""What VTK reads is read in a process of its own: crashes and limits are one sentence each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import ReadLimits, Wanted, mesh_info, read_mesh, read_within
from slipstream.data.meshes.guard import GUARD
from slipstream.data.meshes.openfoam import load_case
from slipstream.data.meshes.requests import _size
from slipstream.data.meshes.vtk_data import as_loaded, volumes_of
from slipstream.data.meshes.vtk_files import load_file

from ..hostile_files import HOSTILE, READ_BY_VTK, polyhedron, write_hostile
from ..mesh_files import spoil, surface, volume, with_arrays, write_case, write_parts, write_xml

SOME = ReadLimits(memory=1, seconds=60)
P = Wanted("p", "point", 1)


def reader() -> int:
    """The process that reads."""
    assert GUARD._reader
    return GUARD._reader.process.pid


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_xml(volume(), tmp_path / "good.vtu", mode="Ascii")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_sentence(
    tmp_path: Path, good: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """VTK reads past the end of an array in some, and what it finds there is a matter of chance: it
    crashes as a rule, has run out of memory, and has seen an error itself."""
    path = write_hostile(tmp_path, name)
    says = rf"^[^\n]*{name} must [^\n]*, got [^\n]*$"
    if name in READ_BY_VTK:
        crash = r"VTK crashed with signal \d+ \(SIG[A-Z]+\) while reading"
        says += rf"|{crash} {name}$|^reading {name} needs more than the 1 GB that --read-memory"
    with read_within(SOME), pytest.raises(ValueError, match=says):
        read_mesh(path, [P] if name != "line_length.vtk" else []).cell_centres()
    assert read_mesh(good).points().shape == (30, 3)
    assert capfd.readouterr() == ("", "")


def test_a_polyhedron(tmp_path: Path) -> None:
    """The same file is read where its faces are right."""
    (tmp_path / "mesh.vtu").write_text(polyhedron())
    assert read_mesh(tmp_path / "mesh.vtu").volumes() == pytest.approx([1 / 6])


def test_a_damaged_case(tmp_path: Path) -> None:
    """Cut anywhere in its boundary, or with a cell of number 1e9: an error or the whole mesh."""
    case = write_case(tmp_path / "case")
    flow = Wanted("U", "cell", 3)
    boundary = case / "constant/polyMesh/boundary"
    whole = boundary.read_text()
    refused = 0
    for cut in range(0, len(whole.rstrip()), 9):
        boundary.write_text(whole[:cut])
        for region in ("internalMesh", "walls"):
            try:
                assert read_mesh(case, [flow], regions=[region]).info.cells in (2, 8)
            except ValueError as error:
                assert "case" in str(error) and "one of ," not in str(error)
                refused += 1
    assert refused > 40
    boundary.write_text(whole)
    owner = case / "constant/polyMesh/owner"
    owner.write_text(owner.read_text().replace("(\n0", "(\n1000000000"))
    with read_within(SOME), pytest.raises(ValueError, match="^reading case needs more than the 1"):
        read_mesh(case, [flow])


def test_control_characters_of_a_case_are_not_printed(tmp_path: Path) -> None:
    case = write_case(tmp_path / "case")
    boundary = case / "constant/polyMesh/boundary"
    spoil(boundary, b"walls {", b"w\x1b[31m\xe9 {")
    says = r"a region of case must be one of internalMesh, w\\x1b\[31mé, inlet"
    with pytest.raises(ValueError, match=says):
        read_mesh(case, regions=["no"])
    assert read_mesh(case, regions=["w*"]).info.cells == 8
    spoil(case / "constant/polyMesh/faces", b"(", b"\x1b[31m")
    with pytest.raises(ValueError, match=r"error of VTK's reader: .*\\x1b") as caught:
        read_mesh(case)
    assert str(caught.value).isprintable()


def unguarded(path: Path, wanted: list[Wanted]) -> Any:
    return load_file(path, wanted) if path.is_file() else load_case(path, wanted, ["internalMesh"])


def test_arrays_are_those_of_vtk_to_the_last_bit(tmp_path: Path) -> None:
    """Small ones, which are sent, and large ones, which are handed over in memory."""
    pressure, velocity = Wanted("Pressure (", "point", 1, prefix=True), Wanted("U", "point", 3)
    image = with_arrays(pv.ImageData(dimensions=(20, 30, 40)))
    strips = pv.PolyData(np.eye(5)[:, :3], verts=[1, 4], lines=[2, 0, 1], strips=[4, 0, 1, 2, 3])
    meshes: dict[str, Any] = {
        "image.vti": image, "grid.vts": image.cast_to_structured_grid(),
        "axes.vtr": image.cast_to_rectilinear_grid(), "body.stl": pv.Sphere(theta_resolution=99),
        "body.ply": pv.Sphere(), "grid.vtk": image.cast_to_structured_grid(),
        "strips.vtp": with_arrays(strips), "lines.vtk": with_arrays(strips),
    }  # fmt: skip
    for name, mesh in meshes.items():
        mesh.save(tmp_path / name)
    write_xml(volume(), tmp_path / "text.vtu", mode="Ascii")
    write_xml(surface(), tmp_path / "text.vtp", mode="Ascii")
    write_case(tmp_path / "case")
    for name in (*meshes, "text.vtu", "text.vtp", "case"):
        wanted = [pressure, velocity] if name not in ("body.stl", "body.ply", "case") else []
        wanted = [Wanted("U", "cell", 3)] if name == "case" else wanted
        data = unguarded(tmp_path / name, wanted)
        mesh, truth = read_mesh(tmp_path / name, wanted), as_loaded(data)
        assert mesh.info == truth.info
        pairs = [(mesh.points(), truth.points), (mesh.volumes(), volumes_of(data))]
        pairs += [(mesh._values(info), values) for info, values in truth.values.items()]
        for ours, theirs in zip(mesh.cells().chunks(), truth.cells(name).chunks(), strict=True):
            pairs += [(getattr(ours, k), getattr(theirs, k)) for k in ("types", "begins")]
            pairs.append((ours.corners, theirs.corners))
        for got, expected in pairs:
            assert got.dtype == expected.dtype and got.shape == expected.shape, name
            assert got.tobytes() == expected.tobytes(), name
    mesh.points()[0] = 7  # as arrays of this process are


def test_limits_on_time_and_memory(tmp_path: Path, good: Path) -> None:
    GUARD.end()
    says = "^reading good.vtu took more than the 0.001 s that --read-timeout allows$"
    with read_within(ReadLimits(seconds=0.001)), pytest.raises(ValueError, match=says):
        read_mesh(good)
    path = tmp_path / "image.vti"
    pv.ImageData(dimensions=(100, 100, 100)).save(path)
    says = "^reading image.vti needs more than the 0.05 GB that --read-memory allows$"
    with read_within(ReadLimits(memory=0.05)), pytest.raises(ValueError, match=says):
        read_mesh(path)
    assert read_mesh(path).points().shape == (10**6, 3)  # by default it may take more
    for wrong in ({"memory": 0}, {"seconds": float("nan")}):
        with pytest.raises(ValueError, match=r"^read (memory|timeout) must be a number above 0"):
            ReadLimits(**wrong)
    parts = write_parts(path, (1000,))
    assert _size([path]) == _size(parts) == path.stat().st_size
    case = write_case(tmp_path / "case")
    assert _size([case]) > (case / "10/U").stat().st_size + (case / "10/p").stat().st_size
    usual = ReadLimits()
    assert usual.memory_for(1000) <= 4e9 and usual.seconds_for(2 * 10**9) == 720


def test_many_files_are_read_by_one_process(tmp_path: Path) -> None:
    readers = set()
    for number in range(20):
        path = tmp_path / f"{number}.stl"
        pv.Cube(x_length=number + 1).save(path)
        assert mesh_info(path).cells == len(read_mesh(path).triangles()[1]) == 12
        readers.add(reader())
    assert len(readers) == 1


def test_copies_for_vtk_are_removed_after_a_crash(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is stopped until the copy is there, and then ends by the signal of a crash."""
    read_mesh(good)
    parts = write_parts(good, (100, 200))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    crashing = reader()
    os.kill(crashing, signal.SIGSTOP)
    copies: list[str] = []

    def crash() -> None:
        while not copies:
            time.sleep(0.005)
            copies.extend(path.name for path in (tmp_path / "temporary").rglob("good.vtu"))
        os.kill(crashing, signal.SIGSEGV)
        os.kill(crashing, signal.SIGCONT)

    thread = threading.Thread(target=crash, daemon=True)
    thread.start()
    says = r"^VTK crashed with signal 11 \(SIGSEGV\) while reading good.vtu$"
    with pytest.raises(ValueError, match=says):
        read_mesh(parts)
    thread.join()
    assert copies == ["good.vtu"] and list((tmp_path / "temporary").iterdir()) == []
    assert read_mesh(good).points().shape == (30, 3) and reader() != crashing


def _ended(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        threads = len(os.listdir(f"/proc/{process}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z" and threads == 1  # others of its threads hold the socket


def _wait_for_end(process: int) -> None:
    end = time.monotonic() + 20
    while not _ended(process) and time.monotonic() < end:
        time.sleep(0.02)
    assert _ended(process)


def test_signals_and_ended_threads_do_not_end_the_reader(good: Path) -> None:
    """The parent decides; Linux would end the reader with the thread that started it."""
    GUARD.end()
    thread = threading.Thread(target=lambda: read_mesh(good))
    thread.start()
    thread.join()
    before = reader()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(before, number)
    assert os.getpgid(before) != os.getpgid(0)
    read_mesh(good)
    assert reader() == before
    os.kill(before, signal.SIGKILL)  # as the system does when memory is full
    _wait_for_end(before)
    assert read_mesh(good).points().shape == (30, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an alarm ends it, later")
def test_the_reader_dies_with_its_parent_even_while_it_reads(good: Path) -> None:
    """Killed without a chance to say so; the reader is stopped, as if VTK never came back."""
    program = (
        "import sys, time; from pathlib import Path; from slipstream.data.meshes import read_mesh\n"
        "from slipstream.data.meshes.guard import GUARD\n"
        "read_mesh(Path(sys.argv[1])); print(GUARD._reader.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, good], stdout=subprocess.PIPE)
    assert parent.stdout
    child = int(parent.stdout.readline())
    os.kill(child, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        _wait_for_end(child)
    finally:
        if not _ended(child):
            os.kill(child, signal.SIGKILL)


def test_the_reader_loads_no_torch() -> None:
    program = (
        "import sys, slipstream.data.meshes.reader_process\n"
        "assert not {'torch', 'yaml', 'scipy', 'pyvista', 'typer'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_grid_without_cells(tmp_path: Path) -> None:
    points = "POINTS 2 float\n0 0 0 1 2 3\n"
    path = tmp_path / "mesh.vtk"
    path.write_text(f"# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\n{points}")
    mesh = read_mesh(path)
    assert mesh.points().tolist() == [[0, 0, 0], [1, 2, 3]]
    assert mesh.cells().count == 0 and mesh.cell_centres().shape == (0, 3)
