"""What is refused when a mesh is written, in one sentence, and what a failure leaves: nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import ReadLimits, read_within, write_with_arrays
from slipstream.data.meshes.guard import GUARD

from ..mesh_files import mixed_surface, surface, volume, write_case, write_legacy, write_xml


def listing(folder: Path) -> dict[str, bytes]:
    """All that is in a folder."""
    return {
        str(file.relative_to(folder)): file.read_bytes() if file.is_file() else b"folder"
        for file in folder.rglob("*")
    }


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    before = listing(folder)
    yield
    assert listing(folder) == before


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    return write_xml(surface(), tmp_path / "mesh.vtp")


CELLS = np.zeros(13)


def test_an_output_that_exists(mesh: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.vtp"
    out.write_text("the user's")
    (tmp_path / "folder.vtp").mkdir()
    (tmp_path / "link.vtp").symlink_to(mesh)
    (tmp_path / "hard.vtp").hardlink_to(mesh)
    (tmp_path / "gone.vtp").symlink_to("nowhere")
    new, other = "out must be a new file, got .* exists$", "out must be another file than those"
    with unchanged(tmp_path):
        for path, overwrite, says in (
            (out, False, new), (tmp_path / "gone.vtp", False, new),
            (tmp_path / "folder.vtp", True, "out must be a file, got .*, which is a folder$"),
            (mesh, False, other), (mesh, True, other), (tmp_path / "mesh", True, other),
            (tmp_path / "link.vtp", True, other), (tmp_path / "hard.vtp", True, other),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=says) as raised:
                write_with_arrays(mesh, path, cell_arrays={"f": CELLS}, overwrite=overwrite)
            assert "\n" not in str(raised.value)
    for path in (out, tmp_path / "gone.vtp"):
        write_with_arrays(mesh, path, cell_arrays={"f": CELLS}, overwrite=True)
        assert not path.is_symlink() and pv.read(path)["f"].tolist() == CELLS.tolist()


def test_a_name_of_another_format(mesh: Path, tmp_path: Path) -> None:
    case = write_case(tmp_path / "case")
    with unchanged(tmp_path):
        for source, out, regions, says in (
            (mesh, "out.vtu", (), "out must end with .vtp for this mesh, .* got out.vtu"),
            (mesh, "out.STL", (), "out must end with .vtp for this mesh, .* got out.STL"),
            (case, "out.vtp", (), "out must end with .vtu for this mesh, .* got out.vtp"),
            (case, "out.vtu", ("walls",), "out must end with .vtp for this mesh"),
            (case, "out.vtp", ("*",), "out must end with .vtm for this mesh"),
        ):
            options: Any = {"regions": regions} if regions else {}
            with pytest.raises(ValueError, match=says):
                write_with_arrays(source, tmp_path / out, **options)
        for path in (Path(), Path("/"), tmp_path / ".."):
            with pytest.raises(ValueError, match="^out must be the path of a file, got"):
                write_with_arrays(mesh, path)


def test_bad_arrays(mesh: Path, tmp_path: Path) -> None:
    numbers = "'f' must be an array of real numbers, got"
    shape = r"'f' must have shape \(rows,\) or \(rows, k\), got"
    shown = "must be text without control characters, got"
    bad: list[tuple[dict[str, Any], str]] = [
        ({"f": np.zeros(12)}, "'f' must have a row for each of the 13 cells of mesh.vtp, got 12$"),
        ({"f": np.zeros((14, 3))}, "'f' must have a row for each of the 13 cells of mesh.vtp, got"),
        ({"f": np.zeros(0)}, "'f' must have a row for each of the 13 cells of mesh.vtp, got 0$"),
        ({"heat": CELLS}, "'heat' must be a new name, got one that an array at the cells of mesh"),
        ({"f": CELLS + 1j}, f"{numbers} complex128"),
        ({"f": CELLS.astype(np.longdouble)}, f"{numbers} (float128|longdouble)"),
        ({"f": np.array([None] * 13)}, f"{numbers} object"),
        ({"f": np.array(["a"] * 13)}, f"{numbers} <U1"),
        ({"f": CELLS.astype("M8[s]")}, f"{numbers} datetime64"),
        ({"f": np.array(1.0)}, rf"{shape} \(\)"),
        ({"f": np.zeros((13, 3, 3))}, rf"{shape} \(13, 3, 3\)"),
        ({"f": np.zeros((13, 0))}, rf"{shape} \(13, 0\)"),
        ({"": CELLS}, "the name of an array must have letters, got ''"),
        ({" ": CELLS}, "the name of an array must have letters, got ' '"),
        ({"a\0b": CELLS}, f"the name of an array {shown}"),
        ({"a\nb": CELLS}, f"the name of an array {shown}"),
        ({"a\udce4": CELLS}, f"the name of an array {shown}"),
    ]
    with unchanged(tmp_path):
        for arrays, says in bad:
            with pytest.raises(ValueError, match=f"^{says}") as raised:
                write_with_arrays(mesh, tmp_path / "out", cell_arrays=arrays)
            assert "\n" not in str(raised.value)
        with pytest.raises(ValueError, match="of the 13 points of mesh.vtp, got 12"):
            write_with_arrays(mesh, tmp_path / "out", point_arrays={"f": np.zeros(12)})
        for options, says in (
            ({"units": {"g": "m"}}, "units must be of arrays that are added, got one of 'g'"),
            ({"units": {"f": "m\0"}}, f"a unit {shown}"),
            ({"units": {"f": "m\x01"}}, f"a unit {shown}"),
            ({"field_text": {"": "x"}}, "the name of a text must have letters"),
            ({"field_text": {"x": "a\0b"}}, "'x' must be text of whole letters, none zero, got"),
            ({"field_text": {"x": "a\udce4"}}, "'x' must be text of whole letters, none zero, got"),
            ({"field_text": {"x\x01": "a"}}, f"the name of a text {shown}"),
        ):
            with pytest.raises(ValueError, match=f"^{says}"):
                write_with_arrays(mesh, tmp_path / "out", cell_arrays={"f": CELLS}, **options)
    out = write_with_arrays(mesh, tmp_path / "text", field_text={"about": "a"})
    with pytest.raises(ValueError, match="'about' must be a new name, got one that an array of te"):
        write_with_arrays(out, tmp_path / "out", field_text={"about": "b"})


def test_a_mesh_that_cannot_be_read(mesh: Path, tmp_path: Path) -> None:
    whole = mesh.read_bytes()
    (tmp_path / "cut.vtp").write_bytes(whole[: len(whole) // 2])
    pv.PolyData().save(tmp_path / "empty.vtp")
    (tmp_path / "text.txt").write_text("no mesh")
    with unchanged(tmp_path):
        for name, says in (
            ("cut.vtp", "cut.vtp must be a whole VTK XML file"),
            ("empty.vtp", "empty.vtp must have at least one point, got none"),
            ("missing.vtp", "missing.vtp must exist, got no such file"),
            ("text.txt", "text.txt must be .vtp"),
        ):
            with pytest.raises(ValueError, match=says) as raised:
                write_with_arrays(tmp_path / name, tmp_path / "out")
            assert "\n" not in str(raised.value)


def test_folders_that_cannot_be_written(mesh: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with unchanged(tmp_path), pytest.raises(OSError, match="file"):
        write_with_arrays(mesh, tmp_path / "file" / "out.vtp", cell_arrays={"f": CELLS})
    with unchanged(tmp_path), pytest.raises(OSError, match="File name too long"):
        write_with_arrays(mesh, tmp_path / ("x" * 250), cell_arrays={"f": CELLS})


def test_a_folder_without_the_right_to_write(folder_of_a_user: Path) -> None:
    mesh = write_xml(surface(), folder_of_a_user / "mesh.vtp")
    closed = folder_of_a_user / "closed"
    closed.mkdir(0o555)
    pv.MultiBlock([surface()]).save(folder_of_a_user / "blocks.vtm")
    with unchanged(folder_of_a_user):
        for source in (mesh, mesh.with_name("blocks.vtm")):
            for out in (closed / "out", closed / "deeper" / "out"):
                with pytest.raises(PermissionError, match="Permission denied: '.*closed/"):
                    write_with_arrays(source, out, cell_arrays={"f": CELLS})


def as_vtm(folder: Path) -> Path:
    pv.MultiBlock({"a": surface(), "b": mixed_surface()}).save(folder / "mesh.vtm")
    return folder / "mesh.vtm"


SOURCES: dict[str, Callable[[Path], Path]] = {
    "vtp": lambda folder: write_xml(surface(), folder / "mesh.vtp"),
    "vtu": lambda folder: write_xml(volume(), folder / "mesh.vtu"),
    "vtk": lambda folder: write_legacy(
        volume(), folder / "mesh.vtk", binary=True, version="5.1"
    ),
    "vtm": as_vtm,
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    """The limit on a file's size stops VTK's writer as a full disk does, at whatever byte."""
    source = SOURCES[kind](tmp_path)
    new: dict[str, Any] = {"field_text": {"a": "new"}, "overwrite": True}
    out = write_with_arrays(source, tmp_path / "out", **new)
    written = [out, *(tmp_path / "out_blocks").glob("*")][-1]  # of blocks the last one
    size = max(f.stat().st_size for f in written.parent.iterdir() if f != source and f.is_file())
    write_with_arrays(source, out, field_text={"a": "old"}, overwrite=True)
    for limit in (0, 1, 100, size // 2, size - 1):
        with file_sizes_below(limit), unchanged(tmp_path):
            with pytest.raises(OSError, match=f"(No space left|File too large).*'{out.name}'"):
                write_with_arrays(source, out, **new)
    with file_sizes_below(size):
        write_with_arrays(source, out, **new)


@contextmanager
def file_sizes_below(limit: int) -> Iterator[None]:
    """For the process that writes."""
    process, none = GUARD._started().process.pid, resource.RLIM_INFINITY
    resource.prlimit(process, resource.RLIMIT_FSIZE, (limit, none))
    yield
    resource.prlimit(process, resource.RLIMIT_FSIZE, (none, none))


def test_limits_on_memory_and_time(mesh: Path, tmp_path: Path) -> None:
    many = np.random.default_rng(0).normal(size=(13, 50_000))  # which take 0.1 s to compress
    with unchanged(tmp_path), read_within(ReadLimits(seconds=1e-6)):
        with pytest.raises(ValueError, match="^writing out.vtp took more than the 1e-06 s that"):
            write_with_arrays(mesh, tmp_path / "out", cell_arrays={"f": many})
    write_with_arrays(mesh, tmp_path / "first", cell_arrays={"f": CELLS})  # VTK is loaded
    with unchanged(tmp_path), read_within(ReadLimits(memory=0.001)):
        with pytest.raises(ValueError, match="^writing out.vtp needs more than the 0.001 GB that"):
            write_with_arrays(mesh, tmp_path / "out", cell_arrays={"f": many})


KILLED = """
import os, signal, sys
from pathlib import Path
import slipstream.data.meshes as meshes
source, out, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
left = [after]
def hook(event, arguments):  # Python's own event before each renaming
    if event == "os.rename" and arguments[0] != arguments[1]:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
meshes.write_with_arrays(source, out, field_text={"a": "new"}, overwrite=True)
"""


@pytest.mark.parametrize("kind", ("vtp", "vtm"))
def test_a_process_that_is_killed(tmp_path: Path, kind: str) -> None:
    """Before each of the renamings by which files get their names: the old output is whole until
    the new one is, and the next call leaves nothing but its own files."""
    folder = tmp_path / "out"
    folder.mkdir()
    source = SOURCES[kind](tmp_path)
    for after in range(4):
        out = write_with_arrays(source, folder / "out", field_text={"a": "old"}, overwrite=True)
        names = len(listing(folder))
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, source, out, str(after)], cwd=os.getcwd(), check=False
        )
        got: Any = pv.read(out)
        texts = {b.field_data["a"][0] for b in (got if kind == "vtm" else [got])}
        if ended.returncode == 0:
            assert texts == {"new"} and len(listing(folder)) == names
            break
        assert ended.returncode == -signal.SIGKILL and texts == {"old"}
        assert len(listing(folder)) > names  # it has left something
        write_with_arrays(source, out, field_text={"a": "old"}, overwrite=True)
        assert len(listing(folder)) == names
    assert after == (1 if kind == "vtp" else 2)
