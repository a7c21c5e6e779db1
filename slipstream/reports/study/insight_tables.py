"""Tables that explain errors: limits by theory, predictions by physics, and use of the slices."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.models.variants import (
    BASELINE,
    POINTWISE,
    headings,
    in_table_order,
    variant_or_default,
)
from slipstream.reports.content import Cell, Table
from slipstream.reports.study.captions import measured_alike, where_measured
from slipstream.reports.study.cells import NOT_RUN, text_cell
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, main_groups


def insight_tables(runs: Sequence[RunData]) -> list[Table]:
    groups = main_groups(runs)
    tables = (budgets(groups), locality_table(groups), slices_table(groups))
    return [table for table in tables if table is not None]


def budgets(groups: Sequence[Group]) -> Table | None:
    """The nonlocal budget of each variant by theory, beside its measured cost."""
    costs: dict[str, list[float]] = {}
    for group in groups:
        for row in group.rows():
            if row.ratio is not None:
                costs.setdefault(row.variant, []).append(row.ratio)
    if BASELINE not in costs:
        return None
    rows = []
    for name in in_table_order(costs):
        variant = variant_or_default(name)
        texts = (variant.heading, variant.budget, variant.ceiling, _cost(name, costs[name]))
        rows.append(tuple(map(text_cell, texts)))
    caption = (
        "Nonlocal budget (numbers that pass between points: L layers, G slices, c channels) and"
        " hard ceiling by the paper's theory; measured cost is the validation error over the"
        f" baseline's, over {len(groups)} experiment{'s' if len(groups) > 1 else ''}."
    )
    columns = ("variant", "nonlocal budget", "hard ceiling", "measured cost")
    return Table("budgets", "Budgets and cost", caption, columns, tuple(rows))


def _cost(name: str, ratios: Sequence[float]) -> str:
    """The range of the ratios, as "+0.5 % to +3.8 %" below 1.3 and as "1.20× to 1.61×" above."""
    if name == BASELINE:
        return "reference"
    low, high = min(ratios), max(ratios)
    ends = (low,) if high == low else (low, high)
    if high < 1.3:
        return " to ".join(f"{100 * (end - 1):+.1f} %" for end in ends)
    return " to ".join(f"{end:.2f}×" for end in ends)


def locality_table(groups: Sequence[Group]) -> Table | None:
    """Test errors without coupling, beside what the physics predicts for a pointwise answer."""
    rows = []
    for group in groups:
        errors, locality = group.summaries("L1"), group.locality
        if locality is None:
            continue
        kind = {"limit": "lower limit", "theory": "local theory"}[locality.kind]
        for variable, predicted in locality.errors.items():
            summaries = [errors.get((name, variable)) for name in (BASELINE, POINTWISE)]
            cells = [NOT_RUN if s is None else Cell(s.mean, s.std) for s in summaries]
            rows.append(
                (
                    text_cell(group.experiment),
                    text_cell(variable),
                    *cells,
                    Cell(predicted),
                    text_cell(kind),
                )
            )
    if not rows:
        return None
    caption = (
        "Relative L1 test error in physical units. The prediction is of a pointwise answer, from"
        " the physics: for Poisson the best that place and density allow, a lower limit (to 0.01,"
        " in records from before 16 November 2026 to 0.03); for potential flow local-inclination"
        " theory, which a model that knows the place may beat: pressure and velocity on the wall as"
        " a function of the angle between wall and stream, and in the volume of the distance from"
        " the wall."
    )
    pair = (BASELINE, POINTWISE)
    if not all(measured_alike(group, "L1", pair) for group in groups):
        caption += f" Not all were measured alike: {where_measured(groups, 'L1', pair)}."
    columns = ("experiment", "variable", BASELINE, POINTWISE, "predicted", "which is a")
    return Table("locality", "Where the physics is nonlocal", caption, columns, tuple(rows))


def slices_table(groups: Sequence[Group]) -> Table | None:
    """How the slices of each layer are used, means over the heads, of a variant's first seed."""
    rows = []
    for group in groups:
        for evaluation in group.first_seeds():
            for place, layer in enumerate(evaluation.slices, start=1):
                names = (
                    text_cell(group.experiment),
                    *map(text_cell, headings([evaluation.variant])),
                )
                use = [
                    Cell(layer.mean("entropy")),
                    Cell(layer.largest_entropy),
                    Cell(layer.mean("effective")),
                    Cell(layer.slices, kind="count"),
                    Cell(layer.mean("dead")),
                    Cell(layer.mean("temperature")),
                ]
                rows.append((*names, Cell(place, kind="count"), *use))
    if not rows:
        return None
    caption = (
        "On the sample of the pictures, means over points and heads: entropy of a point's weights"
        " in nats and the most there can be (ln G), effective number of slices of G, slices whose"
        " mean weight is below 1 % of 1 / G, temperature."
    )
    columns = (
        "experiment", "variant", "layer", "entropy", "ln G", "effective", "G", "dead",
        "temperature",
    )  # fmt: skip
    return Table("slices", "Use of the slices", caption, columns, tuple(rows))
