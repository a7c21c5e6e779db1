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
from slipstream.data.store import MANIFEST_NAME, IngestSummary, Source, ingest, read_manifest
from slipstream.physics import openfoam as foam
from slipstream.physics.builtin import NAMES, builtin_config, builtin_source
from slipstream.physics.stokes_flow import Stokes
from slipstream.physics.stokes_meshes import write_meshes

_POINTS = 4096
_ON_A_GPU = 2
"""Samples at a time: while one is solved, the other is drawn or written."""


def make(
    problem: Annotated[str, typer.Argument(help=f"One of {', '.join((*NAMES, *foam.NAMES))}.")],
    out: Annotated[Path, typer.Option(help="Folder of the store; samples already in it are kept.")],
    samples: Annotated[
        int, typer.Option(help="How many samples; of taylor-green, trajectories.")
    ] = 64,
    points: Annotated[
        int | None,
        typer.Option(help="Points of each sample, 4096 by default; of taylor-green, 32768."),
    ] = None,
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
    openfoam: Annotated[
        Path | None, typer.Option(help="Folder of OpenFOAM's programs; by default those on PATH.")
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(help="Folder where cases of OpenFOAM are kept; by default OUT-cases."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a store of a built-in problem; the same command continues after an interruption.

    Example: slipstream data make potential-flow-surface --samples 64 --out stores/flow
    """
    where = str(runtime.pick_device(device))
    given = parse_settings(settings or [])
    if meshes is not None and problem != "stokes-surface":
        raise ValueError(f"--meshes must be given with stokes-surface only, got {problem}")
    part, threads = parse_shard(shard), 1 if where == "cpu" else _ON_A_GPU
    source: Source
    if problem in foam.NAMES:
        if points is not None or where != "cpu":
            raise ValueError(f"{problem} must have neither --points nor --device, got one of them")
        source = foam.openfoam_source(
            problem, samples=samples, seed=seed, settings=given, openfoam=openfoam,
            cases=cases or out.with_name(f"{out.name}-cases"),
        )  # fmt: skip
    elif cases or openfoam:
        raise ValueError(f"--cases and --openfoam must go with {', '.join(foam.NAMES)}")
    else:
        config = builtin_config(problem, given)
        source = builtin_source(
            problem, samples=samples, points=_POINTS if points is None else points, seed=seed,
            device=where, config=config,
        )  # fmt: skip
    with engine_for(on, workers=workers) as engine, ingest_bar(f"make {problem}") as show:
        summary = ingest(
            source, out, seed=seed, workers=workers, threads=threads, shard=part, progress=show,
            engine=engine,
        )  # fmt: skip
    if meshes is not None:
        assert isinstance(config, Stokes), "checked above"
        with bar("meshes") as advance:
            write_meshes(
                config, source.ids(), meshes, seed=seed, shard=part, device=where, watch=advance
            )
    notes = source.warnings if isinstance(source, foam.OpenFoamSource) else []
    _say(summary, out, part, as_json, notes)


def _say(
    summary: IngestSummary, out: Path, shard: tuple[int, int], as_json: bool, notes: list[str]
) -> None:
    warnings = manifest_warnings(read_manifest(out / MANIFEST_NAME)) if shard[1] == 1 else []
    warnings = [*notes, *warnings]
    if as_json:
        print(json.dumps({**asdict(summary), "warnings": warnings}, indent=2))
        return
    say(*report_text(summary, out, shard))
    warn(warnings)
