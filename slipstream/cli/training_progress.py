"""What `slipstream train` shows of a run: a bar on a terminal, whole lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TimeRemainingColumn,
)

from slipstream.cli.progress import Clock, Pace, ProgressLines, Speed, duration, say_progress
from slipstream.cli.terminal import new_console, plain, text_column
from slipstream.core.runtime import device_name
from slipstream.data.store import IngestProgress
from slipstream.training.probe import fp32_seconds, step_seconds
from slipstream.training.trainer import Trainer

REDRAWS = 0.2
"""Least seconds between changes of the bar."""


class TrainingProgress:
    """Notes, warnings and the expected time at the start of a run, then its progress.

    Its methods are called on rank 0 alone.
    """

    def __init__(self, name: str, notes: Sequence[str], put: Callable[[str], None]) -> None:
        self._name, self._notes, self._put = name, notes, put
        self._trainer: Trainer | None = None

    def making(self, event: IngestProgress) -> None:
        """Called with the progress of making the data."""

    def ready(self, trainer: Trainer) -> None:
        """Called with the trainer before it begins."""
        self._trainer = trainer
        trainer.on_step = self.step

    def record(self, kind: str, row: Mapping[str, Any]) -> None:
        """Called with every record of the training."""
        if kind != "start":
            return
        for note in self._notes:
            self._put(note)
        for sentence in row.get("initial", ()):
            self._put(sentence)
        for warning in row.get("warnings", ()):
            self._put(f"warning: {warning}")
        if self._trainer is not None:
            for sentence in expected_time(self._trainer):
                self._put(sentence)

    def step(self, step: int) -> None:
        """Called after every step."""


class TrainingLines(TrainingProgress):
    """Prints lines as "step 120 of 5,000: loss 0.1234, 0.12 s a step, 10 min left"."""

    def __init__(
        self,
        name: str,
        notes: Sequence[str] = (),
        put: Callable[[str], None] = say_progress,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(name, notes, put)
        self._clock, self._pace, self._speed = clock, Pace(clock), Speed(0, clock)
        self._making = ProgressLines("making data", clock, put)
        self._loss: float | None = None
        self._validation = ""

    def making(self, event: IngestProgress) -> None:
        self._making(event.done, event.total)

    def record(self, kind: str, row: Mapping[str, Any]) -> None:
        super().record(kind, row)
        if kind == "start":
            self._pace, self._speed = Pace(self._clock), Speed(row["step"], self._clock)
        elif kind == "train":
            self._loss = row["loss"]
        elif kind == "validation":
            self._validation = f", validation error {_number(row['error'])}"

    def step(self, step: int) -> None:
        assert self._trainer is not None
        total = self._trainer.config.steps
        ends = step == total
        if ends:
            self._pace.count()
        elif not self._pace.is_due(news=bool(self._validation)):
            return
        loss = self._trainer.mean_loss()
        loss = self._loss if loss is None else loss
        each = self._speed.seconds_each(step)
        speed = f", {duration(each)} a step" if each is not None else ""
        self._put(
            f"step {step:,} of {total:,}: loss {_number(loss)}{self._validation}{speed}"
            f"{self._speed.left(step, total)}"
        )
        self._validation = ""


class TrainingBars(TrainingProgress):
    """One bar while built-in data are made, and one for the training."""

    def __init__(self, progress: Progress, name: str, notes: Sequence[str] = ()) -> None:
        super().__init__(name, notes, self._print)
        self._progress, self._speed, self._drawn = progress, Speed(0), 0.0
        self._making: TaskID | None = None
        self._training: TaskID | None = None
        self._state: dict[str, str] = {}

    def _print(self, line: str) -> None:
        self._progress.console.print(plain(line), soft_wrap=True)

    def making(self, event: IngestProgress) -> None:
        if self._making is None:
            self._making = self._progress.add_task("making data", total=event.total, state="")
        self._progress.update(self._making, completed=event.done)
        if event.done == event.total:
            self._progress.remove_task(self._making)

    def record(self, kind: str, row: Mapping[str, Any]) -> None:
        super().record(kind, row)
        if kind == "start":
            self._speed = Speed(row["step"])
        self._state.update(_shown(kind, row))
        self._draw(row["step"])

    def step(self, step: int) -> None:
        if time.monotonic() - self._drawn >= REDRAWS:
            self._draw(step)

    def _draw(self, step: int) -> None:
        self._drawn = time.monotonic()
        if self._training is None:
            total = self._trainer.config.steps if self._trainer else None
            self._training = self._progress.add_task(self._name, total=total, state="")
        each = self._speed.seconds_each(step)
        if each is not None:
            self._state["seconds"] = f"{duration(each)}/step"
        state = "  ".join(text for text in self._state.values() if text)
        self._progress.update(self._training, completed=step, state=state)


@contextmanager
def training_progress(name: str, notes: Sequence[str] = ()) -> Iterator[TrainingProgress]:
    """Bars with loss, validation error, speed, memory and time left; lines without a terminal.

    The notes are shown when the training begins.
    """
    console = new_console(stderr=True)
    if not console.is_terminal:
        yield TrainingLines(name, notes)
        return
    columns = (
        text_column("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        text_column("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield TrainingBars(progress, name, notes)


def expected_time(trainer: Trainer) -> list[str]:
    """How long a step and all steps will take, and whether fp32 is faster; nothing on a GPU."""
    config, device, store = trainer.config, trainer.world.device, trainer.store
    if device.type != "cpu":
        return []
    points = trainer.state.loader.dataset.mean_points * config.batch
    seconds = step_seconds(config, store.schema, points)
    left = config.steps - trainer.state.step
    sentences = [
        f"A step takes about {duration(seconds)} on this {device_name(device)}, and the"
        f" {left:,} steps that are left about {duration(seconds * left)}, without validations"
        " (estimated from a few points)."
    ]
    plain_seconds = fp32_seconds(config, store.schema, points)
    if plain_seconds is not None and 2 * plain_seconds < seconds:
        sentences.append(
            f"This CPU is slow in bf16: a new run with --set precision=fp32 takes about"
            f" {duration(plain_seconds)} a step."
        )
    return sentences


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4f}"


def _shown(kind: str, row: Mapping[str, Any]) -> dict[str, str]:
    if kind == "validation" and row["error"] is not None:
        return {"validation": f"val {row['error']:.4f}"}
    if kind != "train":
        return {}
    loss, peak = row["loss"], row["peak_gb"]
    return {
        "loss": f"loss {loss:.4f}" if loss is not None else "loss -",
        "speed": f"{row['points_per_second'] / 1e3:,.0f}k points/s",
        "memory": f"{peak:.1f} GB" if peak is not None else "",
        "skipped": f"{row['skipped']} skipped" if row["skipped"] else "",
    }
