"""A task over many items, in threads or in processes that never outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
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
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")

_task: Callable[[str], Any] | None = None


def run_tasks(
    task: Callable[[str], Result], items: Sequence[str], workers: int, *, threads: int = 1
) -> Iterator[tuple[str, Result]]:
    """Each item with its result, as they finish. An error of the task stops all and is raised.

    One worker is this process, with `threads` threads; several are separate processes.
    """
    at_once = threads if workers == 1 else workers
    if at_once == 1 or len(items) <= 1:
        for item in items:
            yield item, task(item)
        return
    at_once = min(at_once, len(items))
    pool = ThreadPoolExecutor(at_once) if workers == 1 else _processes(task, at_once)
    run = task if workers == 1 else _run
    waiting = iter(items)
    running: dict[Future[Any], str] = {}
    try:
        while True:
            # At most two for each worker are handed out, so that an error stops the rest soon.
            for item in islice(waiting, 2 * at_once - len(running)):
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
    finally:
        pool.shutdown(cancel_futures=True)


def _processes(task: Callable[[str], Any], number: int) -> Executor:
    # Not fork: torch has threads, and a forked child may wait forever for a lock they held.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(number, context, initializer=_start, initargs=(task,))


def _start(task: Callable[[str], Any]) -> None:
    global _task
    _task = task
    torch.set_num_threads(1)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """End this worker when its parent ends: a killed parent cannot stop its workers itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _run(item: str) -> Any:
    assert _task is not None
    return _task(item)
