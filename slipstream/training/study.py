"""Studies: variants x seeds x experiments at equal steps, a process for each run.

    STUDY/study.json                                   which cells there are
    STUDY/records.jsonl                                how each attempt at a cell ended
    STUDY/data/<experiment>/                           built-in data, shared by its cells
    STUDY/runs/<experiment>/<variant>/seed-<seed>/     the run of a cell; log.txt has its output

The same call again skips finished cells, resumes interrupted ones and tries failed ones again. The
failure of one run does not affect the others.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Literal

from slipstream.core.checks import check_whole
from slipstream.core.records import append_record
from slipstream.core.runtime import available_cores, child_environment
from slipstream.core.signals import NUMBERS
from slipstream.models.plugins import plugin_files
from slipstream.runs.config import RunConfig, check_same, with_store, with_variant
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import add_planned, planned
from slipstream.training.data import open_data
from slipstream.training.signals import StopRequest, stop_requests

POLL_SECONDS = 0.1
STUDY = "SLIPSTREAM_STUDY"
"""The variable by which a run knows the process of its study, with which it stops."""
_STOPPED = {code for number in NUMBERS for code in (128 + number, -number)}
"""The exit codes of a run that a signal stopped."""
Status = Literal["finished", "interrupted", "failed", "waiting", "running"]


@dataclass(frozen=True)
class StudyCell:
    """One variant with one seed on one experiment, and the folder of its run."""

    config: RunConfig
    folder: RunFolder

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def log(self) -> Path:
        """What its run printed, in the last attempt."""
        return self.folder.path / "log.txt"

    @property
    def finished(self) -> bool:
        return any(row["reason"] == "finished" for row in self.folder.history("stop"))


@dataclass(frozen=True)
class Ending:
    """How an attempt at a cell ended."""

    cell: StudyCell
    status: Status
    reason: str | None = None
    """Why it failed: the last line of the run's output."""
    seconds: float = 0.0
    signal: int | None = None
    """The signal that ended the study before this cell was finished."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The device, processes and time that the runs of a study may use."""

    device: str = "auto"
    parallel: int = 1
    """Runs at a time, on one device or the cores of the machine."""
    processes: int = 1
    """Processes of each run, started by torchrun."""
    minutes: float | None = None
    """The study stops after this time as it does on a signal; None for no limit."""

    def __post_init__(self) -> None:
        check_whole("parallel", self.parallel, 1)
        check_whole("processes", self.processes, 1)
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be positive, got {self.minutes}")


def make_cells(
    configs: Iterable[RunConfig], variants: Sequence[str], seeds: Sequence[int], out: Path
) -> list[StudyCell]:
    """A cell for each config, variant and seed; cells differ in nothing else."""
    cells = []
    for config in configs:
        for variant in variants:
            for seed in seeds:
                one = replace(with_variant(config, variant), seed=seed)
                folder = out / "runs" / config.experiment / variant / f"seed-{seed}"
                cells.append(StudyCell(one, RunFolder(folder)))
    return cells


def prepare_study(cells: Sequence[StudyCell], out: Path) -> list[StudyCell]:
    """Open or make the data, write study.json, and return the cells with their stores.

    Raises ValueError, before anything is written, where the folder of a cell holds another config
    or its data do not fit.
    """
    for cell in cells:
        if cell.folder.exists:
            check_same(cell.folder.read_config(), cell.config, str(cell.folder.path))
        cell.folder.check_free()
    stores = {}
    for config in {cell.config.experiment: cell.config for cell in cells}.values():
        data_folder = out / "data" / config.experiment
        stores[config.experiment] = open_data(config.data, data_folder).path.resolve()
    ready = [
        replace(cell, config=with_store(cell.config, stores[cell.config.experiment]))
        for cell in cells
    ]
    for cell in ready:
        if not cell.folder.exists:
            cell.folder.begin(cell.config)
    add_planned(out, [planned(cell.config, out, cell.folder.path) for cell in ready])
    return ready


def run_study(
    cells: Sequence[StudyCell],
    out: Path,
    resources: Resources,
    watch: Callable[[Sequence[StudyCell], int], None] = lambda running, done: None,
) -> list[Ending]:
    """Run the cells that are not finished, and say how each ended.

    `watch` is called every 0.1 s with the cells that run and the number of those done. A signal, or
    the end of the time, is passed on to the runs, which save, and ends the study. The runs also
    save and end when this process is killed.
    """
    end = math.inf if resources.minutes is None else time.monotonic() + 60 * resources.minutes
    endings = {cell.name: ending for cell in cells if (ending := _before(cell)) is not None}
    waiting = [cell for cell in cells if cell.name not in endings]
    running: list[_Running] = []
    with stop_requests() as stop:
        while running or (waiting and not _over(stop, end)):
            while waiting and len(running) < resources.parallel and not _over(stop, end):
                cell = waiting.pop(0)
                if cell.folder.in_use:
                    endings[cell.name] = Ending(cell, "running", "another process trains it")
                else:
                    running.append(_Running(cell, resources))
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                ending = one.ending(stop)
                endings[ending.cell.name] = ending
                append_record(out / "records.jsonl", "cell", _row(ending))
            if _over(stop, end):
                _end(running)
            watch([one.cell for one in running], len(endings))
            if running:
                time.sleep(POLL_SECONDS)
    waits = [Ending(cell, "waiting", signal=stop.signal) for cell in waiting]
    endings |= {ending.cell.name: ending for ending in waits}
    return [endings[cell.name] for cell in cells]


def _before(cell: StudyCell) -> Ending | None:
    """How a cell ended earlier, if it did; records that cannot be read make it a failed one."""
    try:
        return Ending(cell, "finished") if cell.finished else None
    except ValueError as error:
        return Ending(cell, "failed", str(error))


class _Running:
    """A run in its own process, with its output in the log.txt of its folder."""

    def __init__(self, cell: StudyCell, resources: Resources) -> None:
        self.cell, self.started = cell, time.perf_counter()
        self.log = cell.log
        self.asked_to_stop = False
        command = [sys.executable, "-m"]
        if resources.processes > 1:
            command += ["torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={resources.processes}", "-m"]
        command += ["slipstream", "train", "--out", str(cell.folder.path)]
        command += ["--device", resources.device]
        for file in plugin_files():
            command += ["--plugin", str(file)]
        threads = max(1, available_cores() // (resources.parallel * resources.processes))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=child_environment(OMP_NUM_THREADS=str(threads), **{STUDY: str(os.getpid())}),
                start_new_session=True,  # Ctrl-C reaches the study only, which passes it on
            )

    def ending(self, stop: StopRequest) -> Ending:
        """How the process ended; the study and its runs may all have got the same signal."""
        seconds, code = round(time.perf_counter() - self.started, 1), self.process.returncode
        if code == 0 and self.cell.finished:
            return Ending(self.cell, "finished", None, seconds)
        if self.asked_to_stop or stop or code in _STOPPED:
            return Ending(self.cell, "interrupted", None, seconds, stop.signal)
        return Ending(self.cell, "failed", f"{self._reason()} (exit {code})", seconds)

    def _reason(self) -> str:
        """Our own last sentence, which torchrun follows with a report; else the signal that ended
        the run, or the last line."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        own = [line for line in lines if line.startswith("slipstream: ")]
        code = self.process.returncode
        if not own and code < 0:  # the last line is of its progress, or of before it
            return f"it was ended by {Signals(-code).name}"
        return (own or lines or ["it said nothing"])[-1]


def _over(stop: StopRequest, end: float) -> bool:
    return bool(stop) or time.monotonic() > end


def _end(running: Sequence[_Running]) -> None:
    for one in running:
        if not one.asked_to_stop:
            one.process.terminate()
            one.asked_to_stop = True


def _row(ending: Ending) -> dict[str, object]:
    config = ending.cell.config
    return {
        "experiment": config.experiment,
        "variant": config.model.variant,
        "seed": config.seed,
        "status": ending.status,
        "reason": ending.reason,
        "seconds": ending.seconds,
    }
