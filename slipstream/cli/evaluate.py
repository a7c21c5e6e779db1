"""`slipstream evaluate`: test errors of trained models. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from slipstream.cli.shared import Plugins, bar, load_plugins
from slipstream.cli.terminal import new_console, new_table, plain, say
from slipstream.core.configs import differences
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.summary import (
    Summary,
    definition_of,
    left_out_text,
    spread_text,
    summarise,
)
from slipstream.evaluation.vtk_export import write_vtk_files
from slipstream.runs.config import FREE, OWN
from slipstream.runs.evaluation_file import Evaluation, Protocol
from slipstream.runs.folder import RunFolder, find_runs

EvaluatedRun = tuple[RunFolder, Evaluation]
_ANY_WIDTH = 10_000
"""Characters; more than any table has."""


def evaluate(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_STUDY...", help="Folders of runs, or studies.")
    ],
    split: Annotated[str, typer.Option(help="A split of the store.")] = "test",
    full: Annotated[bool, typer.Option("--full", help="All points of a sample at once.")] = False,
    repeats: Annotated[int, typer.Option(help="Independent draws of the points.")] = 1,
    samples: Annotated[
        str,
        typer.Option(help="Samples to predict for pictures, with commas; else the median one."),
    ] = "",
    store: Annotated[Path | None, typer.Option(help="Where the data are now, if moved.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    plugin: Plugins = None,
    vtk: Annotated[
        bool, typer.Option("--vtk", help="Also write the predictions as files for ParaView.")
    ] = False,
    meshes: Annotated[
        Path | None,
        typer.Option(help="For --vtk: the folder that was ingested; writes onto its meshes."),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="For --vtk: also the weights of all slices.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Evaluate again what was evaluated so before.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure trained models on the test split, and save predictions for pictures.

    Relative L1 on normalised outputs as in training, relative L1 and L2 of each variable in
    physical units. What was measured so before is not measured again. Runs without a model yet are
    named and left out.

    Example: slipstream evaluate studies/poisson --repeats 6
    """
    load_plugins(plugin)
    if not vtk and (slices or meshes):
        raise ValueError("--meshes and --slices must go with --vtk, got no --vtk")
    protocol = Protocol(split=split, full=full, repeats=repeats)
    pictures = tuple(name.strip() for name in samples.split(",") if name.strip())
    request = EvaluationRequest(
        protocol=protocol, pictures=pictures, device=device, store=store, again=again
    )
    runs, without = runs_below(paths)
    with bar("evaluate") as advance:
        rows = evaluate_runs(runs, request, lambda _, done, total: advance(done, total))
    files = [
        file
        for run, row in (zip(runs, rows, strict=True) if vtk else ())
        for file in write_vtk_files(run, row, store=store, meshes=meshes, slices=slices)
    ]
    if as_json:
        evaluations = [_as_json(row) for row in rows]
        output = {"evaluations": evaluations, "without_model": without}
        vtk_json = {"vtk": [{**asdict(file), "path": str(file.path)} for file in files]}
        print(json.dumps(output | (vtk_json if vtk else {}), indent=2))
        return
    _print(list(zip(runs, rows, strict=True)))
    for path in without:
        say(f"{path}: left out, no model yet")
    for file in files:
        say(f"Wrote {file.path}: {file.contents}.")


def _as_json(row: Evaluation) -> dict[str, Any]:
    """The evaluation as in its record, with the relative standard deviation of every number."""
    numbers = [{**asdict(number), "relative_std": number.relative_std} for number in row.numbers]
    return {**asdict(row), "numbers": numbers}


def runs_below(paths: Sequence[Path]) -> tuple[list[RunFolder], list[str]]:
    """The runs with a model at or below some folders, and the paths of those without one."""
    runs: list[RunFolder] = []
    for path in paths:
        below = list(find_runs(path))
        if not below:
            raise ValueError(
                f"{path} must be a run or a folder with runs below it, got neither"
                if path.is_dir()
                else f"{path} must be the folder of a run or a study, got no such folder"
            )
        runs += below
    with_model = [run for run in runs if run.model_file.is_file()]
    if not with_model:
        raise ValueError(
            f"{runs[0].path} must have a {runs[0].model_file.name}, got none: train it first"
        )
    return with_model, [str(run.path) for run in runs if not run.model_file.is_file()]


def _print(measured: Sequence[EvaluatedRun]) -> None:
    """A table for every experiment, and one for every other size, setting or data of it."""
    for experiment in dict.fromkeys(row.experiment for _, row in measured):
        groups = _alike([pair for pair in measured if pair[1].experiment == experiment])
        for group in groups:
            _print_group(group)
            other = _other(groups[0][0], group[0])
            if other:
                say(f"Not as in the first table of {experiment} (there, here): {other}.")


def _alike(measured: Sequence[EvaluatedRun]) -> list[list[EvaluatedRun]]:
    """Groups of runs that differ in variant and seed only."""
    groups: list[list[EvaluatedRun]] = []
    for pair in measured:
        alike = next((group for group in groups if not _other(group[0], pair)), None)
        if alike is None:
            groups.append([pair])
        else:
            alike.append(pair)
    return groups


def _other(one: EvaluatedRun, other: EvaluatedRun) -> str:
    """What differs between two runs, besides variant and seed; empty where nothing does."""
    differing = differences(one[0].read_config(), other[0].read_config(), ignored=(*FREE, *OWN))
    hashes = [row.data_hash for _, row in (one, other)]
    if hashes[0] != hashes[1]:
        differing.append(f"data: {hashes[0][:12]}, {hashes[1][:12]}")
    return "; ".join(differing)


def _print_group(measured: Sequence[EvaluatedRun]) -> None:
    rows = [row for _, row in measured]
    summaries, first = summarise(rows), rows[0]
    title = f"{first.experiment}: errors on the {first.protocol.split} split"
    _print_whole(errors_table(title, summaries))
    for measure in first.definitions:
        say(f"{measure}: {definition_of(first, measure)}.")
    for sentence in left_out_text(first):
        say(sentence)
    if spread_text(summaries):
        say(spread_text(summaries))
    noise = max((s.noise for s in summaries if s.noise is not None), default=None)
    if noise is not None:
        _print_whole(noise_table(f"{first.experiment}: noise over the draws", summaries))
        say("Standard deviation over the draws, and its share of the error; mean over the seeds.")
        say(f"Largest relative standard deviation over the draws: {100 * noise:.2g} %.")
    for sentence in _not_shown(measured):
        say(sentence)


def _print_whole(table: Table) -> None:
    """Print a table with lines as long as it needs, however narrow the terminal is."""
    width = new_console(width=_ANY_WIDTH).measure(table).maximum
    new_console(width=max(new_console().width, width)).print(table)


def _not_shown(measured: Sequence[EvaluatedRun]) -> Iterator[str]:
    """A sentence for each run left out because a later one has the same variant and seed."""
    shown = {(row.variant, row.seed): run for run, row in measured}
    for run, row in measured:
        last = shown[row.variant, row.seed]
        if run.path != last.path:
            name = f"{row.experiment} {row.variant} seed {row.seed}"
            yield f"{run.path}: not in the table, which has {name} of {last.path}"


def errors_table(title: str, summaries: Sequence[Summary]) -> Table:
    """A row for each number, a column for each variant."""
    return _table(title, summaries, _text)


def noise_table(title: str, summaries: Sequence[Summary]) -> Table:
    """The same table for the spread over the draws of points."""
    return _table(title, summaries, _noise_text)


def _table(title: str, summaries: Sequence[Summary], text: Callable[[Summary], str]) -> Table:
    table = new_table(title)
    table.add_column("error", no_wrap=True)
    by_name = {(s.name, s.variant): s for s in summaries}
    names, variants = (list(dict.fromkeys(key[i] for key in by_name)) for i in (0, 1))
    for variant in variants:
        seeds = max(len(s.seeds) for s in summaries if s.variant == variant)
        name = variant + (f", {seeds} seeds" if seeds > 1 else "")
        table.add_column(plain(name), justify="right")
    for name in names:
        cells = [by_name.get((name, variant)) for variant in variants]
        table.add_row(plain(name), *("-" if cell is None else text(cell) for cell in cells))
    return table


def _text(summary: Summary) -> str:
    spread = "" if summary.std is None else f" ± {summary.std:.2g}"
    return f"{summary.mean:.4g}{spread}"


def _noise_text(summary: Summary) -> str:
    if summary.draw_std is None:
        return "-"
    share = summary.draw_relative_std
    return f"{summary.draw_std:.2g}" + ("" if share is None else f" ({100 * share:.2g} %)")
