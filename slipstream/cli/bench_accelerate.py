"""`slipstream bench accelerate`: other people's Transolvers before and after, on a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.bench import accelerate as measured
from slipstream.bench.cpu import first_cores, succeeded
from slipstream.bench.tables import latest
from slipstream.core.checks import check_whole
from slipstream.core.records import read_records


def accelerate(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/accelerate.jsonl"
    ),
    only: Annotated[str, typer.Option(help="Only cases whose name contains this.")] = "",
    points: Annotated[int, typer.Option(help="Of the cloud.")] = 1 << 15,
    layers: Annotated[int, typer.Option(help="Of the models.")] = 8,
    repeats: Annotated[int, typer.Option(help="Timed steps of each subject.")] = 5,
    cores: Annotated[int, typer.Option(help="That all compute on, a thread each.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Time a training step of flashslice, PhysicsNeMo and thuml before and after accelerate.

    A layer and a model, with 32 and 256 slices. Each subject has a process of its own, takes turns
    with the others, and is timed only where its outputs and gradients pass the gate of bench cpu.
    Exit code 1 where one of those found fails.

    Example: slipstream bench accelerate --only layer --cores 1
    """
    if out.is_dir():
        raise ValueError(f"out must be a file of records, got the folder {out}")
    counts = {"points": points, "layers": layers, "repeats": repeats, "cores": cores}
    for name, count in counts.items():
        check_whole(name, count, 1)
    cases = measured.accelerate_cases(points, layers)
    selected = [case for case in cases if only in case.name]
    if not selected:
        raise ValueError(f"only must be part of a case's name, as in {cases[0].name!r}: {only!r}")
    rows = []
    for record in measured.run_accelerate(selected, out, cores=first_cores(cores), repeats=repeats):
        rows.append(record)
        if not as_json:
            typer.echo(measured.accelerate_table([record]))
    own = latest(read_records(out, measured.COMMAND))
    out.with_suffix(".md").write_text(measured.accelerate_table(own))
    typer.echo(json.dumps(rows, indent=2) if as_json else f"Records: {out}")
    if not all(succeeded(row) for row in rows):
        raise typer.Exit(1)
