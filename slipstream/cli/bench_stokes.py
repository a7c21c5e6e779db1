"""`slipstream bench stokes`: how good is the built-in Stokes flow?"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.bench.stokes import PANELS, RANDOM, ellipsoid_rows, random_rows, stokes_tables
from slipstream.cli.shared import bar
from slipstream.core.records import append_record, read_records
from slipstream.core.runtime import commit


def stokes(
    out: Annotated[Path, typer.Option(help="File of records; those that it has are kept.")] = Path(
        "out/stokes.jsonl"
    ),
) -> None:
    """Errors of the built-in Stokes flow: pressure, wall shear and drag on spheres and ellipsoids
    whose solution is known, and on random bodies against a finer mesh. Five minutes on a core; the
    same command continues after an interruption.

    Example: slipstream bench stokes --out out/stokes.jsonl
    """
    common = {"commit": commit(), "command": "slipstream bench stokes"}
    rows: list[dict[str, Any]] = read_records(out, "stokes") if out.exists() else []
    known = {(row["name"], row["panels"]) for row in rows}
    total = 9 * len(PANELS) + 5 * RANDOM
    with bar("stokes") as advance:
        for row in chain(ellipsoid_rows(known), random_rows(known)):
            rows.append(append_record(out, "stokes", {**row, **common}))
            advance(len(rows), total)
    typer.echo(stokes_tables(rows))
    typer.echo(f"Records: {out}", err=True)
