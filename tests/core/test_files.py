from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.core.files import remove_partials, write_bytes, write_text, written_aside
from slipstream.core.locks import take_lock

KILLED = """
import os, signal, sys
from pathlib import Path
from slipstream.core import files
files.publish = lambda aside, path: os.kill(os.getpid(), signal.SIGKILL)
files.write_text(Path(sys.argv[1]), "half")
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_leaves_nothing_aside(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old\n")
    write_bytes(tmp_path / "a.txt", "grün\n".encode(), durable=False)
    assert (tmp_path / "a.txt").read_text("utf-8") == "grün\n" and names(tmp_path) == ["a.txt"]


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    """It has its name only at the end; after an error the old one is there and nothing aside."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    for durable in (True, False):
        with written_aside(path, durable=durable) as aside:
            subprocess.run(["sh", "-c", 'printf new > "$0"', aside], check=True)
            remove_partials(tmp_path, "a.txt")  # which another process may call
            assert path.read_text() == "old" and aside.parent == tmp_path
        assert path.read_text() == "new" and names(tmp_path) == ["a.txt"]
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt), written_aside(path) as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    with pytest.raises(FileNotFoundError), written_aside(path) as aside:
        aside.unlink()  # as VTK does where the disk is full
    with pytest.raises(OSError, match=r"No space left on device: '.*a.txt'"), written_aside(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_what_a_killed_process_left_goes_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a.txt")])
    assert done.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(".a.txt.") and left.endswith(".partial")
    kept = [
        ".b.txt.7.partial", ".a.txt.x.partial", "a.txt.7.partial", ".a.txt.7.partial.mine",
        ".notes.partial", ".field-x.png.7.partial",
    ]  # fmt: skip
    for name in (*kept, ".field-x.svg.7.partial", ".a.txt.partial"):
        (tmp_path / name).touch()
    (tmp_path / ".a.txt.8.partial").mkdir()
    remove_partials(tmp_path, "a.txt", "field-*.svg")
    assert names(tmp_path) == sorted([*kept, ".a.txt.8.partial"])
    remove_partials(tmp_path / "absent", "a.txt")


def test_what_a_live_process_writes_stays(tmp_path: Path) -> None:
    aside = tmp_path / f".a.txt.{os.getpid()}.partial"
    with aside.open("wb") as file:
        take_lock(file)
        remove_partials(tmp_path, "a.txt")
        assert aside.exists()
    remove_partials(tmp_path, "a.txt")
    assert not aside.exists()
