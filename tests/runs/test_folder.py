from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

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
    del found["config"]["cuda_graph"]
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


def test_partial_files_go(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small())
    for path in (tmp_path / ".model.safetensors.partial", folder.checkpoint_folder / ".a.partial"):
        path.write_bytes(b"half")
    folder.drop_partial_files()
    assert not list(tmp_path.rglob("*.partial")) and folder.exists
