"""The tables that `slipstream evaluate` prints: errors, noise, samples and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table

from slipstream.cli.terminal import new_console, new_table, plain
from slipstream.evaluation.against_yardsticks import HEADINGS, OF_FORCES
from slipstream.evaluation.by_sample import SampleErrors, variables_of, worst_first
from slipstream.evaluation.summary import Summary
from slipstream.runs.evaluation_file import Evaluation, Yardstick
from slipstream.runs.force_records import SHOWN, ForceSection

MOST_SAMPLES = 12
"""Samples in a table of the terminal."""
_ANY_WIDTH = 10_000
"""Characters; more than any table has."""


def print_whole(table: Table) -> None:
    """Print a table with lines as long as it needs, however narrow the terminal is."""
    width = new_console(width=_ANY_WIDTH).measure(table).maximum
    new_console(width=max(new_console().width, width)).print(table)


def errors_table(
    title: str, summaries: Sequence[Summary], yardsticks: Sequence[Yardstick] = ()
) -> Table:
    """A row for each number, a column for each variant and each yardstick."""
    return _table(title, summaries, _text, yardsticks)


def noise_table(title: str, summaries: Sequence[Summary]) -> Table:
    """The same table for the spread over the draws of points."""
    return _table(title, summaries, _noise_text)


def _table(
    title: str,
    summaries: Sequence[Summary],
    text: Callable[[Summary], str],
    yardsticks: Sequence[Yardstick] = (),
) -> Table:
    table = new_table(title)
    table.add_column("error", no_wrap=True)
    by_name = {(s.name, s.variant): s for s in summaries}
    names, variants = (list(dict.fromkeys(key[i] for key in by_name)) for i in (0, 1))
    for variant in variants:
        seeds = max(len(s.seeds) for s in summaries if s.variant == variant)
        name = variant + (f", {seeds} seeds" if seeds > 1 else "")
        table.add_column(plain(name), justify="right")
    for yardstick in yardsticks:
        table.add_column(HEADINGS[yardstick.kind], justify="right")
    for name in names:
        cells = [by_name.get((name, variant)) for variant in variants]
        own = ["-" if cell is None else text(cell) for cell in cells]
        table.add_row(plain(name), *own, *(_number(one.errors.get(name)) for one in yardsticks))
    return table


def _text(summary: Summary) -> str:
    spread = "" if summary.std is None else f" ± {summary.std:.2g}"
    return f"{summary.mean:.4g}{spread}"


def _noise_text(summary: Summary) -> str:
    if summary.draw_std is None:
        return "-"
    share = summary.draw_relative_std
    return f"{summary.draw_std:.2g}" + ("" if share is None else f" ({100 * share:.2g} %)")


def samples_table(title: str, evaluation: Evaluation) -> Table:
    """A row for each sample, the worst first: relative L1 errors, yardsticks and coefficients."""
    rows, forces = worst_first(evaluation), evaluation.forces
    table = new_table(title)
    table.add_column("sample", no_wrap=True)
    yardsticks = [HEADINGS[yardstick.kind] for yardstick in evaluation.yardsticks]
    for name in ("composite", *yardsticks, *(f"L1 {name}" for name in variables_of(evaluation))):
        table.add_column(plain(name), justify="right")
    shown = coefficients_of(forces)
    for name in shown:
        table.add_column(f"{name.capitalize()} predicted", justify="right")
        table.add_column("true", justify="right")
    for row in rows[:MOST_SAMPLES]:
        errors = [row.composite, *row.yardsticks.values(), *row.errors.values()]
        table.add_row(plain(row.sample), *map(_number, errors), *_coefficients(row, forces, shown))
    return table


def coefficients_of(forces: ForceSection | None) -> list[str]:
    return [name for name in SHOWN if forces is not None and name in forces.errors]


def _coefficients(
    row: SampleErrors, forces: ForceSection | None, shown: Sequence[str]
) -> list[str]:
    own = forces.samples.get(row.sample) if forces is not None else None
    if own is None:
        return ["-"] * (2 * len(shown))
    return [f"{part[name]:.4f}" for name in shown for part in (own.predicted, own.true)]


def forces_table(title: str, forces: ForceSection) -> Table:
    """A row for each coefficient: errors over the samples, beside the yardsticks."""
    table = new_table(title)
    table.add_column("coefficient", no_wrap=True)
    headings = ("mean absolute error", *(HEADINGS[kind] for kind in OF_FORCES), "correlation", "R2")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name in coefficients_of(forces):
        own = forces.errors[name]
        numbers = (own.mean_absolute, own.mean, own.nearest, own.correlation, own.r2)
        table.add_row(name.capitalize(), *map(_number, numbers))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
