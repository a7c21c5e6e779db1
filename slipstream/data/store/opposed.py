"""Samples in which a vector points the other way than in the rest: a sign that is wrong there.

Wall shear has two sign conventions, and each mesh by itself looks right. Compared are means over a
sample's points, where they are a good part of the field's size: with one line for all samples, with
inputs that are vectors, as the velocity of the free stream, and with the signs of inputs that are
numbers, as a load. What agrees best decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_SAMPLES = 4
_LEAST_MEAN = 0.2
"""Of the mean's size over the root mean square of the field, so that its direction says something.
The wall shear of bodies in a stream has 0.3 to 0.9."""
_LEAST_COSINE = 0.7
"""Of the angle between the mean and what it is compared with: 45 degrees."""
_SHARE = 0.9
"""Of the samples, in which both must hold."""


def opposed(mean: Numbers, std: Numbers, inputs: Sequence[Numbers]) -> Flags:
    """The samples whose vectors point against those of the others: fewer than half, or half.

    `mean` and `std` (samples, 3) are of the field; `inputs`, each (samples, 3) or (samples, 1), are
    constant within a sample.
    """
    size = np.linalg.norm(mean, axis=1)
    clear = size > _LEAST_MEAN * np.sqrt((mean**2 + std**2).sum(1))
    nothing = np.zeros(len(mean), bool)
    if clear.sum() < max(LEAST_SAMPLES, _SHARE * len(mean)):
        return nothing
    units = np.where(clear, 1 / np.where(clear, size, 1), 0)[:, None] * mean
    line = np.linalg.svd(units[clear], full_matrices=False)[2][0]
    compared = [units @ line]
    for values in inputs:
        length = np.linalg.norm(values, axis=1)
        if np.isfinite(length).all() and (length > 0).all():
            toward = values if values.shape[1] == 3 else values * line
            compared.append((units * toward).sum(1) / length)
    sides = [_fewer(cosine, clear) for cosine in compared if _is_along(cosine, clear)]
    return min(sides, key=lambda flags: flags.sum(), default=nothing)


def _is_along(cosine: Numbers, clear: Flags) -> bool:
    return bool((np.abs(cosine[clear]) > _LEAST_COSINE).sum() >= _SHARE * len(clear))


def _fewer(cosine: Numbers, clear: Flags) -> Flags:
    """Those on the side where fewer are; of two halves the one without the first sample."""
    flags = [clear & (side * cosine > _LEAST_COSINE) for side in (1, -1)]
    return min(flags, key=lambda own: (own.sum(), own[0]))
