"""The cells of tables: an error, a ratio to the baseline, a text; and which variants come when."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.evaluation.compare import Row, ratio_std
from slipstream.models.variants import in_table_order
from slipstream.reports.content import Cell
from slipstream.reports.study.settings import Group

NOT_RUN = Cell(text="not run", kind="text")
UNFINISHED = Cell(text="unfinished", kind="text")
"""The variant has runs, but none of them is among those that are compared."""
MISSING = Cell(text="missing", kind="text")
"""The study planned the variant, but there is no run of it."""


def variants_of(groups: Sequence[Group]) -> list[str]:
    return in_table_order(variant for group in groups for variant in group.variants)


def text_cell(text: str) -> Cell:
    return Cell(text=text, kind="text")


def with_best(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a row, with the smallest marked as best if at least two have values."""
    known = [cell.value for cell in cells if cell.value is not None]
    best = min(known) if len(known) > 1 else None
    return [
        Cell(c.value, c.std, c.value is not None and c.value == best, c.text, c.digits, c.kind)
        for c in cells
    ]


def error_cell(row: Row | None) -> Cell:
    return NOT_RUN if row is None else Cell(row.mean, row.std)


def ratio_cell(row: Row | None, base: Row) -> Cell:
    if row is None:
        return NOT_RUN
    spread = None if row is base else ratio_std(row, base)
    return Cell(row.mean / base.mean, spread, kind="ratio")
