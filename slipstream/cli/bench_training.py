"""`slipstream bench trainer` and `bench resume`: what training costs, and whether it survives."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slipstream.bench.kills import kill_and_compare
from slipstream.bench.overhead import Overhead, measure_overhead
from slipstream.core import runtime
from slipstream.core.checks import check_choice, check_whole
from slipstream.core.configs import overlay
from slipstream.core.records import append_record
from slipstream.models.variants import PAPER
from slipstream.runs.config import BuiltinData, DataConfig, ModelConfig, RunConfig

Device = Annotated[str, typer.Option(help="cuda, cuda:N, cpu or auto.")]

STEP_POINTS = {"cuda": 262_144, "cpu": 4096}
"""Points of a step by default; with all weights kept, 262144 take over 24 GB on a CPU."""


def trainer(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/trainer.jsonl"
    ),
    points: Annotated[
        int | None, typer.Option(help="Of a step; 262144 on a GPU, 4096 without.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="bf16 or fp32.")] = "bf16",
    compiled: Annotated[bool, typer.Option(help="By torch.compile.")] = False,
    graph: Annotated[bool, typer.Option(help="Record the step as a CUDA graph.")] = True,
    workers: Annotated[int, typer.Option(help="Of the loader.")] = 4,
    device: Device = "auto",
) -> None:
    """Time a step of the trainer, data and records included, beside the bare step of the model.

    Writes a store of random rows aside (48 bytes a row, 16 rows a point) and removes it again.

    Example: slipstream bench trainer --points 262144
    """
    check_choice("dtype", dtype, ("bf16", "fp32"))
    where = runtime.pick_device(device)
    kind: Literal["bf16", "fp32"] = "bf16" if dtype == "bf16" else "fp32"
    wanted = Overhead(
        points=points or STEP_POINTS[where.type],
        dtype=kind,
        dots="bf16" if kind == "bf16" else "ieee",
        compiled=compiled,
        cuda_graph=graph,
        workers=workers,
        impl="fused" if where.type == "cuda" else "reference",
    )
    with _aside(out) as folder:
        figures = measure_overhead(wanted, Path(folder), device=str(where))
    _append(out, "trainer", figures, device)
    typer.echo(
        f"trainer {figures['trainer_ms']:.2f} ms, bare {figures['bare_ms']:.2f} ms a step:"
        f" {figures['ratio']:.3f}. Records: {out}"
    )


def resume(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/resume.jsonl"
    ),
    kills: Annotated[int, typer.Option(help="SIGKILLs, at random moments.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    steps: Annotated[int, typer.Option(help="Of the run.")] = 300,
    points: Annotated[int, typer.Option(help="Of a sample.")] = 16_384,
    dtype: Annotated[str, typer.Option(help="bf16 or fp32.")] = "bf16",
    processes: Annotated[
        int, typer.Option(help="That share the points of a sample; one is killed at a time.")
    ] = 1,
    device: Device = "auto",
) -> None:
    """Kill a run again and again, resume it, and compare it with one that was left alone.

    At the paper's size, on charges. Exit code 1 where a single bit differs at the end.

    Example: slipstream bench resume --kills 10
    """
    check_whole("kills", kills, 0)
    check_whole("processes", processes, 1)
    where = runtime.pick_device(device)
    config = RunConfig(
        experiment="resume",
        data=DataConfig(
            problem="poisson", builtin=BuiltinData(samples={"train": 8, "val": 2}, points=points)
        ),
        model=ModelConfig(size=PAPER),
        steps=steps,
        evaluate_every=25,
        checkpoint_every=10,
        log_every=1,
    )
    config = overlay(config, {"precision": dtype, "mesh.points": processes})
    with _aside(out) as folder:
        report = kill_and_compare(
            config, Path(folder), kills=kills, seed=seed, device=str(where), processes=processes
        )
    fields = {**asdict(report), "equal": not report.different, "config": config.to_json()}
    _append(out, "resume", fields, device)
    if report.different:
        typer.echo(f"{len(report.different)} tensors differ, as {report.different[0]}: {out}")
        raise typer.Exit(1)
    ends = f", the others within {max(report.seconds)} s" if report.seconds else ""
    typer.echo(f"Equal to the bit after {kills} kills at steps {list(report.steps)}{ends}: {out}")


def _aside(out: Path) -> tempfile.TemporaryDirectory[str]:
    out.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=out.parent)


def _append(out: Path, kind: str, fields: dict[str, Any], device: str) -> None:
    where = runtime.device_name(runtime.pick_device(device))
    append_record(out, kind, {**fields, "device": where, "commit": runtime.commit()})
