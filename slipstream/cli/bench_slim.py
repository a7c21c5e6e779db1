"""`slipstream bench slim` and `bench finetune`: what is lost and won by going on with a model."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from slipstream.bench import finetune as tuning
from slipstream.bench.slim import SlimCase, measure_slim
from slipstream.core.checks import check_whole
from slipstream.core.records import append_record
from slipstream.experiments import experiment

Seeds = Annotated[int, typer.Option(help="Trainings of each kind.")]
Steps = Annotated[int, typer.Option(help="Of each training.")]


def slim(
    work: Annotated[Path, typer.Option(help="Folder of data and runs; those there are used.")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/slim.jsonl"
    ),
    seeds: Seeds = 3,
    steps: Steps = 1000,
) -> None:
    """Take the attention out of trained baselines, beside training without it from scratch.

    Small models on charges: five minutes on a core.

    Example: slipstream bench slim --work out/slim
    """
    check_whole("seeds", seeds, 1)
    check_whole("steps", steps, 10)
    case = SlimCase(seeds=seeds, steps=steps)
    for row in measure_slim(experiment("poisson"), case, work):
        append_record(out, "slim", row)
        errors = ", ".join(f"{name} {error:.4f}" for name, error in row["errors"].items())
        typer.echo(f"{row['name']}: {errors}")
    typer.echo(f"Records: {out}")


def finetune(
    work: Annotated[Path, typer.Option(help="Folder of data and runs; those there are used.")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/finetune.jsonl"
    ),
    seeds: Seeds = 3,
    steps: Annotated[int, typer.Option(help="On 320 bodies.")] = 1000,
    tune: Annotated[int, typer.Option(help="On 20 bodies, each way.")] = 300,
) -> None:
    """Train on 20 bodies of one family from a model of 320 of another, and from scratch.

    Small models in potential flow: five minutes on a core.

    Example: slipstream bench finetune --work out/finetune
    """
    check_whole("seeds", seeds, 1)
    check_whole("steps", steps, 10)
    check_whole("tune", tune, 10)
    case = tuning.FinetuneCase(seeds=seeds, steps=steps, tuning=tune)
    for row in tuning.measure_finetune(experiment(tuning.PROBLEM), case, work):
        append_record(out, "finetune", row)
        errors = ", ".join(f"{name} {mean(own):.4f}" for name, own in row["errors"].items())
        typer.echo(f"{row['name']}: {errors}, without tuning {row['untuned']:.4f}")
    typer.echo(f"Records: {out}")
