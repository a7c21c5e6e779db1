"""`slipstream bench forecast`: forecasts against trainings on more samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream.bench import forecast as bench
from slipstream.bench import forecast_curves as curves
from slipstream.cli.study import exit_unless_finished, study_bar
from slipstream.core.checks import check_choice, check_whole
from slipstream.core.records import append_record
from slipstream.core.runtime import commit
from slipstream.training.study import Resources

KINDS = ((2, 0.03), (3, 0.05))
"""Orders, and the scatter of the logarithm of a training's error."""


def forecast(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/forecast.jsonl"
    ),
    folder: Annotated[
        Path, typer.Option(help="Of data and trainings; those that are there are kept.")
    ] = Path("out/bench-forecast"),
    case: Annotated[list[str] | None, typer.Option(help="flow or charge; again for both.")] = None,
    trials: Annotated[int, typer.Option(help="Of each case, at most 4.")] = 4,
    steps: Annotated[
        int | None, typer.Option(help="Of every training; 1000 leave both cases far from trained.")
    ] = None,
    parallel: Annotated[int, typer.Option(help="Trainings at a time.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    known: Annotated[
        int, typer.Option(help="Forecasts of each curve that is known, without trainings.")
    ] = 0,
) -> None:
    """Forecast from 40, 80 and 160 samples, then train on 320 and 640 and see who was right.

    30 trainings a case, some 15 minutes of one core; run again, it continues. --known 100 counts
    how many intervals hold on curves that are known instead.

    Example: slipstream bench forecast --case flow --parallel 2
    """
    check_whole("known", known, 0)
    for name in case or ():
        check_choice("case", name, bench.CASES)
    if known:
        _known(known, out)
        return
    rows = []
    for name in case or bench.CASES:
        here = folder / (name if steps is None else f"{name}-{steps}")
        made = bench.make_trials(name, trials, here, steps)
        resources = Resources(device=device, parallel=parallel)
        with study_bar(len(bench.cells_of(made))) as watch:
            endings = bench.run_trials(made, here, resources, watch)
        exit_unless_finished(endings)
        for trial in made:
            row = bench.judge(trial, out, device)
            rows.append(row)
            for check in row["checks"]:
                typer.echo(
                    f"{row['name']}, {check['samples']} samples: {check['low']:.3f} to"
                    f" {check['high']:.3f}, truth {check['truth']:.3f},"
                    f" {'inside' if check['inside'] else 'OUTSIDE'}"
                )
    checks = [check for row in rows for check in row["checks"]]
    inside = sum(check["inside"] for check in checks)
    typer.echo(f"{inside} of {len(checks)} truths are inside their 90 % interval. Records: {out}")


def _known(draws: int, out: Path) -> None:
    for name in curves.CURVES:
        for orders, scatter in KINDS:
            for row in curves.coverage(name, draws=draws, orders=orders, scatter=scatter):
                append_record(out, "forecast-known", {**row, "commit": commit()})
                typer.echo(
                    f"{name}, {orders} orders, {scatter:.0%} scatter, {row['samples']} samples:"
                    f" {row['inside']} of {draws} inside, high {row['high_over_low']:.2f} times low"
                )
