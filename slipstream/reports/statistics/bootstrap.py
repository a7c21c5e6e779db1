"""Intervals of a ratio of errors over seeds and test samples.

A table of errors has a row for each seed and a column for each test sample. Two variants were
tested on the same samples, so the samples are drawn once for both (paired), and the seeds of each
variant by themselves; both with replacement. What is hard for one variant is mostly hard for the
other, and this part cancels.

With three seeds an interval of this kind is too narrow, by about 40 %: it has sqrt(2/3) of the
scatter, and 1.96 where Student's t has 2.78. It shows whether few samples or few seeds limit the
answer, and Welch's interval decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 4000


def paired_interval(
    errors: Floats, base: Floats, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float, float]:
    """The ratio of the mean errors, and an interval of percentiles; the same at every call.

    `errors` (seeds, samples) and `base` (its seeds, the same samples) are positive. A single seed
    is not drawn anew, so that the interval is then over the samples alone.
    """
    if errors.ndim != 2 or base.ndim != 2 or errors.shape[1] != base.shape[1]:
        raise ValueError(
            "errors and base must have shapes (seeds, samples) with equal samples, got"
            f" {errors.shape} and {base.shape}"
        )
    random = np.random.Generator(np.random.Philox(key=seed))
    samples = _counts(random, errors.shape[1], draws)
    above = _means(errors, _counts(random, len(errors), draws), samples)
    below = _means(base, _counts(random, len(base), draws), samples)
    ends = np.quantile(above / below, [(1 - level) / 2, (1 + level) / 2])
    return float(errors.mean() / base.mean()), float(ends[0]), float(ends[1])


def _counts(random: np.random.Generator, size: int, draws: int) -> Floats:
    """(draws, size): how often each of `size` things is drawn, over their number."""
    return random.multinomial(size, np.full(size, 1 / size), size=draws) / size


def _means(errors: Floats, seeds: Floats, samples: Floats) -> Floats:
    """(draws,): the weighted mean of a table."""
    return np.einsum("dn,dn->d", seeds @ errors, samples)
