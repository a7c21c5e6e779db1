"""The tables of errors, as the paper has them, made from the records of runs."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.evaluation.against_yardsticks import (
    HEADINGS,
    in_validation,
    unbeaten,
    yardsticks_of,
)
from slipstream.evaluation.compare import Row
from slipstream.evaluation.summary import spread_text
from slipstream.models.variants import BASELINE, headings, in_table_order
from slipstream.reports.content import Cell, Table
from slipstream.reports.study.captions import (
    facts_by_owner,
    measured_alike,
    what_is_measured,
    where_measured,
)
from slipstream.reports.study.cells import (
    MISSING,
    NOT_RUN,
    UNFINISHED,
    error_cell,
    ratio_cell,
    text_cell,
    variants_of,
    with_best,
)
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.planned import lost_variants
from slipstream.reports.study.settings import Group, main_groups
from slipstream.reports.study.sweep_tables import sweep_tables
from slipstream.runs.evaluation_file import number_name

HEADLINE = (BASELINE, "no-token-attention")


def study_tables(runs: Sequence[RunData]) -> list[Table]:
    """All tables for which the runs have results."""
    groups = main_groups(runs)
    tables = [main_table(groups), ratio_table(groups)]
    tables += [per_variable(groups, measure) for measure in ("L1", "L2")]
    tables += [noise(groups), grid(groups), capacity(groups)]
    return [*(table for table in tables if table is not None), *sweep_tables(runs)]


def main_table(groups: Sequence[Group]) -> Table:
    """Best validation error, mean and std over the seeds."""
    lost = {group.experiment: lost_variants(group) for group in groups}
    variants = in_table_order([*variants_of(groups), *(v for own in lost.values() for v in own)])
    bounds = {group.experiment: in_validation(group.evaluations) for group in groups}
    kinds = [kind for kind in HEADINGS if any(kind in own for own in bounds.values())]
    rows = []
    for group in groups:
        by_variant = {variant: UNFINISHED for variant in group.variants}
        by_variant |= {row.variant: error_cell(row) for row in group.rows()}
        by_variant |= {variant: MISSING for variant in lost[group.experiment]}
        cells = [by_variant.get(variant, NOT_RUN) for variant in variants]
        beside = [_bound_cell(bounds[group.experiment].get(kind)) for kind in kinds]
        rows.append((text_cell(group.experiment), *with_best(cells), *beside))
    caption = (
        "Best validation relative L1 error on normalised outputs, mean over groups and samples, at"
        f" equal steps ({_steps(groups)}); mean ± standard deviation where there are several seeds"
        f" ({_seeds(groups)}). Best of a row in bold."
    )
    if kinds:
        caption += " The last columns are answers without a model, on the same samples."
    columns = ("experiment", *headings(variants), *(HEADINGS[kind] for kind in kinds))
    return Table("main", "Validation error", caption, columns, tuple(rows), failure_notes(groups))


def failure_notes(groups: Sequence[Group]) -> tuple[str, ...]:
    """Whose errors say nothing about the variant, and why."""
    return tuple(
        f"{group.experiment}, {variant}: {failure}."
        for group in groups
        for variant, failure in group.failures().items()
    )


def ratio_table(groups: Sequence[Group]) -> Table | None:
    """Best validation error over the baseline's."""
    variants = [variant for variant in variants_of(groups) if variant != BASELINE]
    rows = []
    for group in groups:
        by_variant = {row.variant: row for row in group.rows()}
        if BASELINE in by_variant and len(by_variant) > 1:
            cells = [
                ratio_cell(by_variant.get(variant), by_variant[BASELINE]) for variant in variants
            ]
            rows.append((text_cell(group.experiment), *cells))
    if not rows:
        return None
    caption = (
        "Validation error over the baseline's; the spread follows from those of both, to first"
        " order."
    )
    columns = ("experiment", *headings(variants))
    notes = failure_notes(groups)
    return Table("ratio", "Cost of each ablation", caption, columns, tuple(rows), notes)


def _steps(groups: Sequence[Group]) -> str:
    return "; ".join(f"{g.experiment} {row.step:,}" for g in groups for row in g.rows()[:1])


def _seeds(groups: Sequence[Group]) -> str:
    """Seeds of each variant, as "baseline 3, mlp-only 1 to 2" where experiments differ."""
    counts: dict[str, list[int]] = {}
    for row in (row for group in groups for row in group.rows()):
        counts.setdefault(row.variant, []).append(len(row.seeds))
    extremes = {variant: sorted({min(own), max(own)}) for variant, own in counts.items()}
    texts = {variant: " to ".join(map(str, ends)) for variant, ends in extremes.items()}
    if len(set(texts.values())) == 1:
        return f"{next(iter(texts.values()))} each"
    return ", ".join(f"{variant} {text}" for variant, text in texts.items())


def per_variable(groups: Sequence[Group], measure: str) -> Table | None:
    """Test errors of each variable in physical units."""
    variants, rows, shown = variants_of(groups), [], []
    yardsticks = {group.experiment: yardsticks_of(group.evaluations) for group in groups}
    kinds = [k for k in HEADINGS if any(k == y.kind for own in yardsticks.values() for y in own)]
    notes: list[str] = []
    for group in groups:
        errors, alike = group.summaries(measure), measured_alike(group, measure)
        notes += unbeaten(list(errors.values()), yardsticks[group.experiment])
        shown += list(errors.values())
        for variable in dict.fromkeys(variable for _, variable in errors):
            summaries = [errors.get((variant, variable)) for variant in variants]
            cells = [NOT_RUN if s is None else Cell(s.mean, s.std) for s in summaries]
            names = text_cell(group.experiment), text_cell(str(variable))
            name = number_name(measure, variable)
            bounds = {y.kind: y.errors.get(name) for y in yardsticks[group.experiment]}
            beside = [_bound_cell(bounds.get(kind)) for kind in kinds]
            rows.append((*names, *(with_best(cells) if alike else cells), *beside))
    if not rows:
        return None
    where = where_measured(groups, measure)
    sentences = [what_is_measured(groups, measure)]
    sentences.append(f"On the test split, {where}." if where else "")
    if not all(measured_alike(group, measure) for group in groups):
        sentences.append("A row that was measured in several ways has no best.")
    texts = {y.kind: y.definition for own in yardsticks.values() for y in own}
    sentences += [f"{capital(HEADINGS[kind])}: {texts[kind]}." for kind in kinds]
    caption = " ".join(text for text in (*sentences, spread_text(shown)) if text)
    title = f"Test error of each variable, relative {measure}"
    columns = ("experiment", "variable", *headings(variants), *(HEADINGS[kind] for kind in kinds))
    name = f"variables-{measure.lower()}"
    return Table(name, title, caption, columns, tuple(rows), tuple(dict.fromkeys(notes)))


def _bound_cell(error: float | None) -> Cell:
    return text_cell("-") if error is None else Cell(error)


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def noise(groups: Sequence[Group]) -> Table | None:
    """How much the choice of points matters: spread of the baseline's errors over repeats."""
    rows, draws = [], []
    for evaluation in (evaluation for group in groups for evaluation in group.evaluations):
        experiment, seed = evaluation.experiment, evaluation.seed
        for number in evaluation.numbers:
            share = number.relative_std
            if (evaluation.variant, number.measure) == (BASELINE, "L1") and share is not None:
                draws.append((str(evaluation.protocol.repeats), experiment, f"seed {seed}"))
                error = Cell(number.mean, number.std, digits=4)
                names = (experiment, str(seed), str(number.variable))
                rows.append((*map(text_cell, names), error, text_cell(f"{100 * share:.2g} %")))
    if not rows:
        return None
    count, what = facts_by_owner(draws), "independent draws of the points"
    caption = (
        "Relative L1 error of the baseline on the test split, physical units: mean ± standard"
        f" deviation over {f'{count} {what}' if count.isdigit() else f'{what}: {count}'}."
    )
    columns = ("experiment", "seed", "variable", "error", "relative std")
    return Table("noise", "Subsampling noise", caption, columns, tuple(rows))


GRID = ((BASELINE, "no-token-attention"), ("untied", "untied-no-token-attention"))
"""Rows: tied, untied. Columns: with attention, without."""


def grid(groups: Sequence[Group]) -> Table | None:
    """Change of the error against the tied baseline, with and without attention and tying."""
    rows = []
    for group in groups:
        by_variant = {row.variant: row for row in group.rows()}
        if not {name for line in GRID for name in line} <= by_variant.keys():
            continue
        for projections, line in zip(("tied", "untied"), GRID, strict=True):
            cells = [_change(by_variant[name], by_variant[BASELINE]) for name in line]
            rows.append((text_cell(group.experiment), text_cell(projections), *cells))
        if "untied-ln" in by_variant:
            cell = _change(by_variant["untied-ln"], by_variant[BASELINE])
            rows.append(
                (text_cell(group.experiment), text_cell("untied, LinearNO"), text_cell(""), cell)
            )
    if not rows:
        return None
    caption = (
        "Change of the validation error against the tied baseline; the spread is that of the"
        " variant's own seeds, in per cent of the baseline."
    )
    columns = ("experiment", "projections", "with token attention", "without")
    return Table("grid", "Token attention and tying", caption, columns, tuple(rows))


def _change(row: Row, base: Row) -> Cell:
    std = None if row.std is None else 100 * row.std / base.mean
    return Cell(100 * (row.mean / base.mean - 1), std, kind="percent", digits=2)


def capacity(groups: Sequence[Group]) -> Table | None:
    """Errors of pointwise models by size: whether a wider one makes up for the missing coupling."""
    rows = []
    for group in groups:
        by_variant = {row.variant: row for row in group.rows()}
        if not {BASELINE, "mlp-only", "mlp-only-wide"} <= by_variant.keys():
            continue
        counts = {run.variant: run.parameters for run in group.runs}
        for name in ("mlp-only", "mlp-only-wide", BASELINE):
            share = (counts[name] or 0) / (counts[BASELINE] or 1)
            rows.append(
                (
                    text_cell(group.experiment),
                    text_cell(name),
                    Cell(counts[name], kind="count"),
                    Cell(share, kind="ratio"),
                    error_cell(by_variant[name]),
                    ratio_cell(by_variant[name], by_variant[BASELINE]),
                )
            )
    if not rows:
        return None
    caption = "Validation error of pointwise models, by their number of parameters."
    columns = ("experiment", "variant", "parameters", "of the baseline's", "error", "ratio")
    return Table("capacity", "Capacity control", caption, columns, tuple(rows))
