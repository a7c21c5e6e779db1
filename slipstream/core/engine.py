"""Where tasks run: processes of this machine, Dask, or any executor of `concurrent.futures`.

    with as_engine("dask:tcp://scheduler:8786") as engine: ...      a Dask cluster that runs
    with as_engine("dask:local:4") as engine: ...                   Dask, with processes of its own
    with as_engine(executor) as engine: ...                         whatever has `submit`

Functions that take an engine take all of these, and leave one open that was open before.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from slipstream.core.checks import check_whole
from slipstream.core.runtime import available_cores
from slipstream.core.signals import become_worker, starting_workers

AHEAD = 1000
"""Tasks that an executor is given at a time: enough for any cluster, and little to call off."""


class TaskLost(OSError):
    """An engine gave one task up, because workers died at it again and again."""


class Engine:
    """An executor that is not ours to shut down."""

    processes: int | None = None
    """How many processes of this machine it is, if it is that."""

    def __init__(self, executor: Executor | None, name: str) -> None:
        self._executor, self.name = executor, name

    def submit(self, call: Callable[[Any], Any], item: Any, *, gpus: int = 0) -> Future[Any]:
        """Hand one task over. `gpus` of a worker's are its own while it runs, where it has any."""
        assert self._executor is not None
        return self._executor.submit(call, item)

    def workers(self) -> int | None:
        """How many workers there are now; None where that is not known."""
        return None

    def check_gpus(self, gpus: int) -> None:
        """ValueError where there are workers, and none of them has so many GPUs to give."""

    def sentence(self, error: BaseException) -> Exception | None:
        """What is to be raised for an error of the engine itself; None for one of a task."""
        if isinstance(error, BrokenExecutor):
            return OSError(f"a worker of {self.name} died: the same call continues ({error})")
        if isinstance(error, CancelledError):
            return OSError(f"{self.name} gave a task up: the same call continues")
        return None


class ProcessEngine(Engine):
    """Processes of this machine, started with the first task; they never outlive this one."""

    def __init__(self, processes: int) -> None:
        super().__init__(None, f"processes:{processes}")
        self.processes = processes
        self._others = set(multiprocessing.active_children())

    def submit(self, call: Callable[[Any], Any], item: Any, *, gpus: int = 0) -> Future[Any]:
        self._executor = self._executor or worker_pool(self.processes or 1, become_worker)
        with starting_workers():
            return self._executor.submit(call, item)

    def workers(self) -> int | None:
        return self.processes

    def sentence(self, error: BaseException) -> Exception | None:
        return OSError(DIED) if isinstance(error, BrokenExecutor) else super().sentence(error)

    def close(self) -> None:
        """Wait for the tasks that have begun."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def kill(self) -> None:
        if self._executor is not None:
            for worker in set(multiprocessing.active_children()) - self._others:
                worker.kill()


DIED = (
    "a worker process died, perhaps for want of memory: the same call with fewer workers continues"
    " where this one stopped"
)


def worker_pool(number: int, start: Callable[..., None], *given: Any) -> ProcessPoolExecutor:
    """Processes that call `start` first. Tasks are to be submitted within `starting_workers`."""
    # Not fork: torch has threads, and a forked child may wait forever for a lock they held.
    context = multiprocessing.get_context("spawn")
    resource_tracker.ensure_running()  # not later: starting it unblocks the signals
    return ProcessPoolExecutor(number, context, initializer=start, initargs=given)


Where = Engine | Executor | str | None
"""An engine, what can be made one, or None for this process or the processes a call starts."""


@contextmanager
def as_engine(where: Where) -> Iterator[Engine | None]:
    """The engine, opened for the context if it is a text; ValueError where that is not possible."""
    if where is None or isinstance(where, Engine):
        yield where
        return
    if not isinstance(where, str):
        yield Engine(where, f"the {type(where).__name__}")
        return
    kind, _, rest = where.partition(":")
    if kind == "processes":
        own = ProcessEngine(_count(where, rest))
        try:
            yield own
        except Exception:
            raise
        except BaseException:
            own.kill()
            raise
        finally:
            own.close()
    elif kind == "dask" and ("://" in rest or rest.partition(":")[0] == "local"):
        from slipstream.core.dask_engine import connected, started  # here: it imports Dask

        workers = None if "://" in rest else _count(where, rest.partition(":")[2])
        with connected(rest) if workers is None else started(workers) as engine:
            yield engine
    else:
        raise ValueError(
            "--on must be processes:N, dask:local:N or the address of a scheduler, as"
            f" dask:tcp://host:8786, got {where!r}"
        )


def _count(where: str, text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError(f"--on must end with a number of processes, as processes:4, got {where!r}")
    number = int(text or available_cores())
    check_whole("the number of processes of --on", number, 1)
    return number
