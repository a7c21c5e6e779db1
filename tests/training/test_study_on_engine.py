"""Cells of a study as tasks of an executor; on a cluster that loses workers: tests/interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from slipstream.core.errand import errand_in
from slipstream.core.records import read_records
from slipstream.training import study_on_engine
from slipstream.training.study import Resources, make_cells, prepare_study, run_study
from slipstream.training.study_on_engine import CellTask, Visit

from .small import small

CPU = Resources(device="cpu")


def run_of(folder: Path) -> int | None:
    """The process that trains in a folder."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if str(folder).encode() in words and b"train" in words:
                return int(file.parent.name)
    return None


def test_a_signal_to_the_machine_is_not_one_to_the_study(tmp_path: Path) -> None:
    """The run that was stopped goes on where it stood; one to the study ends it."""
    config = small(steps=100_000, log_every=1, evaluate_every=50_000)
    made = make_cells([config], ["baseline", "mlp-only"], (0,), tmp_path)
    ready = prepare_study(made, tmp_path)
    folder, seen = ready[0].folder, list[str]()

    def wait(kind: str, count: int) -> None:
        until = time.monotonic() + 90
        while sum(row["kind"] == kind for row in folder.records()) < count:
            assert time.monotonic() < until, f"no {count} records of {kind}"
            time.sleep(0.05)

    def signals() -> None:
        try:
            disturb()
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def disturb() -> None:
        wait("train", 5)
        process = run_of(folder.path)
        assert process is not None
        os.kill(process, signal.SIGTERM)
        wait("start", 2)
        wait("train", len(folder.history("train")) + 2)
        with pytest.raises(ValueError, match="must not be in use, got a live process that hands"):
            run_study(ready, tmp_path, CPU, engine=ThreadPoolExecutor(1))

    thread = threading.Thread(target=signals)
    thread.start()
    with ThreadPoolExecutor(1) as executor:
        endings = run_study(
            ready, tmp_path, CPU, lambda cells, _: seen.extend(c.name for c in cells), executor
        )
    thread.join()
    assert [ending.status for ending in endings] == ["interrupted", "waiting"]
    assert [ending.signal for ending in endings] == [signal.SIGINT] * 2
    assert set(seen) == {ready[0].name}
    first, second = [row["step"] for row in folder.records() if row["kind"] == "stop"]
    assert 0 < first < second == folder.checkpoint_steps()[-1]
    assert [row["status"] for row in read_records(tmp_path / "records.jsonl")] == ["interrupted"]
    assert not list(tmp_path.glob(".engine-*"))


def test_a_cell_waits_for_the_try_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_on_engine, "PATIENCE", 0.2)
    (cell,) = prepare_study(make_cells([small(steps=4)], ["mlp-only"], (0,), tmp_path), tmp_path)
    task = CellTask(CPU, ())
    with errand_in(tmp_path, task, locks=True) as errand:
        with cell.folder.locked():
            held = errand(Visit(cell, errand.path))
        assert (held.status, held.reason) == ("running", "another process trains it")
        cell.folder.records_file.write_text("{}\n")
        assert errand(Visit(cell, errand.path)).status == "failed"
    assert task(Visit(cell, errand.path)).status == "waiting", "the study has ended"
