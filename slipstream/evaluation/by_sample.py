"""The errors of one evaluation sample by sample, the worst first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.runs.evaluation_file import Evaluation, YardstickKind, number_name


@dataclass(frozen=True)
class SampleErrors:
    """Relative L1 errors of one sample, by variable; None where there is nothing to divide by."""

    sample: str
    errors: Mapping[str, float | None]
    composite: float | None
    """The error by which samples are ordered."""
    yardsticks: Mapping[YardstickKind, float | None]
    """The composite error of each yardstick on this sample."""
    neighbour: str | None
    """The nearest training sample; None where it is not known."""


def variables_of(evaluation: Evaluation) -> list[str]:
    return [n.variable for n in evaluation.numbers if n.measure == "L1" and n.variable is not None]


def worst_first(evaluation: Evaluation) -> list[SampleErrors]:
    """All samples, by falling composite error; those whose error is not known come first."""
    names = variables_of(evaluation)
    rows = []
    for sample, own in evaluation.samples.items():
        neighbours = [one.neighbours.get(sample) for one in evaluation.yardsticks]
        rows.append(
            SampleErrors(
                sample,
                {name: own.get(number_name("L1", name)) for name in names},
                own.get("composite"),
                {y.kind: y.samples.get(sample, {}).get("composite") for y in evaluation.yardsticks},
                next((name for name in neighbours if name is not None), None),
            )
        )
    return sorted(rows, key=_error, reverse=True)


def _error(row: SampleErrors) -> float:
    return math.inf if row.composite is None else row.composite
