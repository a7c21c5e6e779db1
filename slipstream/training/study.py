"""Studies: variants x seeds x swept values x experiments at equal steps, a process for each run.

    STUDY/study.json                                   which cells there are
    STUDY/records.jsonl                                how each attempt at a cell ended
    STUDY/data/<experiment>/                           built-in data, shared by its cells
    STUDY/runs/<experiment>/<variant>/seed-<seed>/     the run of a cell; log.txt has its output
    STUDY/runs/<experiment>/<variant>/<field>=<value>/seed-<seed>/    the same in a sweep

The same call again skips finished cells, resumes interrupted ones and tries failed ones again. The
failure of one run does not affect the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from slipstream.core.engine import Where, as_engine
from slipstream.core.records import append_record
from slipstream.models.plugins import plugin_files
from slipstream.runs.config import DataConfig, RunConfig, check_same, with_store
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import add_planned, planned
from slipstream.runs.sweep import Sweep, check_sweeps, folder_name, varied
from slipstream.training.data import open_data
from slipstream.training.signals import StopRequest, stop_requests
from slipstream.training.study_cells import (
    STUDY,
    Ending,
    Resources,
    Running,
    StudyCell,
    ended_before,
)
from slipstream.training.study_on_engine import run_cells

__all__ = [
    "STUDY",
    "Ending",
    "Resources",
    "StudyCell",
    "make_cells",
    "prepare_study",
    "run_study",
]

POLL_SECONDS = 0.1
Watch = Callable[[Sequence[StudyCell], int], None]


def make_cells(
    configs: Iterable[RunConfig],
    variants: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    sweeps: Sequence[Sweep] = (),
) -> list[StudyCell]:
    """A cell for each config, variant, seed and combination of swept values.

    Cells differ in nothing else. Raises ValueError where a sweep cannot be made.
    """
    cells = []
    for config in configs:
        check_sweeps(sweeps, config, variants)
        for variant in variants:
            folder = out / "runs" / config.experiment / variant
            for one, swept in varied(config, sweeps, variant):
                place = folder / folder_name(swept) if swept else folder
                cells += [
                    StudyCell(replace(one, seed=seed), RunFolder(place / f"seed-{seed}"), swept)
                    for seed in seeds
                ]
    return cells


def prepare_study(cells: Sequence[StudyCell], out: Path) -> list[StudyCell]:
    """Open or make the data, write study.json, and return the cells with their stores.

    Raises ValueError, before anything is written, where the folder of a cell holds another config
    or its data do not fit.
    """
    for cell in cells:
        if cell.folder.exists:
            check_same(cell.folder.read_config(), cell.config, str(cell.folder.path))
        cell.folder.check_free()
    stores, checked = {}, list[tuple[str, DataConfig]]()
    for config in (cell.config for cell in cells):
        if (config.experiment, config.data) not in checked:
            data_folder = out / "data" / config.experiment
            stores[config.experiment] = open_data(config.data, data_folder).path.resolve()
            checked.append((config.experiment, config.data))
    ready = [
        replace(cell, config=with_store(cell.config, stores[cell.config.experiment]))
        for cell in cells
    ]
    for cell in ready:
        if not cell.folder.exists:
            cell.folder.begin(cell.config)
    add_planned(out, [planned(c.config, out, c.folder.path, c.swept) for c in ready])
    return ready


def run_study(
    cells: Sequence[StudyCell],
    out: Path,
    resources: Resources,
    watch: Watch = lambda running, done: None,
    engine: Where = None,
) -> list[Ending]:
    """Run the cells that are not finished, and say how each ended.

    `watch` is called every 0.1 s with the cells that run and the number of those done. A signal, or
    the end of the time, is passed on to the runs, which save, and ends the study. The runs also
    save and end when this process is killed. On an `engine`, each cell is a task of a worker, which
    starts the run; ValueError where a worker does not see the folder of the study.
    """
    end = math.inf if resources.minutes is None else time.monotonic() + 60 * resources.minutes
    endings = {cell.name: ending for cell in cells if (ending := ended_before(cell)) is not None}
    waiting = [cell for cell in cells if cell.name not in endings]
    with as_engine(engine) as on, stop_requests() as stop:
        if on is not None and on.processes is not None:
            resources = replace(resources, parallel=on.processes)

        def over() -> bool:
            return bool(stop) or time.monotonic() > end

        if on is None or on.processes is not None:
            run = _run_here(waiting, resources, stop, over)
        else:
            run = run_cells(waiting, out, resources, on, over)
        for running, ended in run:
            for ending in ended:
                if ending.status in ("interrupted", "waiting"):
                    ending = replace(ending, signal=stop.signal)
                endings[ending.cell.name] = ending
                if ending.status not in ("running", "waiting"):
                    append_record(out / "records.jsonl", "cell", _row(ending))
            watch(running, len(endings))
    waits = [
        Ending(cell, "waiting", signal=stop.signal) for cell in waiting if cell.name not in endings
    ]
    endings |= {ending.cell.name: ending for ending in waits}
    return [endings[cell.name] for cell in cells]


def _run_here(
    cells: Sequence[StudyCell], resources: Resources, stop: StopRequest, over: Callable[[], bool]
) -> Iterator[tuple[list[StudyCell], list[Ending]]]:
    """Every 0.1 s the cells that run, as processes of this one, and those that ended meanwhile."""
    waiting, running = list(cells), list[Running]()
    while running or (waiting and not over()):
        ended = []
        while waiting and len(running) < resources.parallel and not over():
            cell = waiting.pop(0)
            if cell.folder.in_use:
                ended.append(Ending(cell, "running", "another process trains it"))
            else:
                running.append(Running(cell, resources, plugin_files()))
        for one in [one for one in running if one.process.poll() is not None]:
            running.remove(one)
            ended.append(one.ending(stop.signal))
        for one in running if over() else ():
            one.stop()
        yield [one.cell for one in running], ended
        if running:
            time.sleep(POLL_SECONDS)


def _row(ending: Ending) -> dict[str, object]:
    config = ending.cell.config
    return {
        "experiment": config.experiment,
        "variant": config.model.variant,
        "seed": config.seed,
        "swept": dict(ending.cell.swept),
        "status": ending.status,
        "reason": ending.reason,
        "seconds": ending.seconds,
    }
