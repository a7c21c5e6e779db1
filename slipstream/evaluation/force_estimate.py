"""Forces from some of the faces of a surface, drawn at random, with an interval for each.

A sum over n faces is estimated by n times the mean over k that were drawn without replacement
(Horvitz and Thompson): unbiased whatever the field, and all that it takes of the other faces is
their number. A ratio to the known area would be biased, and has a smaller variance only where the
force of a face goes with its area, which that of a pressure of changing sign does not.

The interval is a bootstrap's of the studentised mean, symmetric: areas of a mesh differ by orders
of magnitude, and on such values Student's interval is too short (docs/forces.md). The draws of the
bootstrap are a function of the seed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.plain_checks import check_whole
from slipstream.evaluation.force_conventions import Conventions
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.force_result import COEFFICIENTS
from slipstream.evaluation.forces import (
    common_form,
    contributions,
    dynamic_pressure,
    mirror,
)

Values = NDArray[np.float64]
FEWEST = 30
"""Faces from which an interval is made."""
_RESAMPLES = 999


@dataclass(frozen=True)
class Interval:
    """An estimate, and the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ForceEstimate:
    drawn: int
    faces: int
    """Of which they were drawn."""
    confidence: float
    force: dict[str, Interval]
    """Along drag, side and lift, as `drag`, `side`, `lift`, in the unit of the forces."""
    coefficients: dict[str, Interval]
    """cd, cs and cl; empty where area or dynamic pressure are not known."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate_forces(
    vectors: Values,
    pressure: Values,
    shear: Values | None,
    reference: FlowReference,
    conventions: Conventions,
    *,
    faces: int,
    confidence: float = 0.95,
    seed: int = 0,
) -> ForceEstimate:
    """Forces on a surface of `faces` faces from k of them, drawn at random without replacement.

    `vectors` are the area vectors (k, 3) out of the body, pressure (k,) and shear (k, 3) the values
    on these faces. ValueError for fewer than 30 faces, or more than there are.
    """
    check_whole("faces", faces, 1)
    if not FEWEST <= len(vectors) <= faces:
        raise ValueError(
            f"an estimate must be made from {FEWEST} to all {faces} faces, got {len(vectors)}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    each = sum(contributions(vectors, pressure, shear, reference, conventions))
    whole = mirror(np.asarray(each), np.zeros(3), reference)[0]
    along = whole @ reference.axes.T  # (k, 3)
    intervals = [total_interval(along[:, i], faces, confidence, seed) for i in range(3)]
    form = common_form(reference, conventions, shear is not None)
    stress, coefficients = dynamic_pressure(form, reference), {}
    if stress is not None and reference.area is not None:
        unit = stress * reference.area
        coefficients = {
            name: Interval(one.value / unit, one.low / unit, one.high / unit)
            for name, one in zip(COEFFICIENTS, intervals, strict=True)
        }
    named = dict(zip(("drag", "side", "lift"), intervals, strict=True))
    return ForceEstimate(len(vectors), faces, confidence, named, coefficients)


def total_interval(values: Values, count: int, confidence: float, seed: int) -> Interval:
    """The sum of `count` numbers from some of them, drawn at random without replacement."""
    drawn = len(values)
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    error = count * spread * ((1 - drawn / count) / drawn) ** 0.5
    width = error * _studentised(values, mean, confidence, seed) if spread > 0 else 0.0
    return Interval(count * mean, count * mean - width, count * mean + width)


def _studentised(values: Values, mean: float, confidence: float, seed: int) -> float:
    """How many standard errors the mean is off by at most, with this confidence."""
    draw = np.random.default_rng(seed)
    sizes = np.empty(_RESAMPLES)
    for index in range(_RESAMPLES):
        again = values[draw.integers(0, len(values), len(values))]
        error = again.std(ddof=1) / len(values) ** 0.5
        sizes[index] = abs(again.mean() - mean) / error if error > 0 else np.inf
    return float(np.quantile(sizes, confidence, method="higher"))
