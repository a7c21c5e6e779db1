"""Samples on which VTK crashes are quarantined like any others, and the rest is ingested."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import yaml

from slipstream.core.memory import machine_memory
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.meshes import ReadLimits, read_within
from slipstream.data.store import Cloud, SourceWithin, check_store, ingest, open_store

from ...conftest import Command
from ..hostile_files import grid, polygons, polyhedron
from ..mesh_files import write_case
from ..samples import Made

CARD = {"schema": 1, "files": {"mesh": "{id}.vtu"},
        "targets": [{"name": "p", "unit": "Pa", "from": {"array": "p"}}]}  # fmt: skip


def write_folder(folder: Path) -> Path:
    """Three good samples and five bad ones; the card lies beside the folder."""
    folder.mkdir()
    for name in "afk":
        (folder / f"{name}.vtu").write_text(grid())
    (folder / "b.vtu").write_text(polyhedron(faces=400_000_000))
    (folder / "c.vtu").write_text(grid(offsets="4000000000000"))
    os.mkfifo(folder / "d.vtu")
    (folder / "e.vtu").symlink_to("/dev/zero")
    (folder / "g.vtu").write_text(grid(corners="0 1 2 3000000"))
    folder.with_suffix(".yaml").write_text(yaml.safe_dump(CARD))
    return folder


REASONS = {
    "b": "VTK crashed with signal 11 (SIGSEGV) while reading b.vtu",
    "c": "reading c.vtu needs more than the 1 GB that --read-memory allows",
    "d": "d.vtu must be a regular file, got a named pipe",
    "e": "e.vtu must be a regular file, got a device",
    "g": "the cells of g.vtu must have corners among its 4 points, got numbers from 0 to 3000000",
}


def crashed(said: str) -> str:
    """What is said of b: VTK follows lengths past the end of an array, and what it finds there is a
    matter of chance. Instead of crashing it runs out of memory or sees an error, once in hundreds.
    """
    others = (
        "reading b.vtu needs more than the 1 GB that --read-memory allows",
        r"b.vtu must be a whole file, got an error of VTK's reader: [^\n]*",
    )
    found = next(filter(None, (re.search(other, said) for other in others)), None)
    return found[0] if found else REASONS["b"]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_ingest_goes_on(tmp_path: Path, workers: int) -> None:
    """The limits apply in worker processes too."""
    raw = write_folder(tmp_path / "raw")
    card = {**CARD, "location": "cell", "targets": [{**CARD["targets"][0], "from":  # type: ignore
            {"array": "p", "location": "point"}}]}  # fmt: skip
    path = tmp_path / "cells.yaml"
    path.write_text(yaml.safe_dump(card))
    context = partial(read_within, ReadLimits(memory=1))
    source = SourceWithin(MeshSource(raw, read_card(path)), context)
    store = tmp_path / "store"
    summary = ingest(source, store, workers=workers)
    assert summary.written == ("a", "f", "k") and summary.quarantined.keys() == REASONS.keys()
    for sample, reason in REASONS.items():
        given = summary.quarantined[sample]
        assert given.endswith(crashed(given) if sample == "b" else reason)
    assert check_store(store) == [] and open_store(store).rows("a") == 1


def test_the_command_line(tmp_path: Path, command: Command) -> None:
    raw, store = write_folder(tmp_path / "raw"), tmp_path / "store"
    said = command("data", "ingest", "mesh", raw, store, "--card", raw.with_suffix(".yaml"),
                   "--read-memory", 1)  # fmt: skip
    assert said.code == 0 and f"{store}: 4 written, 0 kept, 4 quarantined." in said.out
    assert f"  b: {crashed(said.out)}\n  c: {REASONS['c']}\n" in said.out
    said = command("data", "inspect", raw, "--all", "--read-memory", 1)
    assert said.code == 0 and f"! left out: {crashed(said.out)}\n" in said.out
    pv.ImageData(dimensions=(300, 300, 300)).save(tmp_path / "wide.vti")  # 2.7 GB with its cells
    said = command("data", "inspect", tmp_path / "wide.vti", "--read-memory", 0.5)
    assert said.code == 2 and "needs more than the 0.5 GB that --read-memory allows" in said.err
    said = command("data", "inspect", tmp_path / "wide.vti", "--read-timeout", 0)
    assert said.code == 2 and "read timeout must be a number above 0, got 0.0" in said.err


def test_cases_with_a_cut_boundary(tmp_path: Path) -> None:
    for name in ("run_1", "run_2", "run_3"):
        write_case(tmp_path / "raw" / name)
    boundary = tmp_path / "raw/run_2/constant/polyMesh/boundary"
    boundary.write_text(boundary.read_text()[:150])
    owner = tmp_path / "raw/run_3/constant/polyMesh/owner"
    owner.write_text(owner.read_text().replace("(\n0", "(\n1000000000"))
    card = {**CARD, "files": {"mesh": "run_{id}/"}, "location": "cell"}
    (tmp_path / "card.yaml").write_text(yaml.safe_dump(card))
    source = MeshSource(tmp_path / "raw", read_card(tmp_path / "card.yaml"))
    limited = SourceWithin(source, partial(read_within, ReadLimits(memory=1)))
    summary = ingest(limited, tmp_path / "store")
    assert summary.written == ("1",) and set(summary.quarantined) == {"2", "3"}
    assert summary.quarantined["2"].startswith("run_2 must ")
    assert summary.quarantined["3"].startswith("reading run_3 needs more than the 1 GB")


@dataclass(frozen=True)
class Absurd(Made):
    """One sample asks for more memory than any machine has, as a wrong header does."""

    def read(self, sample: str) -> Cloud:
        if sample == "s02":
            np.empty(10 * machine_memory() + (1 << 50), np.uint8)
        return super().read(sample)  # type: ignore[return-value]


def test_a_sample_that_asks_for_absurd_memory_is_quarantined(tmp_path: Path) -> None:
    summary = ingest(Absurd(4), tmp_path / "store")
    assert len(summary.written) == 3
    assert "Unable to allocate" in summary.quarantined["s02"]


def test_a_crash_in_the_first_sample_does_not_stop_the_check_of_the_card(tmp_path: Path) -> None:
    """The arrays of the card are looked for in three samples; VTK lists those of a .stl or .vtm."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in "abc":
        content = polygons(offsets="30000000000") if name == "a" else polygons()
        (raw / f"{name}.vtp").write_text(content)
    (tmp_path / "card.yaml").write_text(yaml.safe_dump({**CARD, "files": {"mesh": "{id}.vtp"}}))
    source = MeshSource(raw, read_card(tmp_path / "card.yaml"))
    summary = ingest(source, tmp_path / "store")
    assert summary.written == ("b", "c")
    assert summary.quarantined["a"].startswith("reading a.vtp needs more than the ")
