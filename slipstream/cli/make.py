"""`slipstream data make`: a store of built-in physics. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import (
    Json,
    On,
    Workers,
    bar,
    engine_for,
    ingest_bar,
    parse_settings,
    parse_shard,
    report_text,
    warn,
)
from slipstream.cli.terminal import say
from slipstream.core import runtime
from slipstream.data.benchmarks import manifest_warnings
from slipstream.data.store import MANIFEST_NAME, IngestSummary, ingest, read_manifest
from slipstream.physics.builtin import NAMES, builtin_config, builtin_source
from slipstream.physics.stokes_flow import Stokes
from slipstream.physics.stokes_meshes import write_meshes

_ON_A_GPU = 2
"""Samples at a time: while one is solved, the other is drawn or written."""


def make(
    problem: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the store; samples already in it are kept.")],
    samples: Annotated[
        int, typer.Option(help="How many samples; of taylor-green, trajectories.")
    ] = 64,
    points: Annotated[
        int, typer.Option(help="Points of each sample; of taylor-green, 32768.")
    ] = 4096,
    seed: Annotated[int, typer.Option(help="Seed of samples, splits and the order of rows.")] = 0,
    workers: Workers = 1,
    on: On = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value, as inflow=varying; again for more."),
    ] = None,
    shard: Annotated[
        str, typer.Option(help="i/n: every n-th sample from i, for many machines; then merge.")
    ] = "0/1",
    meshes: Annotated[
        Path | None,
        typer.Option(help="Of stokes-surface: folder for the bodies as .vtp with a card, too."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a store of a built-in problem; the same command continues after an interruption.

    Example: slipstream data make potential-flow-surface --samples 64 --out stores/flow
    """
    where = str(runtime.pick_device(device))
    config = builtin_config(problem, parse_settings(settings or []))
    source = builtin_source(
        problem, samples=samples, points=points, seed=seed, device=where, config=config
    )
    if meshes is not None and problem != "stokes-surface":
        raise ValueError(f"--meshes must be given with stokes-surface only, got {problem}")
    part, threads = parse_shard(shard), 1 if where == "cpu" else _ON_A_GPU
    with engine_for(on, workers=workers) as engine, ingest_bar(f"make {problem}") as show:
        summary = ingest(
            source,
            out,
            seed=seed,
            workers=workers,
            threads=threads,
            shard=part,
            progress=show,
            engine=engine,
        )
    if meshes is not None:
        assert isinstance(config, Stokes), "checked above"
        with bar("meshes") as advance:
            write_meshes(
                config, source.ids(), meshes, seed=seed, shard=part, device=where, watch=advance
            )
    _say(summary, out, part, as_json)


def _say(summary: IngestSummary, out: Path, shard: tuple[int, int], as_json: bool) -> None:
    warnings = manifest_warnings(read_manifest(out / MANIFEST_NAME)) if shard[1] == 1 else []
    if as_json:
        print(json.dumps({**asdict(summary), "warnings": warnings}, indent=2))
        return
    say(*report_text(summary, out, shard))
    warn(warnings)
