"""Readers refuse what is no file before they open it: a pipe or a device would never end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipstream.core.checked_yaml import read_yaml
from slipstream.core.files import check_regular, read_json, sha256_of
from slipstream.core.records import read_records
from slipstream.data.benchmarks.raw import read_lists
from slipstream.data.cards import read_card
from slipstream.data.cards.parameters import read_parameter_rows
from slipstream.data.meshes import mesh_info, read_mesh
from slipstream.data.store import read_manifest
from slipstream.data.store.point_store import check_sample_file
from slipstream.data.store.source_files import describe_files
from slipstream.models.plugins import load_plugin
from slipstream.runs.checkpoint import read_tensors

READERS: dict[str, Callable[[Path], Any]] = {
    "a.yaml": read_yaml,
    "card.yaml": read_card,
    "manifest.json": read_manifest,
    "a.json": read_json,
    "parameters.csv": read_parameter_rows,
    "parameters.json": read_parameter_rows,
    "a.jsonl": read_records,
    "a.safetensors": lambda path: read_tensors(path, "model"),
    "a.npy": lambda path: check_sample_file(path, (3, 3)),
    "plugin.py": load_plugin,
    "hashed.bin": sha256_of,
    "source.bin": lambda path: describe_files({"source.bin": path}, True),
    "train.txt": lambda path: read_lists(path.parent, str),
    **{f"mesh{s}": read_mesh for s in (".vtu", ".vti", ".vtk", ".vtm", ".stl", ".ply")},
    "info.vtp": mesh_info,
}


@pytest.mark.parametrize("name", READERS)
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "train.txt":
        for other in ("val.txt", "test.txt"):
            (tmp_path / other).touch()
    os.mkfifo(path)
    with pytest.raises(ValueError, match=f"{name} must be a regular file, got a named pipe$"):
        READERS[name](path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=f"{name} must be a regular file, got a device$"):
        READERS[name](path)


def test_what_is_no_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may have some 100 letters only
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        with pytest.raises(ValueError, match="^socket must be a regular file, got a socket$"):
            check_regular(Path("socket"))
    with pytest.raises(ValueError, match="must be a regular file, got a folder$"):
        check_regular(tmp_path)
    check_regular(tmp_path / "absent")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    check_regular(tmp_path / "link")


def test_a_case_with_a_pipe_is_refused(tmp_path: Path) -> None:
    from ..data.mesh_files import write_case

    case = write_case(tmp_path / "case")
    os.mkfifo(case / "10" / "k")
    with pytest.raises(ValueError, match="10/k must be a regular file, got a named pipe$"):
        read_mesh(case)
