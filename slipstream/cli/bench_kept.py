"""`slipstream bench memory-kept`: what a training step keeps for its backward pass, on a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.bench import kept
from slipstream.bench.cpu_subjects import SUBJECTS, is_on_path
from slipstream.cli.bench_streaming import parse_count
from slipstream.core.checks import check_whole


def memory_kept(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/kept.jsonl"
    ),
    points: Annotated[
        str, typer.Option(help="Of whole steps, as in 131k,524k; empty to count only.")
    ] = "",
    width: Annotated[int, typer.Option(help="Of the models of whole steps.")] = 64,
    layers: Annotated[int, typer.Option(help="Of the models of whole steps.")] = 2,
    peer: Annotated[bool, typer.Option(help="Also count flashslice, where importable.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Count the bytes a point and layer that normal, recompute and lean training keep.

    With --points also peak memory and CPU seconds of whole steps. Lean memory is first compared
    with normal, to 1e-12 in fp64. Exit code 1 where a case fails.

    Example: slipstream bench memory-kept --peer --points 131072,524288
    """
    if out.is_dir():
        raise ValueError(f"out must be a file of records, got the folder {out}")
    check_whole("width", width, 1)
    check_whole("layers", layers, 1)
    cases = kept.kept_cases(peer=peer)
    if peer and not is_on_path(SUBJECTS["flashslice"], kept.peer_case()):
        raise ValueError("--peer needs flashslice on the path: docs/kernels.md says how")
    counts = [parse_count("points", part) for part in points.split(",") if points]
    cases += kept.step_cases(counts, width=width, layers=layers)
    rows = []
    for record in kept.run_kept(cases, out):
        rows.append(record)
        if not as_json:
            typer.echo(_line(record))
    typer.echo(json.dumps(rows, indent=2) if as_json else f"Records: {out}")
    if not all(kept.succeeded(row) for row in rows):
        raise typer.Exit(1)


def _line(record: dict[str, Any]) -> str:
    result = record["result"]
    if result is None:
        return f"{record['name']}: {record['error'] or 'the gate is red'}"
    if "cpu_s" in result:
        peak = result["peak_gb"]
        memory = "not measured" if peak is None else f"{peak:.2f} GB"
        return f"{record['name']}: {memory}, {result['cpu_s']:.2f} CPU s"
    each, besides = result["bytes_per_point_and_layer"], result["bytes_per_point_besides"]
    return f"{record['name']}: {each:,.0f} bytes a point and layer, and {besides:,.0f} a point"
