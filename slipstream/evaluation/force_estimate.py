"""Forces from some of the faces of a surface, drawn at random, with an interval for each.

A sum over n faces is estimated by the mean over k that were drawn of the value of a face over the
chance to draw it (Horvitz and Thompson): unbiased whatever the field. Faces are drawn in one of two
ways. Uniformly without replacement, as the rows of a store: the chance is 1 / n. Or, where the
areas of all faces are known, by area with replacement (`draw_by_area`): then the values are
stresses times the whole area, and faces that are large by chance spoil nothing. A ratio of uniform
draws to the known area would be biased.

The interval is a bootstrap's of the studentised mean, symmetric: areas of a mesh differ by orders
of magnitude, and on such values Student's interval is too short (docs/forces.md has the figures).
The draws of the bootstrap are a function of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.evaluation.force_conventions import Conventions
from slipstream.evaluation.force_forms import common_form, dynamic_pressure
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.force_result import COEFFICIENTS
from slipstream.evaluation.forces import contributions, mirror

Values = NDArray[np.float64]
FEWEST = 30
"""Faces from which an interval is made."""
_COCHRAN = 25
"""The mean of values needs this many times their squared skewness for intervals that hold."""
_RESAMPLES = 999
_CHUNK = 1 << 11
"""Values whose resamples are made in one piece, and kept: 16 MB."""


@dataclass(frozen=True)
class Interval:
    """An estimate, and the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Draw:
    """How faces were drawn: uniformly without replacement, or by area with replacement."""

    faces: int
    """Of the whole surface."""
    area: float | None = None
    """Of the whole surface, if each face was drawn with a chance that is its share of it."""

    def weighted(self, values: Values, vectors: Values) -> Values:
        """Values of faces (k, 3) over the chance to draw each."""
        if self.area is None:
            return values * self.faces
        return values * (self.area / np.linalg.norm(vectors, axis=1, keepdims=True))


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
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate_forces(
    vectors: Values,
    pressure: Values,
    shear: Values | None,
    reference: FlowReference,
    conventions: Conventions,
    draw: Draw,
    *,
    confidence: float = 0.95,
) -> ForceEstimate:
    """Forces on a whole surface from k faces of it that were drawn at random.

    `vectors` are their area vectors (k, 3) out of the body, pressure (k,) and shear (k, 3) the
    values on them. ValueError for fewer than 30, and for more without replacement than there are.
    """
    drawn = len(vectors)
    if drawn < FEWEST or (draw.area is None and drawn > draw.faces):
        most = "" if draw.area is not None else f" and at most {draw.faces:,}"
        raise ValueError(
            f"forces must be estimated from at least {FEWEST}{most} faces, got {drawn:,}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    each = sum(contributions(vectors, pressure, shear, reference, conventions))
    whole = mirror(np.asarray(each), np.zeros(3), reference)[0]
    along = draw.weighted(whole @ reference.axes.T, vectors)  # (k, 3)
    kept = 1.0 if draw.area is not None else 1 - drawn / draw.faces
    intervals = [mean_interval(along[:, i], kept, confidence) for i in range(3)]
    form = common_form(reference, conventions, shear is not None)
    stress, coefficients = dynamic_pressure(form, reference), {}
    if stress is not None and reference.area is not None:
        unit = stress * reference.area
        coefficients = {
            name: Interval(one.value / unit, one.low / unit, one.high / unit)
            for name, one in zip(COEFFICIENTS, intervals, strict=True)
        }
    named = dict(zip(("drag", "side", "lift"), intervals, strict=True))
    said = tuple(_doubts(along))
    return ForceEstimate(drawn, draw.faces, confidence, named, coefficients, said)


def _doubts(along: Values) -> Iterator[str]:
    """A warning where few faces carry most of a force, so that intervals may be too short."""
    spread = along.std(0)
    cubes = ((along - along.mean(0)) ** 3).mean(0)
    skewness = np.abs(np.divide(cubes, spread**3, out=np.zeros(3), where=spread > 0)).max()
    if len(along) < _COCHRAN * skewness**2:
        yield (
            f"few of the {len(along):,} faces drawn carry most of the force (skewness"
            f" {skewness:.3g}): intervals may be too short; draw more of them, or by area"
        )


def draw_by_area(areas: Values, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Faces drawn with replacement, each with a chance that is its share of the area, (count,)."""
    ends = np.cumsum(areas)
    at = np.random.default_rng(seed).random(count) * ends[-1]
    return np.searchsorted(ends, at, side="right").astype(np.int64)


def mean_interval(
    values: Values, kept: float = 1.0, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """The mean of what values (k,) were drawn from. `kept` is the share of the variance that is
    left by drawing without replacement: 1 - k / n."""
    mean = float(values.mean())
    centred = values - mean
    spread = float(centred.std(ddof=1))
    width = 0.0
    if spread > 0 and kept > 0:
        error = spread * (kept / len(values)) ** 0.5
        width = error * _studentised(centred / spread, confidence, seed)
    return Interval(mean, mean - width, mean + width)


def _studentised(values: Values, confidence: float, seed: int) -> float:
    """How many standard errors the mean of values like these (of mean 0) is off by at most."""
    count = len(values)
    pairs = np.stack((values, values**2), 1)
    blocks = _cached_times(count, seed) if count <= _CHUNK else _times(count, seed)
    sums = np.concatenate([times @ pairs for times in blocks])
    mean = sums[:, 0] / count
    variance = (sums[:, 1] - count * mean**2) / (count - 1)
    error = np.sqrt(np.maximum(variance, 0) / count)
    sizes = np.divide(np.abs(mean), error, out=np.full_like(mean, np.inf), where=error > 0)
    return float(np.quantile(sizes, confidence, method="higher"))


def _times(count: int, seed: int) -> Iterator[Values]:
    """How often each of `count` values is in each resample, some resamples at a time."""
    generator = np.random.default_rng(seed)
    rows = max(1, _RESAMPLES * _CHUNK // count)
    for first in range(0, _RESAMPLES, rows):
        here = min(rows, _RESAMPLES - first)
        drawn = generator.integers(0, count, (here, count))
        drawn += np.arange(here)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=here * count)
        yield times.reshape(here, count).astype(np.float64)


@lru_cache(maxsize=2)
def _cached_times(count: int, seed: int) -> tuple[Values, ...]:
    return tuple(_times(count, seed))
