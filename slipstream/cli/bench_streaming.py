"""`slipstream bench streaming`: what any number of points takes, in memory and time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from slipstream.bench import streaming as streams
from slipstream.bench import streaming_tables
from slipstream.bench.tables import latest
from slipstream.core import runtime
from slipstream.core.checks import check_choice, check_whole
from slipstream.core.records import read_records
from slipstream.models.sweep_plan import Parked
from slipstream.models.variants import PAPER, Size, variant_named

UNITS = {"": 1, "k": 10**3, "M": 10**6}


def streaming(
    points: Annotated[str, typer.Option(help="Of each case, as in 1M,4M,16M (k, M: 10^3, 10^6).")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/streaming.jsonl"
    ),
    width: Annotated[int, typer.Option(help="Of the model, with a head for every 32.")] = 256,
    layers: Annotated[int, typer.Option(help="Of the model.")] = 8,
    variant: Annotated[str, typer.Option(help="As `slipstream variants` lists them.")] = "baseline",
    chunk: Annotated[
        str | None, typer.Option(help="Points taken at a time; 262144 on a GPU, 32768 without.")
    ] = None,
    place: Annotated[
        str, typer.Option(help="Where chunks wait: auto, device, host, file, recompute.")
    ] = "auto",
    dtype: Annotated[str, typer.Option(help="fp32, or bf16 by autocast.")] = "fp32",
    folder: Annotated[
        Path | None, typer.Option(help="For the file of chunks; not one in memory, as /dev/shm.")
    ] = None,
    one_pass: Annotated[
        bool, typer.Option("--one-pass", help="Also take all points at once, and compare.")
    ] = False,
    device: Annotated[str, typer.Option(help="cuda, cuda:N, cpu or auto.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Stream random points through a model in chunks: peak memory and time, a case a process.

    A small cloud is streamed first and must be equal to one pass, to 1e-12 in fp64. Memory is that
    of the process above what it had with the model loaded; on a GPU it is what PyTorch allocates.
    Exit code 1 where a case fails.

    Example: slipstream bench streaming --points 1M,4M --place file
    """
    if out.is_dir():
        raise ValueError(f"out must be a file of records, got the folder {out}")
    case = streams.StreamingCase(
        points=1,
        chunk=None if chunk is None else parse_count("chunk", chunk),
        place=_checked("place", place, get_args(Parked)),
        dtype=_checked("dtype", dtype, get_args(streams.StreamedDtype)),
        size=_size(width, layers),
        variant=variant_named(variant).name,
        folder=folder,
        one_pass=one_pass,
    )
    if folder is not None and not folder.is_dir():
        raise ValueError(f"folder must be a folder for the file of chunks, got {folder}")
    counts = [parse_count("points", part) for part in points.split(",")]
    where = str(runtime.pick_device(device))
    records = streams.run_streaming([_with(case, count) for count in counts], out, where)
    rows = list(_said(records, out, as_json))
    typer.echo(json.dumps(rows, indent=2) if as_json else f"Records: {out}")
    if not all(streams.succeeded(row) for row in rows):
        raise typer.Exit(1)


def parse_count(name: str, text: str) -> int:
    """65536, 64k or 1.5M as a number. Raises ValueError where it is not a whole number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)([kM]?)\s*", text)
    count = float(match[1]) * UNITS[match[2]] if match else 0.5
    if count != int(count) or count < 1:
        raise ValueError(
            f"{name} must be a whole number of at least 1, as in 65536, 64k or 1.5M, got {text!r}"
        )
    return int(count)


def _size(width: int, layers: int) -> Size:
    check_whole("layers", layers, 1)
    per_head = PAPER.head_width
    if width < per_head or width % per_head:
        raise ValueError(
            f"width must be a multiple of {per_head}, the width of a head, got {width}"
        )
    return Size(width=width, layers=layers, heads=width // per_head)


def _checked(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    check_choice(name, value, choices)
    return value


def _with(case: streams.StreamingCase, points: int) -> streams.StreamingCase:
    return replace(case, points=points)


def _said(records: Iterator[dict[str, Any]], out: Path, as_json: bool) -> Iterator[dict[str, Any]]:
    """Every record as it comes, printed, and the markdown of all beside them."""
    for record in records:
        if not as_json:
            typer.echo(" | ".join(streaming_tables.cells(record)))
        out.with_suffix(".md").write_text(
            streaming_tables.measurements(latest(read_records(out, "streaming")))
        )
        yield record
