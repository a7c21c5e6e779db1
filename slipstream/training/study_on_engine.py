"""The cells of a study as tasks of an engine: each starts its run on the worker that has it.

The study holds the lock of a file in its folder. Workers watch it: when it is released, because the
study was asked to stop or was killed, their runs save and end. A run ends with its worker too, and
Dask gives the cell to another one, which waits until the folder of the run is free and goes on from
the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.core.engine import Engine, TaskLost
from slipstream.core.errand import check_alone, errand_in
from slipstream.core.locks import is_locked
from slipstream.data.store import MANIFEST_NAME
from slipstream.models.plugins import plugin_files
from slipstream.runs.folder import RunFolder
from slipstream.training.study_cells import Ending, Resources, Running, StudyCell, ended_before

POLL_SECONDS = 0.5
PATIENCE = 120.0
"""Seconds for which a cell waits for an earlier try to leave its folder. A file system may keep the
locks of a machine that is gone for 90."""
GRACE = 5.0
"""Seconds after the end in which a worker says how its run ended, once that has left its folder."""


@dataclass(frozen=True)
class Visit:
    """A cell, and the file that the study has locked."""

    cell: StudyCell
    held: Path


@dataclass(frozen=True)
class CellTask:
    """Runs a cell as a process of the worker that calls it."""

    resources: Resources
    plugins: tuple[Path, ...]

    def __call__(self, visit: Visit) -> Ending:
        cell = visit.cell
        while is_locked(visit.held):
            self._wait(cell, visit.held)
            before = ended_before(cell)  # by the try of a worker that only seemed dead
            if before is not None:
                return before
            if cell.folder.in_use:
                return Ending(cell, "running", "another process trains it")
            run = Running(cell, self.resources, self.plugins)
            self._attend(run, visit.held)
            if run.asked_to_stop or not (run.was_stopped or cell.folder.in_use):
                return run.ending(None)
            # Else the signal was for the machine: the worker ends too, or the run goes on here. Or
            # another try, which had begun to start, took the folder first.
        return Ending(cell, "waiting")

    def _wait(self, cell: StudyCell, held: Path) -> None:
        """Until an earlier try has left the folder."""
        until = time.monotonic() + PATIENCE
        while cell.folder.in_use and time.monotonic() < until and is_locked(held):
            time.sleep(POLL_SECONDS)

    def _attend(self, run: Running, held: Path) -> None:
        while run.process.poll() is None:
            if not is_locked(held):
                run.stop()
            time.sleep(POLL_SECONDS)


def run_cells(
    cells: Sequence[StudyCell],
    out: Path,
    resources: Resources,
    engine: Engine,
    over: Callable[[], bool],
) -> Iterator[tuple[list[StudyCell], list[Ending]]]:
    """Twice a second the cells that run, and those that ended meanwhile; all if it is over.

    ValueError where a worker cannot work for this study, or where another process hands out its
    cells; OSError where the engine fails.
    """
    check_alone(out)
    gpus = resources.processes if resources.device.startswith("cuda") else 0
    engine.check_gpus(gpus)
    task = CellTask(replace(resources, threads=resources.threads or 1), tuple(plugin_files()))
    with ExitStack() as holding:
        read = [*task.plugins, *map(_manifest, cells[:1])]
        errand = holding.enter_context(errand_in(out, task, files=read, locks=True))
        pending: dict[Future[Ending], StudyCell] = {}
        for cell in cells:
            pending[engine.submit(errand, Visit(_absolute(cell), errand.path), gpus=gpus)] = cell
        try:
            while pending:
                done = wait(pending, POLL_SECONDS, FIRST_COMPLETED).done
                ended = [_ending(future, pending.pop(future), engine) for future in done]
                running = [cell for cell in pending.values() if cell.folder.in_use]
                yield running, ended
                if over():
                    break
            holding.close()
            yield from _last(pending)
        finally:
            for future in pending:
                future.cancel()


def _last(
    pending: dict[Future[Ending], StudyCell],
) -> Iterator[tuple[list[StudyCell], list[Ending]]]:
    """Wait for the runs to save; cells that no worker has begun are left out."""
    seen, since = set[str](), dict.fromkeys(pending, time.monotonic())
    while pending:
        done = wait(pending, POLL_SECONDS, FIRST_COMPLETED).done
        ended = []
        for future in done:
            cell = pending.pop(future)
            if future.cancelled() or future.exception() is not None:
                ended.append(Ending(cell, "waiting"))
            else:
                ended.append(replace(future.result(), cell=cell))
        for future, cell in list(pending.items()):
            if cell.folder.in_use:
                seen.add(cell.name)
                since[future] = time.monotonic()
            elif time.monotonic() - since[future] > GRACE:
                del pending[future]
                future.cancel()
                ended.append(Ending(cell, "interrupted" if cell.name in seen else "waiting"))
        yield [cell for cell in pending.values() if cell.folder.in_use], ended


def _ending(future: Future[Ending], cell: StudyCell, engine: Engine) -> Ending:
    try:
        return replace(future.result(), cell=cell)
    except ValueError:  # a worker cannot work for this study
        raise
    except Exception as error:
        sentence = engine.sentence(error)
        if sentence is None or isinstance(sentence, TaskLost):
            return Ending(cell, "failed", str(sentence or f"{type(error).__name__}: {error}"))
        raise sentence from None


def _manifest(cell: StudyCell) -> Path:
    assert cell.config.data.store is not None
    return Path(cell.config.data.store) / MANIFEST_NAME


def _absolute(cell: StudyCell) -> StudyCell:
    """Workers have other working folders."""
    return replace(cell, folder=RunFolder(cell.folder.path.absolute()))
