"""Tables of sweeps: errors, and what they cost, against the values of a setting.

Slices, layers and steps are swept wherever studies differ in them; any other field where a study
says so (`slipstream study --sweep`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from slipstream.evaluation.compare import Row
from slipstream.models.variants import BASELINE, headings
from slipstream.reports.content import Cell, Table
from slipstream.reports.study.captions import facts_by_owner
from slipstream.reports.study.cells import error_cell, ratio_cell, text_cell, variants_of
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import (
    STEPS,
    Group,
    Swept,
    further_sweeps,
    main_groups,
    on_other_data,
    sweep,
    swept_settings,
    swept_variants,
)
from slipstream.runs.sweep import short_name, value_text

_NAMES = {
    "slices": ("G", "Number of slices"),
    "layers": ("L", "Depth"),
    STEPS: ("steps", "Length of training"),
}


def letter(field: Swept) -> str:
    """As "G"; the name of a setting that has none."""
    return _NAMES[field][0] if field in _NAMES else field


def sweep_title(field: Swept) -> str:
    return _NAMES[field][1] if field in _NAMES else f"Sweep of {field}"


def fields_of_studies(runs: Sequence[RunData]) -> list[Swept]:
    """The settings that studies say they sweep."""
    return [short_name(field) for run in runs[:1] for field in run.swept_fields]


def sweep_tables(runs: Sequence[RunData]) -> list[Table]:
    tables = [sweep_table(runs, field) for field in swept_settings(runs)]
    tables += [cost_table(runs, field) for field in fields_of_studies(runs)]
    return [table for table in tables if table is not None]


def sweep_table(runs: Sequence[RunData], field: Swept) -> Table | None:
    """Validation error of the baseline against one setting, and the ratio of each other variant.

    Without a baseline, the errors of all variants. A variant that was run at a single value of the
    setting is left out; the main table has it.
    """
    groups = _groups(runs, field)
    if not groups:
        return None
    shown = swept_variants(groups) | {BASELINE}
    variants = [variant for variant in variants_of(groups) if variant in shown]
    rows = []
    for group in groups:
        by_variant = {row.variant: row for row in group.rows()}
        base = by_variant.get(BASELINE)
        cells = [
            error_cell(by_variant.get(variant))
            if base is None or variant == BASELINE
            else ratio_cell(by_variant.get(variant), base)
            for variant in variants
        ]
        rows.append((*_names(runs, group, field), *cells))
    notes = [
        f"{group.experiment}, {_place(group, field)}, {variant}: {failure}."
        for group in groups
        for variant, failure in group.failures().items()
    ]
    columns = (*_headings(runs, field), *headings(variants))
    caption = _caption(runs, groups, field, with_baseline=BASELINE in variants)
    title = sweep_title(field)
    return Table(f"sweep-{field}", title, caption, columns, tuple(rows), tuple(notes))


def cost_table(runs: Sequence[RunData], field: Swept) -> Table | None:
    """Parameters, training time and error of each variant at each value of a swept setting."""
    groups, rows = _groups(runs, field), []
    for group in groups:
        base = group.row(BASELINE)
        for row in group.rows():
            rows.append(
                (
                    *_names(runs, group, field),
                    *map(text_cell, headings([row.variant])),
                    *_costs(group, row),
                    error_cell(row),
                    text_cell("-") if base is None else ratio_cell(row, base),
                )
            )
    if not rows:
        return None
    caption = (
        "Parameters, time of the training (validations included; mean ± standard deviation over the"
        " seeds, with whatever else the machine did meanwhile), best validation error, and that"
        f" over the baseline's with the same {letter(field)}. A variant that does not depend on it"
        " was trained once, and stands at every value."
    )
    columns = (
        *_headings(runs, field), "variant", "parameters", "training time [s]", "error", "ratio",
    )  # fmt: skip
    title = f"{sweep_title(field)}: cost"
    return Table(f"sweep-{field}-cost", title, caption, columns, tuple(rows))


def _costs(group: Group, row: Row) -> tuple[Cell, Cell]:
    own = [run for run in group.compared if run.variant == row.variant]
    parameters = next((run.parameters for run in own if run.parameters), None)
    count = text_cell("-") if parameters is None else Cell(parameters, kind="count")
    times = training_times(group, row.variant)
    if not times:
        return count, text_cell("-")
    spread = statistics.stdev(times) if len(times) > 1 else None
    return count, Cell(statistics.fmean(times), spread)


def training_times(group: Group, variant: str) -> list[float]:
    """Seconds of the training of each seed, where they are known."""
    return [run.seconds for run in group.compared if run.variant == variant and run.seconds]


def _groups(runs: Sequence[RunData], field: Swept) -> list[Group]:
    """The groups of all sweeps of a field, those of the main group first."""
    return [
        group for groups in (*sweep(runs, field), *further_sweeps(runs, field)) for group in groups
    ]


def _headings(runs: Sequence[RunData], field: Swept) -> tuple[str, ...]:
    beside = ("with",) if further_sweeps(runs, field) else ()
    return ("experiment", *beside, letter(field))


def _names(runs: Sequence[RunData], group: Group, field: Swept) -> tuple[Cell, ...]:
    """The first cells of a row; where sweeps cross, with the group's values of the others."""
    others = [other for other in fields_of_studies(runs) if other not in (field, STEPS)]
    beside = ", ".join(f"{letter(other)} = {value_text(group.at(other))}" for other in others)
    with_others = (text_cell(beside),) if further_sweeps(runs, field) else ()
    return (text_cell(group.experiment), *with_others, _value_cell(group.at(field)))


def _value_cell(value: Any) -> Cell:
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(value, kind="count")
    return text_cell(value_text(value))


def _caption(
    runs: Sequence[RunData], groups: Sequence[Group], field: Swept, *, with_baseline: bool
) -> str:
    caption = "Validation error of each variant."
    if with_baseline:
        caption = (
            "Validation error of the baseline, and of the other variants over that of the baseline"
            f" with the same {letter(field)}."
        )
    if field != STEPS:
        caption += f" At {_lengths(runs, groups, field)}."
    elsewhere = [f"{g.experiment} {_place(g, field)}" for g in on_other_data(runs, field)]
    if elsewhere:
        caption += f" On other data: {', '.join(elsewhere)}."
    return caption


def _lengths(runs: Sequence[RunData], groups: Sequence[Group], field: Swept) -> str:
    """The steps of a sweep, as "4,000 steps, where the main table has 8,000"."""
    usual = {group.experiment: _compared_at(group) for group in main_groups(runs)}
    facts = []
    for group in groups:
        own, main = _compared_at(group), usual[group.experiment]
        other = f", where the main table has {main:,}" if main not in (own, None) else ""
        facts.append((f"{own:,} steps{other}", group.experiment, _place(group, field)))
    return facts_by_owner(facts)


def _compared_at(group: Group) -> int | None:
    return next((row.step for row in group.rows()), None)


def _place(group: Group, field: Swept) -> str:
    """The value of a group's setting, as "4,000 steps" or "G = 8"."""
    at = group.at(field)
    return f"{at:,} steps" if field == STEPS else f"{letter(field)} = {value_text(at)}"
