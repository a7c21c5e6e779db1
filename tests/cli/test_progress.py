"""Progress without a terminal: which lines, at which moments of a clock that the tests set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.cli.progress import Pace, ProgressLines, duration
from slipstream.cli.training_progress import TrainingLines
from slipstream.runs.folder import RunFolder

from ..training.small import trainer as small_trainer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "0.012 s"), (1.0, "1 s"), (9.94, "9.9 s"), (9.96, "10 s"), (89, "89 s"),
        (91, "2 min"), (3600, "60 min"), (5400, "1.5 h"), (36_000, "10 h"), (12 * 86400, "12 days"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_first_line_is_soon_and_then_there_is_one_every_30_s() -> None:
    clock = Clock()
    pace, due = Pace(clock), []
    for second in range(1, 100):
        clock.now = 100.0 + second
        if pace.is_due():
            due.append(second)
    assert due == [5, 35, 65, 95]
    clock.now = 199.5
    assert not pace.is_due(news=True), "the last line was less than 5 s ago"


def test_news_make_a_line_due_after_5_s() -> None:
    clock = Clock()
    pace, due = Pace(clock), []
    for second in range(1, 40):
        clock.now = 100.0 + second
        if pace.is_due(news=second >= 12):
            due.append(second)
    assert due == [5, 12, 17, 22, 27, 32, 37]


def test_lines_of_a_bar_have_the_time_left() -> None:
    clock, lines = Clock(), list[str]()
    advance = ProgressLines("ingest [b]", clock, lines.append)
    advance(2, 12)  # two were there already
    for done in range(3, 13):
        clock.now += 4
        advance(done, 12)
    assert lines == ["ingest [b]: 4 of 12, 32 s left", "ingest [b]: 12 of 12"]


def test_quick_work_prints_nothing() -> None:
    clock, lines = Clock(), list[str]()
    advance = ProgressLines("check", clock, lines.append)
    for done in range(5):
        clock.now += 0.9
        advance(done, 4)
    assert lines == []


def test_lines_of_a_training_are_complete(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, steps=40, evaluate_every=10, log_every=4)
    clock, lines = Clock(), list[str]()
    progress = TrainingLines("run", ["a note"], lines.append, clock)
    progress.ready(trainer)
    follow = trainer.on_step

    def on_step(step: int) -> None:
        clock.now += 2
        follow(step)

    trainer.on_step, trainer.listeners = on_step, (progress.record,)
    trainer.run()
    assert lines[0] == "a note" and lines[1].startswith("A step takes about ")
    assert ", and the 40 steps that are left about " in lines[1]
    records = trainer.folder.history()
    losses = {row["step"]: row["loss"] for row in records if row["kind"] == "train"}
    errors = {row["step"]: row["error"] for row in records if row["kind"] == "validation"}
    speeds = [line.split(", 2 s a step")[1] for line in lines[2:]]
    assert speeds == [", 74 s left", ", 60 s left", ", 40 s left", ", 20 s left", ""]
    at = [int(line.split()[1]) for line in lines[2:]]
    assert at == [3, 10, 20, 30, 40]
    for step, line in zip(at[1:], lines[3:], strict=True):
        assert f", validation error {errors[step]:.4f}, 2 s" in line
    assert "validation" not in lines[2], "there was none yet"
    assert lines[-1].startswith(f"step 40 of 40: loss {losses[40]:.4f}, ")
    assert lines[4].startswith(f"step 20 of 40: loss {losses[20]:.4f}, ")


def test_a_log_file_has_the_progress_and_stdout_nothing_but_json(tmp_path: Path) -> None:
    given = [
        "train", "poisson", "--out", str(tmp_path / "run"), "--device", "cpu", "--json",
        "--set", "steps=6", "--set", "evaluate_every=3", "--set", "batch=2",
        "--set", 'data.builtin.samples={"train": 4, "val": 2}', "--set", "data.builtin.points=16",
        "--set", "model.size={layers: 1, width: 8, heads: 2, slices: 3}",
    ]  # fmt: skip
    with (tmp_path / "out").open("w") as out, (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "slipstream", *given]
        subprocess.run(command, stdout=out, stderr=log, check=True)
    assert json.loads((tmp_path / "out").read_text())["reason"] == "finished"
    first, *_, last = (tmp_path / "log").read_text().splitlines()
    assert (
        first.startswith("A step takes about ")
        and ", and the 6 steps that are left about " in first
    )
    row = RunFolder(tmp_path / "run").history("train")[-1]
    error = RunFolder(tmp_path / "run").history("validation")[-1]["error"]
    start = f"step 6 of 6: loss {row['loss']:.4f}, validation error {error:.4f}, "
    assert last.startswith(start) and last.endswith(" s a step"), last
    assert "\x1b" not in (tmp_path / "log").read_text()
