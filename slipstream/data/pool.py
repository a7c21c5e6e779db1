"""A task over many items, by processes that never outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")

_task: Callable[[str], Any] | None = None


def run_tasks(
    task: Callable[[str], Result], items: Sequence[str], workers: int
) -> Iterator[tuple[str, Result]]:
    """Each item with its result, as they come. An error of the task ends all and is raised."""
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield item, task(item)
        return
    # Not fork: torch has threads, and a forked child may wait for their locks for ever.
    pool = ProcessPoolExecutor(
        min(workers, len(items)),
        multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(task,),
    )
    waiting = iter(items)
    running: dict[Future[Any], str] = {}
    try:
        while True:
            # Few are handed out ahead, so that an error stops the rest at once.
            for item in islice(waiting, 2 * workers - len(running)):
                running[pool.submit(_run, item)] = item
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool:
        raise OSError(
            "a worker process died, perhaps for want of memory: the same call with fewer workers"
            " goes on where this one stopped"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(task: Callable[[str], Any]) -> None:
    global _task
    _task = task
    torch.set_num_threads(1)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """A killed parent cannot stop its workers, so they watch it: nothing writes unattended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _run(item: str) -> Any:
    assert _task is not None
    return _task(item)
