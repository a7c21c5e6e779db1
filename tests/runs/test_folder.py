from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import IO, Any

import pytest

from slipstream.core import files
from slipstream.core.locks import is_locked, take_lock
from slipstream.core.records import append_record
from slipstream.runs.folder import RunFolder

from ..training.small import small


def test_the_config_comes_back(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path / "run"), small(data__points=0.5, schedule=20)
    assert not folder.exists
    folder.begin(config)
    assert folder.exists and folder.read_config() == config


def test_a_run_begun_before_steps_were_recorded_is_still_a_run(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path / "run"), small()
    folder.begin(config)
    found = json.loads(folder.config_file.read_text())
    del found["config"]["cuda_graph"], found["config"]["memory"]
    folder.config_file.write_text(json.dumps(found))
    assert folder.read_config() == config


def test_bad_configs_are_one_sentence(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config_file.write_text('{"schema": 2}')
    with pytest.raises(ValueError, match="schema must be 1, got 2"):
        folder.read_config()
    folder.config_file.write_text('{"schema": 1, "config": {"steps": 3}}')
    with pytest.raises(ValueError, match="config of a run: config must have the field experiment"):
        folder.read_config()
    folder.config_file.write_text('{"schema": 1, "config": {"stepz": 3}}')
    with pytest.raises(ValueError, match="config must have the field steps, got 'stepz'"):
        folder.read_config()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="must be a run or an empty folder, got thesis.tex"):
        RunFolder(tmp_path).begin(small())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_first_and_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small())
    assert folder.checkpoint_steps() == []
    for step in (0, 5, 10, 15, 100):
        folder.checkpoint_file(step).write_bytes(b"")
    folder.prune_checkpoints(2)
    assert folder.checkpoint_steps() == [0, 15, 100]
    folder.prune_checkpoints(5)
    assert folder.checkpoint_steps() == [0, 15, 100]
    folder.prune_checkpoints(1)
    assert folder.checkpoint_steps() == [0, 100]


FIELDS: dict[str, dict[str, object]] = {
    "start": {
        "device": "a CPU", "threads": 1, "processes": 1, "precision": "fp32", "parameters": 1,
        "data_hash": "", "split_hash": "",
    },
    "train": {"learning_rate": 1e-3, "kernels": "none"},
    "stop": {"reason": "finished"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("train", {"step": "4"}, "line 1: step must be a whole number, got '4'"),
        ("stop", {"step": 4, "reason": None}, "line 1: reason must be text, got None"),
        ("start", {"step": 0, "device": 3}, "line 1: device must be text, got 3"),
    ],
)
def test_a_record_that_nobody_wrote_is_named(
    tmp_path: Path, kind: str, change: dict[str, object], sentence: str
) -> None:
    append_record(tmp_path / "records.jsonl", kind, {**FIELDS[kind], **change})
    with pytest.raises(ValueError, match=sentence):
        RunFolder(tmp_path).history()


def test_history_leaves_out_what_a_later_start_undid(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.history() == []
    for kind, step, mark in (
        ("start", 0, "a"), ("train", 1, "a"), ("train", 2, "a"), ("train", 3, "a"),
        ("start", 1, "b"), ("train", 2, "b"),
        ("start", 1, "c"), ("train", 2, "c"), ("train", 3, "c"), ("stop", 3, "c"),
    ):  # fmt: skip
        own = FIELDS[kind]
        append_record(folder.records_file, kind, {**own, "step": step, "mark": mark})
    found = [(row["kind"], row["step"], row["mark"]) for row in folder.history()]
    assert found == [
        ("start", 0, "a"), ("train", 1, "a"), ("start", 1, "b"), ("start", 1, "c"),
        ("train", 2, "c"), ("train", 3, "c"), ("stop", 3, "c"),
    ]  # fmt: skip
    assert [row["mark"] for row in folder.history("train")] == ["a", "c", "c"]


def _hold(path: Path) -> None:
    with RunFolder(path).locked():
        (path / "held").write_text("")
        time.sleep(60)


def test_a_run_in_use_is_refused_until_its_process_dies(tmp_path: Path) -> None:
    process = multiprocessing.get_context("forkserver").Process(target=_hold, args=(tmp_path,))
    process.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with (
        pytest.raises(ValueError, match=f"must not be in use, got a live process.*{process.pid}"),
        RunFolder(tmp_path).locked(),
    ):
        pass
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    (tmp_path / "held").unlink()
    RunFolder(tmp_path).begin(small())
    with RunFolder(tmp_path).locked():
        assert str(os.getpid()) in (tmp_path / "lock").read_text()


def test_a_lock_that_was_removed_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that never began removed its lock between the opening and the locking of it here."""
    folder, taken = RunFolder(tmp_path / "run"), []

    def take(file: IO[Any], *, needed: bool) -> bool:
        if not taken:
            folder.lock_file.unlink()
            folder.path.rmdir()
        taken.append(take_lock(file))
        return taken[-1]

    monkeypatch.setattr("slipstream.runs.folder.take_lock", take)
    with folder.locked():
        assert taken == [True, True] and is_locked(folder.lock_file)


def test_asking_whether_a_run_is_in_use_does_not_stop_one_that_starts(tmp_path: Path) -> None:
    folder, done = RunFolder(tmp_path), threading.Event()
    folder.begin(small())

    def ask() -> None:
        while not done.is_set():
            assert folder.in_use in (True, False)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(1000):
            with folder.locked():
                pass
    finally:
        done.set()
        asking.join()


def test_only_our_own_partial_files_go(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small())
    ours = [tmp_path / ".config.json.7.partial", tmp_path / ".model.safetensors.7.partial"]
    ours.append(folder.checkpoint_folder / ".step-00000003.safetensors.7.partial")
    ours.append(folder.checkpoint_folder / ".step-00000003.safetensors.partial")  # older version
    others = [tmp_path / ".thesis.partial", tmp_path / ".notes.txt.7.partial"]
    others.append(folder.checkpoint_folder / ".download.partial")
    for path in (*ours, *others):
        path.write_bytes(b"half")
    folder.drop_partial_files()
    assert [path for path in (*ours, *others) if path.exists()] == others and folder.exists


def _killed_while_it_writes_its_config(path: Path) -> None:
    def kill(aside: Path, path: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    files.publish = kill
    RunFolder(path).begin(small())


def test_a_run_killed_before_its_config_was_written_is_begun_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    process = multiprocessing.get_context("forkserver").Process(
        target=_killed_while_it_writes_its_config, args=(folder.path,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL and not folder.exists
    (left,) = folder.path.iterdir()
    assert left.name.startswith(f".config.json.{process.pid}") and left.suffix == ".partial"
    folder.begin(small())
    folder.drop_partial_files()
    assert sorted(path.name for path in folder.path.iterdir()) == ["checkpoints", "config.json"]


def test_a_folder_without_a_config_as_older_versions_left_it_is_begun_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.checkpoint_folder.mkdir()
    (folder.checkpoint_folder / ".step-00000000.safetensors.partial").touch()
    for name in ("lock", "log.txt", ".config.json.7.partial"):
        (tmp_path / name).touch()
    folder.begin(small())
    assert folder.read_config() == small()


@pytest.mark.parametrize("name", ["checkpoints/notes.txt", "checkpoints", ".config.json.partial.x"])
def test_a_folder_that_holds_more_than_the_start_of_a_run_is_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match="must be a run or an empty folder"):
        RunFolder(tmp_path).begin(small())
    assert not RunFolder(tmp_path).exists


def test_a_config_that_cannot_be_written_leaves_a_folder_that_can_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("slipstream.runs.folder.write_text", full)
        with pytest.raises(OSError, match="No space left"):
            folder.begin(small())
    assert not folder.checkpoint_folder.exists()
    folder.begin(small())
    assert folder.exists


def test_only_files_named_as_checkpoints_are_checkpoints(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small())
    for name in ("copy", "5", "0000005", "00000005-old", "000000005", "1" + 30 * "0", "\u0665" * 8):
        (folder.checkpoint_folder / f"step-{name}.safetensors").touch()
    assert folder.checkpoint_steps() == []
    for step in (0, 5, 123456789):
        folder.checkpoint_file(step).touch()
    assert folder.checkpoint_steps() == [0, 5, 123456789]
    folder.prune_checkpoints(1)
    assert folder.checkpoint_steps() == [0, 123456789]
