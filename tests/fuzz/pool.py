"""Work in a process that may crash, hang or take all memory: it is ended, and a new one begins."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from .processes import forget_peak, kill_tree, memory, status

SECONDS = 20.0
"""The most that one piece of work may take."""
BYTES = 2 << 30
"""The most memory that it may take, beyond what the process held before."""
_LOOK_EVERY = 0.05
_PARENT_DEATH_SIGNAL = 1


@dataclass(frozen=True)
class Answer:
    """How a piece of work ended: `done` with a value, or `crash`, `hang` or `memory`."""

    kind: str
    value: Any = None
    detail: str = ""
    peak: int = 0
    """The most memory that the process and its children held, beyond what they held before."""


class Guarded:
    """A forked process that does `work` for one request at a time."""

    def __init__(self, work: Callable[[Any], Any], log: Path) -> None:
        self._work, self._log = work, log
        self._pid = 0

    def ask(self, request: Any) -> Answer:
        if not self._pid:
            self._start()
        before = memory(self._pid, "VmRSS")
        forget_peak(self._pid)
        self._connection.send(request)
        started = time.monotonic()
        while not self._connection.poll(_LOOK_EVERY):
            if memory(self._pid, "VmRSS") - before > BYTES:
                return self._end("memory", "it was ended")
            if time.monotonic() - started > SECONDS:
                return self._end("hang", self._stack())
        peak = max(0, memory(self._pid, "VmHWM") - before)
        try:
            answer = self._connection.recv()
        except EOFError:
            return self._end("crash", "")
        if peak > BYTES:
            return self._end("memory", f"{peak / 2**30:.1f} GB")
        return Answer("done", answer, peak=peak)

    def close(self) -> None:
        if self._pid:
            self._end("closed", "")

    def _start(self) -> None:
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                self._connection.close()
                _serve(theirs, self._work, self._log)
            finally:
                os._exit(1)
        theirs.close()

    def _end(self, kind: str, detail: str) -> Answer:
        kill_tree(self._pid)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if kind == "crash":
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            detail = f"{name} {self._stack()}"
        self._pid = 0
        self._connection.close()
        return Answer(kind, detail=detail)

    def _stack(self) -> str:
        """The innermost function of the package in the stack that faulthandler writes."""
        if self._pid and not self._log.read_bytes().strip():
            os.kill(self._pid, signal.SIGUSR1)
            time.sleep(0.2)
        lines = self._log.read_text("utf-8", "replace").splitlines()
        ours = [line for line in lines if "/slipstream/" in line and line.startswith("  File")]
        return ours[0].rpartition("/slipstream/")[2] if ours else ""


def _serve(connection: Connection, work: Callable[[Any], Any], log: Path) -> None:
    """In the forked process, until it is ended."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    output = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, 2)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (status(os.getpid(), "VmSize") + BYTES, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        request = connection.recv()
        os.ftruncate(output, 0)
        os.lseek(output, 0, os.SEEK_SET)
        connection.send(work(request))
