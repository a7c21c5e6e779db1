"""The table at the end of `slipstream predict`, and what must be said about each mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipstream.cli.bounds_text import (
    bounds_sentences,
    field_cells,
    half_width,
    unlike_sentences,
)
from slipstream.cli.likeness_text import likeness_sentences
from slipstream.cli.remesh_text import remesh_cells, remesh_sentences, remesh_warnings
from slipstream.cli.terminal import new_console, new_table, plain, say
from slipstream.inference.many import MeshResult

_ANY_WIDTH = 10_000
_MOST = 40
"""Meshes in the table; the records have all."""


def show_results(results: Sequence[MeshResult], validation_error: float | None) -> None:
    made = [result for result in results if result.status != "failed"]
    if made:
        _print_table(made)
        for sentence in _common(made, validation_error):
            say(sentence)
    for warning, names in _by_text(made).items():
        say(f"warning: {warning}{_of(names, made)}")
    for result in results:
        if result.status == "failed":
            say(f"failed: {result.name}: {result.reason}", error=True)


def _print_table(results: Sequence[MeshResult]) -> None:
    table = new_table()
    columns = list(dict.fromkeys(column for result in results for column in _cells(result)))
    for column in columns:
        table.add_column(plain(column), justify="left" if column == "mesh" else "right")
    for result in results[:_MOST]:
        cells = _cells(result)
        table.add_row(*(plain(cells.get(column, "-")) for column in columns))
    width = new_console(width=_ANY_WIDTH).measure(table).maximum
    new_console(width=max(new_console().width, width)).print(table)
    if len(results) > _MOST:
        say(f"and {len(results) - _MOST} more.")


def _cells(result: MeshResult) -> dict[str, str]:
    cells = {"mesh": result.name, "rows": f"{result.rows:,} {result.location}s"}
    for name, (low, high) in result.ranges.items():
        cells[f"{name} [{result.units.get(name, '?')}]"] = f"{low:.4g} to {high:.4g}"
    for name, error in result.errors.items():
        cells[f"error of {name}"] = f"{error:.4g}"
    cells |= field_cells(result.bounds)
    for title, forces in (("", result.forces), ("true ", result.true_forces)):
        for name in ("cd", "cl", "cs"):
            if forces and name in forces["coefficients"]:
                cells[f"{title}{name.capitalize()}"] = f"{forces['coefficients'][name]:.4f}"
                if not title:
                    cells[name.capitalize()] += half_width(result.bounds, name)
                if not title and name in result.coefficient_spread:
                    spread = result.coefficient_spread[name]
                    cells[f"{name.capitalize()}, spread of the models"] = f"{spread:.4f}"
    cells |= remesh_cells(result)
    if result.forces and not result.forces["coefficients"]:
        force = ", ".join(f"{part:.4g}" for part in result.forces["total"])
        cells[f"force [{result.forces['unit']}]"] = force
    cells["file"] = (result.file or "") + (" (kept)" if result.status == "kept" else "")
    return cells


def _common(results: Sequence[MeshResult], error: float | None) -> Iterator[str]:
    """What holds for all meshes, once."""
    for sentence, names in _by(results, "how").items():
        yield f"{sentence}{_of(names, results)}"
    for result in results:
        if result.forces and result.forces["missing"]:
            lacking = result.forces["missing"]
            options = ", ".join(f"--{_option(name)}" for name in lacking)
            yield f"Coefficients need {' and '.join(lacking)} ({options})."
            break
    first = next((result.forces for result in results if result.forces), None)
    if first is not None:
        yield from _conventions(first)
    if error is not None:
        yield f"The model's validation error is {error:.4g}, relative, over all of its fields."
    yield from bounds_sentences([result.bounds for result in results])
    yield from remesh_sentences(results)
    yield from unlike_sentences(results)
    yield from likeness_sentences(results)
    for result in results:
        for file in result.files:
            yield f"Wrote {file}"


def _option(name: str) -> str:
    return "flow-density" if name == "density" else name


def _conventions(forces: Mapping[str, Any]) -> Iterator[str]:
    stated, reference = forces["conventions"], forces["reference"]
    ways = (f"{name} along ({' '.join(f'{x:g}' for x in reference[name])})"
            for name in ("drag", "lift"))  # fmt: skip
    yield f"Forces: {', '.join(ways)}."
    yield f"Forces: the pressure is {stated['pressure']['value']} ({stated['pressure']['reason']})."
    if forces["friction"] is not None:
        yield (
            f"Forces: the shear is the traction {stated['traction']['value']}"
            f" ({stated['traction']['reason']})."
        )


def _by_text(results: Sequence[MeshResult]) -> dict[str, list[str]]:
    """The warnings, each once, with the meshes that have it."""
    texts = _by(results, "warnings")
    for result in results:
        for warning in (result.forces or {}).get("warnings", ()):
            texts.setdefault(f"forces: {warning}", []).append(result.name)
        for warning in remesh_warnings(result):
            texts.setdefault(warning, []).append(result.name)
    return texts


def _by(results: Sequence[MeshResult], part: str) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for result in results:
        for text in getattr(result, part):
            texts.setdefault(text, []).append(result.name)
    return texts


def _of(names: Sequence[str], results: Sequence[MeshResult]) -> str:
    if len(names) == len(results):
        return ""
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f" ({some})"
