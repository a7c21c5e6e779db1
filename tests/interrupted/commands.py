"""The commands that are interrupted, on data as small as they can be, and what they must leave."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slipstream.core.records import read_records
from slipstream.runs.folder import RunFolder

from ..data.mesh_folders import ball, save, with_fields

TINY = (
    "--set", 'data.builtin.samples={"train": 6, "val": 3, "test": 3}',
    "--set", "data.builtin.points=64", "--set", "batch=2", "--set", "keep=1",
    "--set", "model.size={layers: 2, width: 8, heads: 2, slices: 3}",
    "--set", "log_every=1", "--set", "evaluate_every=20", "--set", "checkpoint_every=10",
    "--device", "cpu",
)  # fmt: skip
MESHES = 8


@dataclass(frozen=True)
class Interruptible:
    """A command that works on one folder; `given` is a folder of input that it only reads."""

    name: str
    arguments: Callable[[Path, Path], list[str]]
    """The arguments for the folder of its output and the given folder."""
    begin: Callable[[Path, Path], None] = lambda out, given: None
    """Puts the output of earlier commands into its folder."""


def _train(out: Path, given: Path) -> list[str]:
    return ["train", "poisson", "--out", str(out), *TINY,
            "--set", "steps=80", "--set", "data.workers=2"]  # fmt: skip


def _study(out: Path, given: Path) -> list[str]:
    return ["study", "poisson", "--out", str(out), *TINY, "--set", "steps=40", "--seeds", "0",
            "--variants", "baseline,mlp-only", "--parallel", "2"]  # fmt: skip


def _ingest(out: Path, given: Path) -> list[str]:
    card = str(given / "card.yaml")
    return ["data", "ingest", "mesh", str(given / "raw"), str(out), "--card", card,
            "--workers", "2"]  # fmt: skip


def _make(out: Path, given: Path) -> list[str]:
    return ["data", "make", "poisson", "--samples", "12", "--points", "20000", "--out", str(out)]


def _evaluate(out: Path, given: Path) -> list[str]:
    return ["evaluate", str(out), "--repeats", "2", "--device", "cpu"]


def _audit(out: Path, given: Path) -> list[str]:
    return ["audit", str(out)]


def _report(out: Path, given: Path) -> list[str]:
    return ["report", str(given / "run"), "--out", str(out)]


def _with_run(out: Path, given: Path) -> None:
    shutil.copytree(given / "run", out)


COMMANDS = {
    command.name: command
    for command in (
        Interruptible("train", _train),
        Interruptible("study", _study),
        Interruptible("ingest", _ingest),
        Interruptible("make", _make),
        Interruptible("evaluate", _evaluate, _with_run),
        Interruptible("audit", _audit, _with_run),
        Interruptible("report", _report),
    )
}


def write_meshes(given: Path, count: int = MESHES) -> None:
    """The raw data of `ingest`."""
    for number in range(count):
        mesh = with_fields(ball(1 + 0.1 * number))
        # Text, which VTK reads in a process of its own.
        save(mesh, given / "raw" / f"body_{number}.vtk", binary=False)
    target = {"name": "p", "unit": "Pa", "from": {"array": "p"}}
    card = {"schema": 1, "files": {"mesh": "{id}.vtk"}, "targets": [target]}
    (given / "card.yaml").write_text(yaml.safe_dump(card), "utf-8")


def contents(folder: Path) -> dict[str, Any]:
    """What must be equal: files byte by byte, records without times and without the attempts.

    Partial files that a `kill -9` left are not counted.
    """
    found: dict[str, Any] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if file.name == "records.jsonl":
            found |= {name: _history(file.parent)} if (file.parent / "config.json").exists() else {}
        elif file.name == "evaluations.jsonl":
            found[name] = [_timeless(row) for row in read_records(file)]
        elif file.name not in ("lock", "log.txt") and not file.name.endswith(".partial"):
            found[name] = _undated(file.read_bytes(), folder)
    return found


def partial_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.partial") if path.is_file()}


def _undated(content: bytes, folder: Path) -> bytes:
    """Without the name of the folder, which some files hold, their hashes of that, and the date of
    a certificate."""
    name = json.dumps(str(folder))[1:-1].encode()
    content = content.replace(name, b"." * len(name))
    return _DATE.sub(b"date", _HASH.sub(b"hash", content))


_HASH = re.compile(rb'(?<=\\"content\\": \\")[0-9a-f]{64}')
"""In the header of a safetensors file, where JSON is a text inside JSON."""


_DATE = re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([+]\d\d:\d\d)?")


_TIMES = ("time", "versions", "points_per_second", "peak_gb")


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _TIMES}


def _history(run: Path) -> list[dict[str, Any]]:
    """Losses, validations and the end; starts and checkpoints depend on the interruptions."""
    rows = [row for row in RunFolder(run).history() if row["kind"] in ("train", "validation")]
    ends = [row for row in RunFolder(run).history("stop") if row["reason"] == "finished"]
    return [_timeless(row) for row in (*rows, *ends)]
