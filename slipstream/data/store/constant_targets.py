"""Targets without variation: nothing can be learned from them, and errors cannot be measured.

Errors are relative to the size of the truth, normalised in the loss and in the composite error. A
target that has one value everywhere is zero once it is normalised, so that it counts nowhere; a
sample in which a target is zero has no relative error in physical units.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.data.store.manifest import TRAIN, Manifest
from slipstream.data.store.quantities import Quantity, quantities
from slipstream.data.store.statistics import Statistics

_NAMED = 3
"""How many samples are named; the others are counted."""
_CONSTANT_BELOW = 1e-6


def is_constant(statistics: Statistics, column: int) -> bool:
    """Whether a column has one value, rounding aside.

    float32 has about 7 digits: a spread below 1e-6 of the largest value is rounding.
    """
    largest = max(abs(statistics.low[column]), abs(statistics.high[column]))
    return statistics.std[column] <= _CONSTANT_BELOW * largest


def constant_targets(manifest: Manifest) -> list[str]:
    """A sentence for each target that is constant in training, or zero throughout in a sample."""
    targets = [one for one in quantities(manifest.origin) if one.part == "targets" and one.group]
    varying = varying_groups(manifest)
    sentences = []
    for target in targets:
        if target.group in varying:
            sentences += _zeros(manifest, target)
        elif manifest.statistics is not None:
            sentences.append(_constant(manifest.statistics, target))
    return sentences


def varying_groups(manifest: Manifest) -> set[str]:
    """The groups of targets that vary in training: the loss and the metric are made of these."""
    train = manifest.statistics
    return {
        target.group
        for target in quantities(manifest.origin)
        if target.part == "targets" and target.group and train is not None
        if not all(is_constant(train, column) for column in target.columns)
    }


def _constant(train: Statistics, target: Quantity) -> str:
    values = sorted({train.mean[column] for column in target.columns})
    value = "zero" if not any(values) else f"the same, {', '.join(f'{v:.4g}' for v in values)},"
    return (
        f"target {target.name!r} is {value} at every point of every sample of the split {TRAIN!r}:"
        " it can be neither learned nor measured, so loss and errors leave it out, and what a model"
        " predicts for it means nothing. Remove it from the targets, or correct its source, and"
        " ingest again"
    )


def _zeros(manifest: Manifest, quantity: Quantity) -> list[str]:
    zero = [
        sample
        for sample, entry in manifest.samples.items()
        if not any(entry.statistics.low[c] or entry.statistics.high[c] for c in quantity.columns)
    ]
    if not zero:
        return []
    return [
        f"target {quantity.name!r} is zero at every point of {len(zero)} of"
        f" {len(manifest.samples)} samples, {_some(zero)}: they have no relative error of it in"
        " physical units"
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
