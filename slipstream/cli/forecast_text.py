"""What `slipstream forecast` says: one sentence, a table, and what the answer is of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.cli.terminal import new_table
from slipstream.evaluation.calibration import percent
from slipstream.runs.config import RunConfig
from slipstream.training.forecast_answer import Answer
from slipstream.training.learning_curve import FARTHEST, Interval, Trainings

if TYPE_CHECKING:
    from rich.table import Table

LIMITED = 0.7
"""A model whose error on its own training samples is this share of that on new ones is limited by
its training and size at least as much as by the number of samples."""
FEW = 10
"""Validation samples below which the answer depends on which they are."""


def sentence(found: Answer) -> str:
    """The answer."""
    target, now = percent(found.target), found.errors[found.samples]
    if found.verdict == "reached":
        return f"{target} is reached already with {found.samples} samples: {_error(now)}."
    if found.verdict == "never":
        still = f"with {FARTHEST} times as many the error would still be {_error(found.limit)}"
        if found.own_share > LIMITED:
            return (
                f"No number of runs will do for {target} with this model and training, which are"
                f" what limits it: {still}."
            )
        return f"No number of runs will do for {target}, the curve levels off: {still}."
    low, middle = (_more(found, value) for value in (found.needed.low, found.needed.middle))
    if found.verdict == "needed":
        high = _more(found, found.needed.high)
        return (
            f"About {middle} more runs ({low} to {high}) for {target}, beside the {found.samples}"
            f" in the training split: {_error(now)} now."
        )
    least = f"at least {low} more" if low != "0" else "perhaps none"
    return (
        f"How many runs {target} takes cannot be told from {found.samples} samples: {least}, and"
        f" with a probability of {found.none_suffices:.2g} no number will do; {_error(now)} now."
    )


def notes(found: Answer, config: RunConfig, field: str | None, *, validation: int) -> Iterator[str]:
    """What the answer is of, and what to be careful about."""
    size = config.model.size
    what = f"of {field}" if field else "in the mean over all targets"
    yield (
        f"This is the relative error {what} on new designs like those of the store, with"
        f" {percent(found.level)} intervals for one new training of a small model"
        f" ({size.layers} layer{'s' if size.layers > 1 else ''} of width {size.width},"
        f" {config.steps:,} steps): the model of the paper's size may do better."
    )
    if found.own_share > LIMITED and found.verdict != "reached":
        yield (
            "Note: on its own training samples the error of the model is"
            f" {100 * found.own_share:.0f} % of that on new ones: its training or size"
            " limits it, as much as the number of runs or more."
            f" --steps {4 * config.steps} (and another --out) shows which."
        )
    if validation < FEW:
        yield f"Note: there are {validation} validation samples, and the answer depends on them."


def error_table(found: Answer, trainings: Trainings) -> Table:
    """The errors seen, then those forecast."""
    table = new_table("relative L1 error")
    for heading in ("training samples", "on new ones", "on its own", "trainings"):
        table.add_column(heading, justify="right")
    means, own_means = trainings.means(), trainings.own_means()
    for size in sorted(set(trainings.sizes.tolist())):
        at = trainings.sizes == size
        own = own_means[at].mean()
        table.add_row(str(size), f"{means[at].mean():.4f}", f"{own:.4f}", str(int(at.sum())))
    for size, said in found.errors.items():
        if size > found.samples:
            table.add_row(str(size), _error(said), "", "forecast")
    return table


def as_json_value(
    found: Answer, trainings: Trainings, said: list[str], *, out: Path
) -> dict[str, Any]:
    """JSON has no infinity: null is `no number`."""
    means = trainings.means()
    rows = zip(
        trainings.sizes.tolist(), means.tolist(), trainings.own_means().tolist(), strict=True
    )
    seen = [{"samples": n, "error": error, "own_error": own} for n, error, own in rows]
    plain = {
        **asdict(found),
        "needed": {
            name: None if math.isinf(value) else value
            for name, value in asdict(found.needed).items()
        },
    }
    return {**plain, "trainings": seen, "answer": said[0], "notes": said[1:], "out": str(out)}


def _error(said: Interval) -> str:
    return f"{said.middle:.3g} ({said.low:.3g} to {said.high:.3g})"


def _more(found: Answer, samples: float) -> str:
    """How many more than there are, with two digits; none is fewer than 0."""
    more = max(0.0, samples - found.samples)
    if math.isinf(more):
        return "any number"
    digits = max(0, math.floor(math.log10(more)) - 1) if more >= 1 else 0
    return f"{math.ceil(more / 10**digits) * 10**digits:,}"
