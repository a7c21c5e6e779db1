"""`slipstream bench coverage`: whether bounds hold as often as they promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.bench.coverage import PROBLEMS, CoverageCase, measure_coverage
from slipstream.cli.shared import Json
from slipstream.core.checks import check_choice, check_whole
from slipstream.core.records import append_record
from slipstream.core.runtime import commit


def coverage(
    problem: Annotated[str, typer.Argument(help=f"One of {', '.join(PROBLEMS)}.")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/coverage.jsonl"
    ),
    folder: Annotated[
        Path | None, typer.Option(help="For data and runs, used again; else beside the records.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Models that predict together.")] = 5,
    steps: Annotated[int, typer.Option(help="Of each training.")] = 2000,
    calibration: Annotated[int, typer.Option(help="Samples of a calibration, 9 to 240.")] = 40,
    as_json: Json = False,
) -> None:
    """Count how often bounds of 90 % hold, over 224 fresh samples and 20 draws of a calibration.

    Makes 760 samples of a built-in problem and trains SEEDS small models: a quarter of an hour on
    two cores. `halves` has force coefficients, and needs the extra mesh.

    Example: slipstream bench coverage halves --out out/coverage.jsonl
    """
    check_choice("problem", problem, PROBLEMS)
    check_whole("seeds", seeds, 2)
    check_whole("steps", steps, 1)
    if not 9 <= calibration <= 240:
        raise ValueError(f"calibration must be 9 to 240 samples, got {calibration}")
    case = CoverageCase(
        problem=next(one for one in PROBLEMS if one == problem),
        seeds=seeds,
        steps=steps,
        calibration=calibration,
    )
    rows = []
    for fields in measure_coverage(case, folder or out.parent / f"coverage-{problem}"):
        row = append_record(out, "coverage", {**fields, "commit": commit()})
        rows.append(row)
        if not as_json:
            typer.echo(f"{row['models']} models, {row['expected']:.3f} expected:")
            for name, own in row["coverage"].items():
                fixed = row["coverage_fixed"][name]["mean"]
                typer.echo(
                    f"  {name}: {own['mean']:.3f} ({own['least']:.3f} to {own['most']:.3f}),"
                    f" {fixed:.3f} where the fresh samples stay the same"
                )
    typer.echo(json.dumps(rows, indent=2) if as_json else f"Records: {out}")
    if not all(own["within"] for row in rows for own in row["coverage"].values()):
        raise typer.Exit(1)
