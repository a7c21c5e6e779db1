"""A Dask cluster of processes of this machine, whose workers and scheduler are killed.

Workers have no nanny, as machines of a cluster have none: one that is killed is gone, and another
one comes.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream.core.runtime import child_environment

from .moments import PATIENCE, ROOT


class Cluster:
    """A scheduler on a port that stays, and workers in a folder of their own."""

    def __init__(self, folder: Path, workers: int, gpu_workers: int = 0) -> None:
        with socket.socket() as link:
            link.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{link.getsockname()[1]}"
        self.folder = folder
        folder.mkdir(parents=True)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()
        for _ in range(workers):
            self.add_worker()
        for _ in range(gpu_workers):
            self.add_worker("--resources", "GPU=1")

    @property
    def on(self) -> tuple[str, str]:
        return "--on", f"dask:{self.address}"

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        port = self.address.rpartition(":")[2]
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        return self.scheduler

    def add_worker(self, *more: str) -> None:
        self.processes.append(
            self._start("worker", self.address, "--no-nanny", "--nthreads", "1",
                        "--memory-limit", "0", "--local-directory", str(self.folder), *more)
        )  # fmt: skip

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "100"}
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments, "--no-dashboard"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                env=child_environment(PYTHONPATH=str(ROOT), **settings),
            )  # fmt: skip

    def kill_worker(self, number: int, *, again: bool = True) -> None:
        """`kill -9` to one of the workers; another one comes."""
        self._kill(self.processes.pop(number))
        if again:
            self.add_worker()

    def kill_scheduler(self) -> None:
        self._kill(self.scheduler)

    def restart_scheduler(self) -> None:
        """`kill -9` to the scheduler, with which the workers end; all come back."""
        self.kill_scheduler()
        for worker in self.processes:
            worker.wait(PATIENCE)
        count, self.processes = len(self.processes), []
        self.start_scheduler()
        for _ in range(count):
            self.add_worker()

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in (*self.processes, self.scheduler):
            self._kill(process)


@contextmanager
def cluster(folder: Path, workers: int = 3, gpu_workers: int = 0) -> Iterator[Cluster]:
    one = Cluster(folder, workers, gpu_workers)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def killing(
    one: Cluster, draw: random.Random, pause: float, written: Callable[[], int]
) -> Iterator[list[float]]:
    """Kill a worker again and again, a random pause of at most so many seconds after more has been
    written than at the last kill; gives the seconds of the kills."""
    over, kills, since = threading.Event(), list[float](), time.monotonic()

    def kill() -> None:
        before = 0
        while not over.wait(0.05):
            if written() <= before or over.wait(draw.uniform(0, pause)):
                continue
            one.kill_worker(draw.randrange(len(one.processes)))
            before = written()
            kills.append(round(time.monotonic() - since, 1))

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield kills
    finally:
        over.set()
        thread.join()


def start(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """`slipstream` with some arguments, in a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "slipstream", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
        cwd=folder, env=child_environment(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1"),
    )  # fmt: skip


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was printed."""
    said, _ = process.communicate(timeout=10 * PATIENCE)
    return process.returncode, said


def wait_for(folder: Path, pattern: str, count: int = 1) -> None:
    """Until there are so many files."""
    until = time.monotonic() + PATIENCE
    while len(list(folder.glob(pattern))) < count:
        assert time.monotonic() < until, f"no {count} files {pattern} in {folder}"
        time.sleep(0.02)


def bytes_of(folder: Path, pattern: str) -> int:
    """How much has been written into files."""
    total = 0
    for file in folder.glob(pattern):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def left_behind(mark: Path) -> list[int]:
    """Processes whose command line names a folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(mark).encode() in file.read_bytes() and int(file.parent.name) != os.getpid():
                found.append(int(file.parent.name))
    return found
