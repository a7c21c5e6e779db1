"""A task over many items: in threads, in processes that never outlive this one, on an engine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from slipstream.core.engine import AHEAD, DIED, Engine, worker_pool
from slipstream.core.errand import errand_in
from slipstream.core.signals import become_worker, starting_workers

Item = TypeVar("Item")
Result = TypeVar("Result")
Results = Generator[tuple[Item, Result], None, None]

_task: Callable[[Any], Any] | None = None


def run_tasks(
    task: Callable[[Item], Result], items: Sequence[Item], workers: int, *, threads: int = 1
) -> Results[Item, Result]:
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
    if workers == 1:
        yield from _in_pool(ThreadPoolExecutor(at_once), task, items, at_once)
    else:
        yield from _in_pool(worker_pool(at_once, _start, task), _run, items, at_once)


def run_on(
    engine: Engine,
    task: Callable[[Item], Result],
    items: Sequence[Item],
    folder: Path,
    *,
    files: Sequence[Path] = (),
    gpus: int = 0,
    locks: bool = False,
    named: Path | None = None,
) -> Results[Item, Result]:
    """Each item with its result, as they finish, in worker processes of an engine, with one thread.

    Workers read the task from `folder`, which they must see, and `files` too, and with `locks` they
    must see each other's; ValueError names a worker that does not. An error of the task stops all
    and is raised: items that workers have begun may then still end. OSError where the engine itself
    fails.
    """
    engine.check_gpus(gpus)
    waiting, running = iter(items), dict[Future[Any], Item]()
    with errand_in(folder, task, files=files, locks=locks, named=named) as errand:
        try:
            while True:
                for item in islice(waiting, AHEAD - len(running)):
                    running[engine.submit(errand, item, gpus=gpus)] = item
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except Exception as error:
            sentence = engine.sentence(error)
            if sentence is None:
                raise
            raise sentence from None
        finally:
            for future in running:
                future.cancel()


def _in_pool(
    pool: Executor, run: Callable[[Item], Result], items: Sequence[Item], at_once: int
) -> Results[Item, Result]:
    others = set(multiprocessing.active_children())
    waiting = iter(items)
    running: dict[Future[Any], Item] = {}
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
        raise OSError(DIED) from None
    except Exception:
        raise
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start(task: Callable[[Any], Any]) -> None:
    global _task
    _task = task
    torch.set_num_threads(1)
    become_worker()


def _run(item: Any) -> Any:
    assert _task is not None
    return _task(item)
