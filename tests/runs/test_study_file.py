"""The list of a study's cells, added to by several processes at a time."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from slipstream.runs.study_file import PlannedCell, add_planned, planned_at, read_planned


def _cells(seed: int) -> list[PlannedCell]:
    return [PlannedCell("poisson", "baseline", seed, f"runs/seed-{seed}")]


def _add(study: Path, first: int) -> None:
    for seed in range(first, first + 25):
        add_planned(study, _cells(seed))


def test_cells_are_added_once_in_their_order(tmp_path: Path) -> None:
    for seed in (3, 1, 3):
        add_planned(tmp_path / "study", _cells(seed))
    assert [cell.seed for cell in read_planned(tmp_path / "study")] == [3, 1]


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    for name in (".study.json.7.partial", ".mine.json.7.partial"):
        (tmp_path / name).touch()
    add_planned(tmp_path, [])
    assert [file.name for file in tmp_path.glob(".*")] == [".mine.json.7.partial"]


def test_processes_that_add_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(tmp_path, 100 * i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(read_planned(tmp_path)) == 100


def test_a_list_of_before_there_were_sweeps_is_read_and_added_to(tmp_path: Path) -> None:
    old = {"experiment": "poisson", "variant": "untied-ln", "seed": 0, "path": "runs/a"}
    (tmp_path / "study.json").write_text(json.dumps({"schema": 1, "cells": [old]}))
    (before,) = read_planned(tmp_path)
    assert before.swept == {} and before.name == "poisson untied-ln seed 0"
    swept = {"model.size.key_ratio": 4}
    added = PlannedCell("poisson", "untied-ln", 0, "runs/b", swept)
    add_planned(tmp_path, [added])
    assert read_planned(tmp_path) == [before, added]
    assert json.loads((tmp_path / "study.json").read_text())["schema"] == 2
    assert added.name == "poisson untied-ln key_ratio=4 seed 0"
    assert planned_at(tmp_path / "runs/b") == (1, added)
    assert planned_at(tmp_path / "runs/c") is None


def test_a_newer_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"schema": 3, "cells": []}')
    with pytest.raises(ValueError, match="schema must be 1 or 2, got 3"):
        read_planned(tmp_path)
