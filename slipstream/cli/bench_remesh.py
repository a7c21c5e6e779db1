"""`slipstream bench remesh`: does --remesh say how far a prediction moves on another mesh?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.bench.remesh import measure
from slipstream.cli.shared import bar
from slipstream.core.checks import check_whole
from slipstream.runs.ensemble import as_ensemble


def remesh(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Trained on front halves of bodies; a mean if many."),
    ],
    folder: Annotated[Path, typer.Option(help="Where meshes are written, and kept.")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/remesh.jsonl"
    ),
    bodies: Annotated[int, typer.Option(help="How many bodies.")] = 40,
    first: Annotated[
        int, typer.Option(help="Number of the first: none that the models have learned from.")
    ] = 296,
    seed: Annotated[int, typer.Option(help="Of the bodies.")] = 0,
) -> None:
    """Compare what --remesh states with what other meshes of the same bodies do.

    The bodies are those of slipstream.bench.half_bodies, meshed with 320, 720, 1,280 and 2,880
    panels.

    Example: slipstream bench remesh runs/halves --folder out/meshes
    """
    check_whole("--bodies", bodies, 1)
    check_whole("--first", first, 0)
    numbers = range(first, first + bodies)
    rows: list[dict[str, Any]] = []
    with bar("remesh, meshes") as advance:
        for row in measure(as_ensemble(runs), numbers, seed, folder, out):
            rows.append(row)
            advance(min(len(rows), 2 * bodies), 2 * bodies)
    shown = [row for row in rows if row["kind"] == "remesh-summary"]
    typer.echo(json.dumps(shown, indent=2))
    typer.echo(f"Records: {out}", err=True)
