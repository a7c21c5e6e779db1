"""Signals at random moments of a command's life, and the same command again: equal bytes.

A command runs in a session of its own, so that its whole process group can be signalled. Half of
the moments are spread over its whole life, imports included; the other half over the time in which
it writes. Several interruptions follow one another on one folder, then the command is left alone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slipstream.core.runtime import child_environment

from .commands import Interruptible, contents, partial_files

ROOT = Path(__file__).parents[2]
FINISHED = "had finished"
MARK = "SLIPSTREAM_TEST_PROCESS"
PATIENCE = 180.0
"""Seconds within which a process must end; reached by none, unless something hangs."""


@dataclass(frozen=True)
class Moment:
    number: signal.Signals
    to_group: bool
    share: float
    """Of the time from the start, or from a write, to the end."""
    after: str | None = None
    """None for the start; else the name of the file whose write it follows, "" for any file."""


def draw_moments(draw: random.Random, count: int) -> list[Moment]:
    """Every signal to process and group equally often, at moments drawn at random."""
    kinds = [(n, g) for n in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT) for g in (True, False)]
    draw.shuffle(kinds)
    chosen = [kinds[i % len(kinds)] for i in range(count)]
    return [
        Moment(number, to_group, draw.uniform(0, 1.05), "" if index % 2 else None)
        for index, (number, to_group) in enumerate(chosen)
    ]


@dataclass(frozen=True)
class Attempt:
    """How a disturbed process ended."""

    moment: Moment
    ending: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Undisturbed:
    """The seconds of a whole life and of its part from the first write, and what is left."""

    seconds: float
    writing: float
    contents: dict[str, object]


class Running:
    """A command in a session of its own."""

    def __init__(self, command: Interruptible, out: Path, given: Path) -> None:
        self.out, self.mark = out, uuid.uuid4().hex
        self.prepared = False
        """Whether the first line of ours had run when the signal was sent."""
        self.said = tempfile.TemporaryFile()
        self.since = time.time()
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # which the process would inherit
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slipstream", *command.arguments(out, given)],
            stdout=self.said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
            env=child_environment(**{MARK: self.mark, "OMP_NUM_THREADS": "1"}),
            start_new_session=True,
        )  # fmt: skip

    def wait_for_write(self, name: str = "") -> float:
        """Wait until a file has changed or the process has ended: the seconds that took."""
        while self.process.poll() is None and not self._has_written(name or "*"):
            time.sleep(0.005)
        return time.time() - self.since

    def _has_written(self, name: str) -> bool:
        with suppress(FileNotFoundError):  # of a file that was renamed meanwhile
            return any(path.stat().st_mtime > self.since for path in self.out.rglob(name))
        return name == "*"

    def send(self, moment: Moment) -> None:
        written = moment.after is not None
        self.prepared = written or _catches(self.process.pid, signal.SIGTERM)
        with suppress(ProcessLookupError):
            send = os.killpg if moment.to_group else os.kill
            send(self.process.pid, moment.number)

    def output(self) -> str:
        self.said.seek(0)
        return self.said.read().decode(errors="replace")

    def relatives(self) -> list[int]:
        """The processes that it started and that still run."""
        return [pid for pid in _processes() if _has_mark(pid, self.mark)]


@contextmanager
def running(command: Interruptible, out: Path, given: Path) -> Iterator[Running]:
    one = Running(command, out, given)
    try:
        yield one
    finally:
        for pid in {one.process.pid, *one.relatives()} if one.process.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        one.process.wait()
        one.said.close()


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _has_mark(pid: int, mark: str) -> bool:
    with suppress(OSError):
        alive = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return alive and f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def _catches(pid: int, number: signal.Signals) -> bool:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (number - 1) & 1)
    return False


def leave_alone(command: Interruptible, out: Path, given: Path) -> Undisturbed:
    """The command, begun or gone on with, to its end."""
    with running(command, out, given) as one:
        first = one.wait_for_write()
        code = one.process.wait(PATIENCE)
        seconds = time.time() - one.since
        if code != 0:
            raise AssertionError(f"{command.name} must end with 0, got {code}: {one.output()}")
    return Undisturbed(seconds, seconds - first, contents(out))


def disturb(
    command: Interruptible, out: Path, given: Path, moment: Moment, usual: Undisturbed
) -> Attempt:
    """Start the command, send the signal at its moment, and see how it ends."""
    before = partial_files(out)
    with running(command, out, given) as one:
        pause = moment.share * usual.seconds
        if moment.after is not None:
            one.wait_for_write(moment.after)
            pause = moment.share * usual.writing
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(pause)
        one.send(moment)
        try:
            code = one.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return Attempt(moment, "never", (f"no end in {PATIENCE:.0f} s: {one.output()}",))
        left = _left_over(one)
        ending, problems = judge(code, one.output(), moment, prepared=one.prepared)
    if left:
        problems += (f"{len(left)} processes stayed behind",)
    if moment.number != signal.SIGKILL and (more := partial_files(out) - before):
        problems += (f"left {min(more)}",)
    return Attempt(moment, ending, problems)


def _left_over(one: Running) -> list[int]:
    until = time.monotonic() + 30
    while (pids := one.relatives()) and time.monotonic() < until:
        time.sleep(0.02)
    return pids


def judge(
    code: int, said: str, moment: Moment, *, prepared: bool = True
) -> tuple[str, tuple[str, ...]]:
    """How the process ended, in words, and what is wrong with that."""
    if code == 0:
        return FINISHED, ()
    if code == -moment.number and moment.number != signal.SIGKILL and not prepared:
        return "before its first line", ()
    if moment.number == signal.SIGKILL:
        return "killed", () if code == -signal.SIGKILL else (f"exit code {code}: {said}",)
    problems = []
    if code != 128 + moment.number:
        problems.append(f"exit code {code} after {moment.number.name}: {said}")
    if "Traceback" in said or "Exception ignored" in said:
        problems.append(f"a traceback: {said}")
    return f"exit {code}", tuple(problems)


def interrupt(
    command: Interruptible, folder: Path, given: Path, moments: Sequence[Moment], *, chain: int = 4
) -> list[Attempt]:
    """All moments, at most `chain` in a row on one folder, which must then end as undisturbed.

    A command that had finished before its signal is left alone, and the next one begins anew.
    """
    whole = folder / "000"  # names of equal length: some files hold them
    command.begin(whole, given)
    usual = leave_alone(command, whole, given)
    attempts: list[Attempt] = []
    waiting = list(moments)
    while waiting:
        out = folder / f"{len(attempts) + 1:03}"
        command.begin(out, given)
        row: list[Attempt] = []
        while waiting and len(row) < chain and not (row and row[-1].ending == FINISHED):
            row.append(disturb(command, out, given, waiting.pop(0), usual))
        problem = difference(usual.contents, leave_alone(command, out, given).contents)
        if problem:
            row = [Attempt(a.moment, a.ending, (*a.problems, problem)) for a in row]
        attempts += row
    return attempts


def difference(whole: dict[str, object], other: dict[str, object]) -> str:
    """Which files differ; empty where none does."""
    names = sorted(n for n in whole.keys() | other.keys() if whole.get(n) != other.get(n))
    return f"other content: {', '.join(names)}" if names else ""
