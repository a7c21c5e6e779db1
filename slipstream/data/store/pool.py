"""A task over many items, in threads or in processes that never outlive their parent."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, TypeVar

import torch

from slipstream.core.signals import become_worker, starting_workers

Result = TypeVar("Result")

_task: Callable[[str], Any] | None = None


def run_tasks(
    task: Callable[[str], Result], items: Sequence[str], workers: int, *, threads: int = 1
) -> Generator[tuple[str, Result], None, None]:
    """Each item with its result, as they finish. An error of the task stops all and is raised.

    One worker is this process, with `threads` threads; several are separate processes. These finish
    the items they have begun after an error, but are killed by a signal or when the generator is
    closed.
    """
    at_once = threads if workers == 1 else workers
    if at_once == 1 or len(items) <= 1:
        for item in items:
            yield item, task(item)
        return
    at_once = min(at_once, len(items))
    pool = ThreadPoolExecutor(at_once) if workers == 1 else _processes(task, at_once)
    run = task if workers == 1 else _run
    others = set(multiprocessing.active_children())
    waiting = iter(items)
    running: dict[Future[Any], str] = {}
    try:
        while True:
            # At most two for each worker are handed out, so that an error stops the rest soon.
            for item in islice(waiting, 2 * at_once - len(running)):
                with starting_workers():
                    running[pool.submit(run, item)] = item
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool:
        raise OSError(
            "a worker process died, perhaps for want of memory: the same call with fewer workers"
            " continues where this one stopped"
        ) from None
    except Exception:
        raise
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _processes(task: Callable[[str], Any], number: int) -> Executor:
    # Not fork: torch has threads, and a forked child may wait forever for a lock they held.
    context = multiprocessing.get_context("spawn")
    resource_tracker.ensure_running()  # not later: starting it unblocks the signals
    return ProcessPoolExecutor(number, context, initializer=_start, initargs=(task,))


def _start(task: Callable[[str], Any]) -> None:
    global _task
    _task = task
    torch.set_num_threads(1)
    become_worker()


def _run(item: str) -> Any:
    assert _task is not None
    return _task(item)
