"""Tables that explain errors: what theory says, what the physics predicts, how slices are used."""

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
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, main_groups
from slipstream.reports.study.study_tables import NOT_RUN, words


def insight_tables(runs: Sequence[RunData]) -> list[Table]:
    groups = main_groups(runs)
    found = (budgets(groups), locality_table(groups), slices_table(groups))
    return [table for table in found if table is not None]


def budgets(groups: Sequence[Group]) -> Table | None:
    """What the theory says of each variant, beside what it was measured to cost."""
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
        rows.append(tuple(map(words, texts)))
    caption = (
        "Nonlocal budget (numbers that pass between points: L layers, G slices, c channels) and"
        " hard ceiling by the paper's theory; measured cost is the validation error over the"
        f" baseline's, over {len(groups)} experiment{'s' if len(groups) > 1 else ''}."
    )
    columns = ("variant", "nonlocal budget", "hard ceiling", "measured cost")
    return Table("budgets", "Budgets and cost", caption, columns, tuple(rows))


def _cost(name: str, ratios: Sequence[float]) -> str:
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
        errors, told = group.summaries("L1"), group.locality
        for variable, predicted in told.errors.items() if told else ():
            found = [errors.get((name, variable)) for name in (BASELINE, POINTWISE)]
            cells = [NOT_RUN if s is None else Cell(s.mean, s.std) for s in found]
            kind = {"limit": "lower limit", "theory": "local theory"}[told.kind] if told else ""
            rows.append(
                (words(group.experiment), words(variable), *cells, Cell(predicted), words(kind))
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
        for one in group.first_seeds():
            for place, layer in enumerate(one.slices, start=1):
                names = (words(group.experiment), *map(words, headings([one.variant])))
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
