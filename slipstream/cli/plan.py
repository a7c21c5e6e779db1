"""`slipstream plan`: will a training fit, and how long does a step take. Bad input raises
ValueError."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.bench_streaming import parse_count
from slipstream.cli.plan_text import (
    FITTING,
    as_json_value,
    is_faster,
    notes,
    options_table,
    parts_table,
    sentences,
    title,
)
from slipstream.cli.run_config import Changes, make_config
from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import new_console, say
from slipstream.cli.train import ConfigOption, SettingsOption
from slipstream.core.checks import check_choice
from slipstream.data.batches import count_points
from slipstream.data.store import Store, open_store
from slipstream.planning import (
    MEMORY,
    Device,
    Option,
    Spread,
    Workload,
    device_named,
    largest_options,
    options,
    workload_of,
)
from slipstream.runs.config import RunConfig
from slipstream.training.data import problem_schema

ASSUMED = (8, 4)
"""Inputs and outputs of a point where nothing says them: those of the records."""


def plan(
    points: Annotated[
        str | None, typer.Option(help="Points of a draw, as 266000, 64k or 8M.")
    ] = None,
    experiment: Annotated[str, typer.Option(help="One of `slipstream train --list`.")] = "own",
    config: ConfigOption = None,
    settings: SettingsOption = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper or small; by default small for own on a CPU, else paper."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Point store: its samples say points and fields.")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="One of `slipstream variants`.")] = None,
    layers: Annotated[int | None, typer.Option(help="model.size.layers.")] = None,
    width: Annotated[int | None, typer.Option(help="model.size.width.")] = None,
    heads: Annotated[int | None, typer.Option(help="model.size.heads.")] = None,
    slices: Annotated[int | None, typer.Option(help="model.size.slices.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples of a step.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    dots: Annotated[str | None, typer.Option(help="model.dots: ieee, tf32, bf16 ...")] = None,
    compiled: Annotated[bool | None, typer.Option("--compile/--no-compile")] = None,
    memory: Annotated[str | None, typer.Option(help="normal, recompute or lean.")] = None,
    device: Annotated[
        str, typer.Option(help="h200, a100-80, rtx4090 ..., 24GB, cpu; auto is this machine's.")
    ] = "auto",
    flops: Annotated[
        float | None, typer.Option(help="Of a GPU without records: bf16 TFLOP/s, dense.")
    ] = None,
    bandwidth: Annotated[float | None, typer.Option(help="And its memory's GB/s.")] = None,
    devices: Annotated[
        int | None, typer.Option(help="Devices that share the points of a sample; mesh.points.")
    ] = None,
    data_devices: Annotated[
        int, typer.Option(help="Groups of them, each with its own samples.")
    ] = 1,
    largest: Annotated[
        bool, typer.Option("--largest", help="The most points that fit, by what is kept.")
    ] = False,
    inference: Annotated[
        bool, typer.Option("--inference", help="A prediction in place of a training step.")
    ] = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Will it fit, and how long is a step? Nothing is launched.

    Memory by part and the time of a step, predicted from the records of the H200 or of a CPU, or
    from counts of bytes and operations for other devices; and where it does not fit, the fields to
    change, the cheapest first. Exit code 0 either way.

    Example: slipstream plan --points 8M --device h200
    """
    load_plugins(plugin)
    place = device_named(device, tflops=flops, bandwidth=bandwidth)
    fields = {
        "model.size.layers": layers, "model.size.width": width, "model.size.heads": heads,
        "model.size.slices": slices, "batch": batch, "precision": precision, "model.dots": dots,
        "compile": None if compiled is None else str(compiled).lower(),
    }  # fmt: skip
    given = [f"{name}={value}" for name, value in fields.items() if value is not None]
    changes = Changes(config, [*(settings or ()), *given], store=store, variant=variant)
    small = experiment == "own" and place.kind == "cpu"
    run = make_config(experiment, changes, preset or ("small" if small else "paper"))
    work, spread, assumed = _asked(run, points, devices, data_devices, memory)
    if inference:
        work = replace(work, training=False, trainer=False, memory="normal", recorded=False)
    if place.kind == "cpu":
        work = replace(work, recorded=False)
    found = largest_options(work, place, spread) if largest else options(work, place, spread)
    _say(found, run, place, largest=largest, assumed=assumed, as_json=as_json)


def _asked(
    run: RunConfig, points: str | None, devices: int | None, data_devices: int, memory: str | None
) -> tuple[Workload, Spread, bool]:
    """The step, the devices, and whether the fields of a point are assumed."""
    opened = open_store(run.data.store) if run.data.store is not None else None
    inputs, outputs, assumed = _fields(run, opened)
    counts = {parse_count("--points", points)} if points else _points(run, opened)
    work = workload_of(run, max(counts), inputs=inputs, outputs=outputs)
    work = replace(work, recorded=work.recorded and len(counts) == 1)
    if memory is not None:
        check_choice("--memory", memory, MEMORY)
        work = replace(work, memory=memory)  # type: ignore[arg-type]
    if devices is None:
        devices = getattr(getattr(run, "mesh", None), "points", 1) or 1
    spread = Spread(devices, data_devices)
    return work, spread, assumed


def _points(run: RunConfig, opened: Store | None) -> set[int]:
    """Of the draws of all samples. Raises ValueError where nothing says it."""
    if opened is not None and opened.ids("train"):
        return {count_points(run.data.points, opened.rows(i), i) for i in opened.ids("train")}
    if run.data.builtin is not None:
        return {count_points(run.data.points, run.data.builtin.points, "each")}
    if isinstance(run.data.points, int):
        return {run.data.points}
    raise ValueError(
        "--points or --store must say how many points a step draws, got neither: data.points of"
        f" {run.experiment} is {run.data.points or 'null'}"
    )


def _fields(run: RunConfig, opened: Store | None) -> tuple[int, int, bool]:
    """Inputs and outputs of a point, and whether they are assumed."""
    if opened is None and run.data.problem is None:
        return *ASSUMED, True
    schema = opened.schema if opened is not None else problem_schema(run.data)
    return schema.coord_dim + schema.feature_dim, schema.target_dim, False


def _say(
    found: list[Option],
    run: RunConfig,
    place: Device,
    *,
    largest: bool,
    assumed: bool,
    as_json: bool,
) -> None:
    """Print the plan; of --largest the table alone."""
    if as_json:
        print(json.dumps(as_json_value(found, run, place, assumed=assumed), indent=2))
        return
    console = new_console()
    if largest:
        if not found:
            say(f"No number of points fits on {place.name}.")
            return
        say(title(found[0], run, place, points=False))
        console.print(options_table(found, "as it is, but"))
        say(*notes(found, place, assumed=assumed))
        return
    asked, *others = found
    say(title(asked, run, place))
    console.print(parts_table(asked, place))
    say(*sentences(asked, run, place))
    if asked.fits:
        others = [option for option in others if is_faster(option, asked)]
    if others:
        console.print(options_table(others, "what would be faster" if asked.fits else FITTING))
    elif not asked.fits:
        say("No change of a field that is known here makes it fit.")
    say(*notes([asked] if asked.fits else found, place, assumed=assumed))
