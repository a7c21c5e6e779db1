"""`slipstream study`: variants and seeds side by side. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from slipstream.cli.progress import Pace, Speed, say_progress
from slipstream.cli.run_config import Changes, make_config
from slipstream.cli.shared import On, Plugins, engine_for, load_plugins
from slipstream.cli.sweeps import compare_each, parse_sweeps, swept_text
from slipstream.cli.terminal import new_console, new_table, plain, say, text_column
from slipstream.cli.train import (
    ConfigOption,
    DeviceOption,
    SettingsOption,
    StoreOption,
)
from slipstream.evaluation.compare import Row, read_curve
from slipstream.models.variants import variant_named
from slipstream.runs.sweep import unaffected
from slipstream.training.study import (
    Ending,
    Resources,
    StudyCell,
    make_cells,
    prepare_study,
    run_study,
)

DEFAULT_VARIANTS = "baseline,no-token-attention,mlp-only,slice-once"


def study(
    experiments: Annotated[list[str], typer.Argument(help="Names in `slipstream train --list`.")],
    out: Annotated[Path, typer.Option(help="Folder of the study; runs already in it are kept.")],
    variants: Annotated[str, typer.Option(help="Names, with commas between.")] = DEFAULT_VARIANTS,
    seeds: Annotated[str, typer.Option(help="Whole numbers, with commas between.")] = "0,1",
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUES",
            help="Values of a field, with commas between, as model.size.key_ratio=1,4; again for"
            " every combination with those of another field.",
        ),
    ] = None,
    store: StoreOption = None,
    preset: Annotated[
        str, typer.Option(help="paper: experiments as they are; small: for a CPU.")
    ] = "paper",
    config: ConfigOption = None,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    plugin: Plugins = None,
    parallel: Annotated[int, typer.Option(help="Runs at a time, on one GPU or CPU.")] = 1,
    processes: Annotated[int, typer.Option(help="GPUs of each run, by torchrun.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            help="CPU threads of each process, on which digits depend. [default: cores shared by"
            " the runs; with --on of a cluster 1]"
        ),
    ] = None,
    on: On = None,
    minutes: Annotated[
        float | None, typer.Option(help="Save and stop after this time; run again to continue.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Train variants x seeds at equal steps and compare them; run again, it continues.

    Finished runs are skipped, interrupted ones resumed; one that fails is reported and the others
    continue. Exit code 1 where one failed. With --sweep, runs are trained for every value of a
    field; a variant that does not depend on the field is trained once.

    Example: slipstream study poisson --out studies/poisson --seeds 0,1,2 --parallel 2
    """
    load_plugins(plugin)
    if store is not None and len(experiments) > 1:
        raise ValueError(f"--store must be of one experiment, got {len(experiments)} of them")
    names = [name.strip() for name in variants.split(",")]
    for name in names:
        variant_named(name)
    changes = Changes(config, settings, store=store)
    configs = [make_config(name, changes, preset) for name in experiments]
    sweeps = parse_sweeps(sweep or ())
    cells = make_cells(configs, names, _whole_numbers(seeds), out, sweeps)
    resources = Resources(
        device=device, parallel=parallel, processes=processes, threads=threads, minutes=minutes
    )
    for cell in cells:
        cell.config.mesh.check_divides(processes)
    for sentence in unaffected(sweeps, names):
        say_progress(sentence)
    with engine_for(on, parallel=parallel) as engine:
        ready = prepare_study(cells, out)
        with study_bar(len(ready)) as watch:
            endings = run_study(ready, out, resources, watch, engine)
    compared = [e.cell for e in endings if e.status in ("finished", "interrupted")]
    curves = {cell.name: read_curve(cell.folder) for cell in compared}
    rows = compare_each([(cell, curves[cell.name]) for cell in compared])
    done = [ending.cell.name for ending in endings if ending.status == "finished"]
    failures = {name: failure for name in done if (failure := curves[name].failure)}
    if as_json:
        print(_json(rows, endings, failures))
    else:
        _print(rows, endings, out, failures)
    exit_unless_finished(endings)


def exit_unless_finished(endings: Sequence[Ending]) -> None:
    """Exit with 130 or 143 where a signal stopped the study, with 1 where a run failed.

    130 also where runs are unfinished for another reason, as the end of the time.
    """
    for ending in endings:
        if ending.signal is not None:
            raise typer.Exit(128 + ending.signal)
    if any(ending.status == "failed" for ending in endings):
        raise typer.Exit(1)
    if any(ending.status != "finished" for ending in endings):
        raise typer.Exit(130)


def _whole_numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--seeds must be whole numbers with commas between, got {text!r}")
    return list(dict.fromkeys(map(int, parts)))


def _json(
    rows: Sequence[tuple[Mapping[str, Any], Row]],
    endings: Sequence[Ending],
    failures: Mapping[str, str],
) -> str:
    cells = [
        {
            "cell": ending.cell.name,
            "swept": dict(ending.cell.swept),
            "status": ending.status,
            "reason": ending.reason,
        }
        for ending in endings
    ]
    shown = [{**asdict(row), "swept": swept} for swept, row in rows]
    return json.dumps({"rows": shown, "cells": cells, "failures": failures}, indent=2)


def _print(
    rows: Sequence[tuple[Mapping[str, Any], Row]],
    endings: Sequence[Ending],
    out: Path,
    failures: Mapping[str, str],
) -> None:
    tables: dict[str, list[Row]] = {}
    for swept, row in rows:
        tables.setdefault(row.experiment + swept_text(swept), []).append(row)
    for name, own in tables.items():
        title = f"{name}: best validation error (relative L1) up to step {own[0].step}"
        table = new_table(title)
        table.add_column("variant", no_wrap=True)
        for heading in ("seeds", "error", "std", "ratio to baseline"):
            table.add_column(heading, justify="right")
        for row in own:
            std = "" if row.std is None else f"{row.std:.4f}"
            ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
            table.add_row(plain(row.variant), str(len(row.seeds)), f"{row.mean:.4f}", std, ratio)
        new_console().print(table)
    for ending in endings:
        if ending.status != "finished":
            why = f": {ending.reason}" if ending.reason else ""
            say(f"{ending.cell.name}: {ending.status}{why}")
    for name, what in failures.items():
        say(f"Not comparable, {name}: {what}.")
    done = sum(ending.status == "finished" for ending in endings)
    say(f"{done} of {len(endings)} runs are finished: {out}")


@contextmanager
def study_bar(total: int) -> Iterator[Callable[[Sequence[StudyCell], int], None]]:
    """A bar that shows which runs are in progress, and how far; lines without a terminal."""
    console = new_console(stderr=True)
    if not console.is_terminal:
        yield _StudyLines(total)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        text_column("{task.fields[now]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total, now="")

        def watch(running: Sequence[StudyCell], done: int) -> None:
            now = _now(running[0]) if len(running) == 1 else ", ".join(c.name for c in running)
            progress.update(task, completed=done, now=now)

        yield watch


class _StudyLines:
    """Prints "study: 2 of 8 runs done, 40 min left; NAME: step 120 of 2,000: ..."."""

    def __init__(self, total: int) -> None:
        self._total, self._pace = total, Pace()
        self._speed: Speed | None = None

    def __call__(self, running: Sequence[StudyCell], done: int) -> None:
        self._speed = self._speed or Speed(done)  # those that were finished before took no time
        if self._pace.is_due():
            left = self._speed.left(done, self._total)
            now = "; ".join(map(_now, running))
            say_progress(f"study: {done} of {self._total} runs done{left}; {now}")


def _now(cell: StudyCell) -> str:
    """The name of a cell and the last line that its run printed, which says how far it is."""
    try:
        lines = cell.log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return f"{cell.name}: {lines[-1]}" if lines else cell.name
