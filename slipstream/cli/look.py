"""`slipstream data inspect`: what a mesh or a folder of meshes holds, and a first card for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from slipstream.cli.shared import ReadMemory, ReadTimeout, bar
from slipstream.cli.terminal import new_console, new_table, plain, say
from slipstream.data.cards import (
    ArrayLook,
    FileLook,
    FolderLook,
    ParameterLook,
    Shape,
    draft_card,
    look_at,
)
from slipstream.data.meshes import ReadLimits, read_within


def inspect(
    path: Annotated[
        Path, typer.Argument(metavar="FILE_OR_FOLDER", help="A mesh, or a folder of meshes.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write a card here; a file that exists is left alone.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(help="The file of a sample whose points become the rows of the card."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Look at every sample, not at three.")
    ] = False,
    read_memory: ReadMemory = None,
    read_timeout: ReadTimeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Say what is in a mesh, or in a folder of samples, and write a card to ingest it with.

    Arrays with their ranges, NaN, guessed role and unit; what differs between samples; parameters.
    The card is YAML with comments: check its units, then run `slipstream data ingest mesh`.

    Example: slipstream data inspect runs --out card.yaml
    """
    if out is not None and out.exists():
        raise ValueError(f"{out} must not exist yet, so that no card is lost, got one")
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"{out} must be in a folder that exists, got no {out.parent}")
    if not path.exists():
        raise ValueError(f"{path} must be a mesh or a folder of meshes, got no such file")
    limits = ReadLimits(read_memory, read_timeout)
    with bar(f"inspect {path}") as advance, read_within(limits):
        look = look_at(path, every=every, advance=advance)
    if out is not None:
        with read_within(limits):
            card = draft_card(look, file)
        with out.open("x", encoding="utf-8") as card_file:
            card_file.write(card)
    if as_json:
        typer.echo(json.dumps({**look.to_json(), "card": out and str(out)}, indent=2))
        return
    _show(look, path)
    if out is None:
        typer.echo(f"Write a card: slipstream data inspect {path} --out card.yaml")
    else:
        typer.echo(
            f"Wrote {out}: check its units, then run\n"
            f"  slipstream data ingest mesh {look.folder} STORE --card {out}"
        )


def _show(look: FolderLook, path: Path) -> None:
    console = new_console()
    if not console.is_terminal:
        console = new_console(width=150)
    if len(look.ids) > 1 or path.is_dir():
        read = max(len(samples) for samples in look.looks.values())
        some = ", ".join(look.ids[:3]) + (", ..." if len(look.ids) > 3 else "")
        say(f"{path}: {_count(len(look.ids), 'sample')} ({some}), {read} looked at.")
    for file, samples in look.looks.items():
        first = next(iter(samples.values()))
        if path.is_dir():
            say()
        say(f"{file}: {look.layout.files[file]}" if path.is_dir() else f"{path}")
        typer.echo(f"  {_shape_text(first.shape)}")
        arrays = look.common(file)
        if arrays:
            console.print(_array_table(arrays, samples))
        else:
            typer.echo("  No arrays.")
    for parameters in look.parameters:
        where = "one file a sample" if parameters.id is None else f"id in {parameters.id!r}"
        where += f", written {parameters.id_pattern}" if parameters.id_pattern else ""
        say()
        say(f"{parameters.file}: parameters, {where}")
        console.print(_parameter_table(parameters))
    warnings = look.notes if path.is_dir() else _warnings(look)
    for note in warnings:
        say(f"! {note}")
    say()


def _warnings(look: FolderLook) -> tuple[str, ...]:
    """The warnings of a single file."""
    files = [file for samples in look.looks.values() for file in samples.values()]
    return tuple(warning for file in files for warning in file.warnings)


def _shape_text(shape: Shape) -> str:
    kinds = ", ".join(f"{count:,} {name}" for name, count in shape.cell_kinds.items())
    parts = [f"{shape.kind}", f"{shape.points:,} points", f"{shape.cells:,} cells ({kinds})"]
    parts += _closed_and_open(shape)
    if shape.outward is not None:
        parts.append(f"faces turned {'outward' if shape.outward else 'inward'}")
    low, high = (", ".join(f"{x:.5g}" for x in corner) for corner in (shape.low, shape.high))
    return f"{', '.join(parts)}\n  from ({low}) to ({high})"


def _closed_and_open(shape: Shape) -> list[str]:
    """Which parts of a surface are closed, and which open, with the open edges of each kind."""
    kinds = (
        ("closed", shape.closed),
        ("closed but for small holes", shape.nearly_closed),
        ("open", shape.open),
    )
    held = [(kind, parts) for kind, parts in kinds if parts is not None and parts.count]
    alone = len(held) == 1
    texts = []
    for kind, parts in held:
        inside = [] if alone else [f"{parts.triangles:,} triangles"]
        inside += [_count(parts.open_edges, "open edge")] if parts.open_edges else []
        text = kind if alone and parts.count == 1 else f"{_count(parts.count, 'part')} {kind}"
        texts.append(f"{text} ({', '.join(inside)})" if inside else text)
    return texts


def _array_table(arrays: Iterable[ArrayLook], samples: Mapping[str, FileLook]) -> Table:
    """A row for each array: its range over the samples inspected, and the mean of their means."""
    table = new_table(box=None, header_style="bold", pad_edge=False)
    for title in ("  array", "at", "type"):
        table.add_column(title, no_wrap=title == "at")
    for title in ("least", "mean", "most", "NaN", "inf"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("looks like", "unit", "because"):
        table.add_column(title)
    for array in arrays:
        looks = [look.array(array.name, array.location) for look in samples.values()]
        same = [other for other in looks if other is not None]
        kind = array.dtype if array.components == 1 else f"{array.components} x {array.dtype}"
        lows = [min(values) for values in zip(*(a.numbers.low for a in same), strict=True)]
        means = [sum(v) / len(v) for v in zip(*(a.numbers.mean for a in same), strict=True)]
        highs = [max(values) for values in zip(*(a.numbers.high for a in same), strict=True)]
        bad = [sum(a.nan for a in same), sum(a.infinite for a in same)]
        cells = [plain(f"  {array.name}"), plain(array.location), plain(kind)]
        cells += [plain(*(f"{x:.4g}" for x in numbers)) for numbers in (lows, means, highs)]
        cells += [plain(f"{count:,}" if count else "") for count in bad]
        cells += map(plain, (array.guess.role, _unit(array), array.guess.reason))
        table.add_row(*cells)
    return table


def _unit(array: ArrayLook) -> str:
    return "" if array.guess.role == "id" else array.guess.unit


def _parameter_table(look: ParameterLook) -> Table:
    table = new_table(box=None, header_style="bold", pad_edge=False)
    for heading in ("  parameter", "numbers", "unit", "because", "not a feature, because"):
        table.add_column(heading)
    for column in look.columns:
        kind = str(column.components) if column.components else "none"
        cells = (f"  {column.name}", kind, column.unit, column.reason, column.against)
        table.add_row(*map(plain, cells))
    return table


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
