"""Ingests that are killed, fill the disk or lose a worker: run again, they end in equal bytes."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slipstream.data.store import IngestProgress, check_store, ingest, merge, unfinished

from ..samples import Made, contents

ROOT = Path(__file__).parents[3]


def test_a_merge_killed_while_it_tidies_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    source, store = Made(8, bad={"s03": "nan"}), tmp_path / "store"
    for index in (0, 1):
        ingest(source, store, shard=(index, 2))

    def killed(folder: Path) -> None:
        (folder / "shard-0-of-2.json").unlink()
        raise _Killed

    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(unfinished.shutil, "rmtree", killed)
        merge(store)
    merge(store)
    assert contents(store) == whole


def test_a_worker_that_dies_stops_the_ingest(tmp_path: Path) -> None:
    store = tmp_path / "store"
    given = {"train": ["s00", "s01", "s02", "s03"]}
    with pytest.raises(OSError, match="a worker process died, perhaps for want of memory"):
        ingest(Made(4, bad={"s03": "dies"}, given=given), store, workers=2)
    ingest(Made(4, given=given), store)
    assert check_store(store) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_disk_stops_the_ingest_and_space_lets_it_go_on(
    tmp_path: Path, whole: dict[str, bytes], threads: int
) -> None:
    """Files above 22,160 bytes are refused by the system: samples from s02 on are larger."""
    code = """
import resource, sys
from pathlib import Path
from slipstream.data.store import ingest
from tests.data.samples import Made
resource.setrlimit(resource.RLIMIT_FSIZE, (22_180, 22_180))
try:
    ingest(Made(8, bad={"s03": "nan"}), Path(sys.argv[1]), threads=int(sys.argv[2]))
except OSError as error:
    print(error)
"""
    store = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", code, str(store), str(threads)], capture_output=True, text=True,
        check=True, cwd=ROOT,
    )  # fmt: skip
    assert re.search(r"File too large: '.*/store/samples/s0\d.npy'", done.stdout)
    assert sorted(path.name for path in (store / "samples").iterdir()) == ["s00.npy", "s01.npy"]
    assert not list((store / "ingest").glob("work-*"))
    report = ingest(Made(8, bad={"s03": "nan"}), store)
    assert report.kept == ("s00", "s01") and contents(store) == whole


@pytest.mark.parametrize(
    ("limit", "file"),
    [(0, "ingest/origin.json"), (2_000, "samples/000000.npy"), (8_000, "manifest.json")],
)
def test_a_full_disk_is_one_sentence_that_names_the_file(
    tmp_path: Path, limit: int, file: str
) -> None:
    code = """
import resource, sys
from slipstream import cli
limit = int(sys.argv.pop())
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
cli.main()
"""
    store = tmp_path / "store"
    command = ("data", "make", "poisson", "--samples", 12, "--points", 100, "--out", store, limit)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == f"slipstream: cannot use '{store / file}': File too large\n"


def test_two_at_once(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The second is told so and leaves the first alone; other shards may run."""
    store, source, said = tmp_path / "store", Made(8, bad={"s03": "nan"}), list[str]()

    def again(event: IngestProgress) -> None:
        with pytest.raises(ValueError, match="must not be in use, got a live process") as caught:
            ingest(source, store)
        said.append(str(caught.value))

    ingest(source, store, progress=again)
    assert len(said) == 8 and contents(store) == whole

    def other(event: IngestProgress) -> None:
        with pytest.raises(ValueError, match="live process that writes shard 0 of 2: wait for it"):
            ingest(source, tmp_path / "shards", shard=(0, 2))
        ingest(source, tmp_path / "shards", shard=(1, 2))

    ingest(source, tmp_path / "shards", shard=(0, 2), progress=other)
    merge(tmp_path / "shards")
    assert contents(tmp_path / "shards") == whole


def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(unfinished.fcntl, "flock", refuse)
    ingest(Made(8, bad={"s03": "nan"}), tmp_path / "store")
    assert contents(tmp_path / "store") == whole


def test_a_failed_record_leaves_no_sample_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished.Unfinished, "record", fail)
    with pytest.raises(OSError, match="No space left"):
        ingest(Made(), tmp_path / "store")
    assert not (tmp_path / "store").exists()


_KILLED = """
import sys
from pathlib import Path
from slipstream.data.store import ingest
from tests.data.samples import Made
source = Made(8, bad={"s03": "nan"}, pause=0.02)
ingest(source, Path(sys.argv[1]), workers=int(sys.argv[2]), threads=int(sys.argv[3]))
"""


def _kill_after(store: Path, threads: int, seconds: float) -> None:
    """Run an ingest in its own process and kill that one, `seconds` after its first file."""
    run = subprocess.Popen([sys.executable, "-c", _KILLED, str(store), "1", str(threads)], cwd=ROOT)
    while not store.exists() and run.poll() is None:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()


def test_killed_and_run_again_at_many_moments(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Real processes, real SIGKILL, one after the other into one store; the last one is let be.

    First with one thread, then with two.
    """
    draw = random.Random(0)
    for attempt in range(2):
        store = tmp_path / f"store-{attempt}"
        for _ in range(3):
            _kill_after(store, 1 + attempt, draw.uniform(0, 0.25))
            if (store / "manifest.json").exists():
                break
        ingest(Made(8, bad={"s03": "nan"}), store)
        assert contents(store) == whole
        assert check_store(store) == []


def test_killed_with_workers(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The workers go down with their parent, and the next run goes on."""
    store = tmp_path / "store"
    run = subprocess.Popen([sys.executable, "-c", _KILLED, str(store), "2", "1"], cwd=ROOT)
    while not list(store.glob("samples/*.npy")):
        assert run.poll() is None
        time.sleep(0.001)
    workers = _children(run.pid)
    assert len(workers) >= 2
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    end = time.monotonic() + 5
    while any(_runs(pid) for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.01)
    report = ingest(Made(8, bad={"s03": "nan"}), store)
    assert report.kept
    assert contents(store) == whole


class _Killed(BaseException):
    """As after a kill, no handler tidies up: see below."""


def test_stopped_before_every_change_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    """Dies before the 1st, 2nd, 3rd, ... rename or removal, until a run is through.

    The dead remove no files, and who goes on has another process id.
    """
    from slipstream.core import files

    real_replace, real_remove, real_unlink = os.replace, unfinished.shutil.rmtree, Path.unlink
    left = 0

    def counted(real: Any) -> Any:
        def change(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Killed
            return real(*args, **named)

        return change

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if left >= 0:
            real_unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(files.os, "getpid", lambda: 1 if left > 1000 else 2)
    monkeypatch.setattr(files.os, "replace", counted(real_replace))
    monkeypatch.setattr(unfinished.shutil, "rmtree", counted(real_remove))
    monkeypatch.setattr(unfinished.Unfinished, "give_up", lambda self, work: None)
    stops = 0
    while True:
        store, left = tmp_path / str(stops), stops
        try:
            ingest(Made(8, bad={"s03": "nan"}), store)
            break
        except _Killed:
            stops += 1
        left = 10**6
        ingest(Made(8, bad={"s03": "nan"}), store)
        assert contents(store) == whole, f"stopped before change {stops}"
    assert stops == 19  # origin, two for each good sample, work, the manifest, twice all of ingest


def test_only_our_own_partial_files_are_removed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Made(2), store)
    before = contents(store)
    kept = (".manifest.json.x.partial", ".notes.json.7.partial", "manifest.json.7.partial")
    kept += (".manifest.json.7.partial.mine",)
    for again in (lambda: merge(store), lambda: ingest(Made(2), store)):
        for name in (".manifest.json.7.partial", *kept):
            (store / name).touch()
        again()
        assert contents(store) == before | dict.fromkeys(kept, b"")


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
