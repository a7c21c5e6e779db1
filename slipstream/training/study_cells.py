"""A cell of a study, the process of its run, and how that ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Literal

from slipstream.core.checks import check_whole
from slipstream.core.runtime import available_cores, child_environment, environment
from slipstream.core.signals import NUMBERS
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.runs.sweep import Swept, cell_name

STUDY = "SLIPSTREAM_STUDY"
"""The variable by which a run knows the process of its study, with which it stops."""
_STOPPED = {code for number in NUMBERS for code in (128 + number, -number)}
"""The exit codes of a run that a signal stopped."""
_THREADS = ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
Status = Literal["finished", "interrupted", "failed", "waiting", "running"]


@dataclass(frozen=True)
class StudyCell:
    """One variant with one seed on one experiment, and the folder of its run."""

    config: RunConfig
    folder: RunFolder
    swept: Swept = field(default_factory=dict)
    """The values of the fields that the study sweeps and the variant depends on."""

    @property
    def name(self) -> str:
        config = self.config
        return cell_name(config.experiment, config.model.variant, config.seed, self.swept)

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
    """Runs at a time, on one device or the cores of the machine; an engine decides it itself."""
    processes: int = 1
    """Processes of each run, started by torchrun."""
    threads: int | None = None
    """Of each process on a CPU; None to share the cores of this machine, and 1 on an engine."""
    minutes: float | None = None
    """The study stops after this time as it does on a signal; None for no limit."""

    def __post_init__(self) -> None:
        check_whole("parallel", self.parallel, 1)
        check_whole("processes", self.processes, 1)
        if self.threads is not None:
            check_whole("threads", self.threads, 1)
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be positive, got {self.minutes}")

    @property
    def threads_each(self) -> int:
        return self.threads or max(1, available_cores() // (self.parallel * self.processes))


def ended_before(cell: StudyCell) -> Ending | None:
    """How a cell ended earlier, if it did; records that cannot be read make it a failed one."""
    try:
        return Ending(cell, "finished") if cell.finished else None
    except ValueError as error:
        return Ending(cell, "failed", str(error))


class Running:
    """A run in its own process, with its output in the log.txt of its folder."""

    def __init__(self, cell: StudyCell, resources: Resources, plugins: Sequence[Path]) -> None:
        self.cell, self.started = cell, time.perf_counter()
        self.log = cell.log
        self.asked_to_stop = False
        command = [sys.executable, "-m"]
        if resources.processes > 1:
            command += ["torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={resources.processes}", "-m"]
        command += ["slipstream", "train", "--out", str(cell.folder.path)]
        command += ["--device", resources.device]
        for file in plugins:
            command += ["--plugin", str(file)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=_environment(resources),
                start_new_session=True,  # Ctrl-C reaches the study only, which passes it on
            )

    @property
    def was_stopped(self) -> bool:
        """Whether the process has ended, by a signal."""
        return self.process.returncode in _STOPPED

    def stop(self) -> None:
        """Ask the run to save and end."""
        if not self.asked_to_stop:
            self.process.terminate()
            self.asked_to_stop = True

    def ending(self, stop: Signals | None) -> Ending:
        """How the process ended; the study and its runs may all have got the signal `stop`."""
        seconds, code = round(time.perf_counter() - self.started, 1), self.process.returncode
        if code == 0 and self.cell.finished:
            return Ending(self.cell, "finished", None, seconds)
        if self.asked_to_stop or stop or self.was_stopped:
            return Ending(self.cell, "interrupted", None, seconds, stop)
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


def _environment(resources: Resources) -> dict[str, str]:
    """That of this process. The run ends with it; and Dask's workers set threads in many ways."""
    threads = str(resources.threads_each)
    names = ["OMP_NUM_THREADS"]
    names += [name for name in _THREADS if environment(name) is not None]
    return child_environment(**dict.fromkeys(names, threads), **{STUDY: str(os.getpid())})
