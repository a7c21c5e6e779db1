"""Runs jobs in separate processes, so that a crash costs a single job.

After a fault on a GPU every later call of the same process fails. A process that died, hangs or has
lost its device is therefore replaced, and another does the rest of its jobs.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import torch

Job = TypeVar("Job")
LIMIT_S = 420.0
"""Seconds that one job may take; the longest ones compile for minutes."""


@dataclass(frozen=True)
class Outcome:
    """The result of a job, or the error because of which there is none."""

    result: Any = None
    error: str | None = None
    seconds: float = 0.0
    device_lost: bool = False
    """Whether the process can do nothing more on its GPU."""


def run_tasks(
    tasks: Sequence[Sequence[Job]],
    work: Callable[[Job], object],
    *,
    workers: int,
    limit_s: float = LIMIT_S,
) -> Iterator[tuple[Job, Outcome]]:
    """Call `work` with every job and yield the outcomes in the order in which jobs end.

    A task is a list of jobs that one process does one after the other. With 0 `workers` this
    process does all. `work` must be a function that another process can import.
    """
    if workers == 0:
        for job in (job for task in tasks for job in task):
            yield job, attempt(work, job)
        return
    pending = deque(list(task) for task in tasks if task)
    busy: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while pending or busy:
            while pending and (idle or len(busy) < workers):
                worker = idle.pop() if idle else _Worker(work)
                worker.give(pending.popleft())
                busy.append(worker)
            for worker in _with_news(busy, limit_s):
                job, outcome, alive = worker.collect(limit_s)
                yield job, outcome
                if alive and worker.jobs:
                    continue
                busy.remove(worker)
                if alive:
                    idle.append(worker)
                else:
                    worker.stop()
                    pending.extendleft([worker.jobs] if worker.jobs else [])
    finally:
        for worker in (*busy, *idle):
            worker.stop()


def attempt(work: Callable[[Job], object], job: Job) -> Outcome:
    """Do a job in this process, and catch whatever it raises."""
    start = time.perf_counter()
    try:
        result, error = work(job), None
    except Exception as raised:
        result, error = None, describe_error(raised)
    lost = error is not None and device_lost()
    return Outcome(result, error, time.perf_counter() - start, lost)


def describe_error(raised: Exception) -> str:
    text = str(raised).strip() or "without a message"
    return f"{type(raised).__name__}: {text[:2000]}"


def device_lost() -> bool:
    """Whether a fault on the GPU has made it unusable for this process."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


class _Worker:
    """A process, the jobs that it still has to do, and the time when it began the first of them."""

    def __init__(self, work: Callable[..., object]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()  # the other end is then open in the process only, and closes when it dies
        self.jobs: list[Any] = []
        self.since = time.monotonic()

    def give(self, jobs: list[Any]) -> None:
        self.jobs, self.since = jobs, time.monotonic()
        try:
            self.pipe.send(jobs)
        except OSError:
            pass  # the process is dead, which `collect` will report

    def overdue(self, limit_s: float) -> bool:
        return time.monotonic() - self.since > limit_s

    def collect(self, limit_s: float) -> tuple[Any, Outcome, bool]:
        """The job just ended, its outcome, and whether the process can go on."""
        seconds = time.monotonic() - self.since
        job = self.jobs.pop(0)
        self.since = time.monotonic()
        if not self.pipe.poll():
            self.process.kill()
            return job, Outcome(error=f"no end after {limit_s:.0f} s", seconds=seconds), False
        try:
            outcome = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            text = f"its process died with exit code {self.process.exitcode}"
            return job, Outcome(error=text, seconds=seconds), False
        return job, outcome, not outcome.device_lost

    def stop(self) -> None:
        self.pipe.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(10)


def _with_news(busy: list[_Worker], limit_s: float) -> list[_Worker]:
    """Wait until workers have an outcome, have died or take too long, and return these."""
    while True:
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        news = [w for w in busy if w.pipe in ready or w.overdue(limit_s)]
        if news:
            return news


def _serve(pipe: Connection, work: Callable[[Any], object]) -> None:
    """What a worker process does: it receives lists of jobs and sends their outcomes."""
    while True:
        try:
            jobs = pipe.recv()
        except (EOFError, OSError):
            return
        for job in jobs:
            outcome = attempt(work, job)
            pipe.send(outcome)
            if outcome.device_lost:
                return
