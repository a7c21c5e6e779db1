"""Two answers for data whose targets are the later state of their inputs.

persistence   the state stays as it is
scaling       the state times a constant, one for each lead time and variable: that with the least
              mean relative L1 error on the training set, which is a weighted median
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.data.store import LATER, LEAD_TIME, Schema, Store
from slipstream.evaluation.locality import weighted_median
from slipstream.evaluation.neighbours import evenly, read_first

MOST_PAIRS, PAIR_POINTS = 1024, 512
"""Training samples, evenly over the split, and the first points of each, that fit the constants."""

Columns = tuple[slice, slice]
"""Of one variable: the columns of the later state, and those of the state."""


def state_columns(schema: Schema) -> tuple[Columns, ...]:
    """The columns of every target; none where some target is not the later state of a feature."""
    features = {field.name: field.components for field in schema.features}
    columns = []
    for target in schema.targets:
        state = target.name.removeprefix(LATER)
        if state == target.name or features.get(state) != target.components:
            return ()
        columns.append((schema.columns(target.name), schema.columns(state)))
    return tuple(columns)


@dataclass(frozen=True)
class Scaling:
    """The later state as a multiple of the state."""

    columns: tuple[Columns, ...]
    lead: int | None
    """The column of the lead time; None where all samples have the same."""
    factors: dict[float, tuple[float, ...]]
    """By lead time: a constant for each variable."""

    def __call__(self, sample: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The targets, from a sample's rows; a lead time not seen in training takes the constants
        of the closest one."""
        own = _lead_of(rows, self.lead)
        factors = self.factors[min(self.factors, key=lambda known: abs(known - own))]
        parts = [
            np.float32(f) * rows[:, s] for f, (_, s) in zip(factors, self.columns, strict=True)
        ]
        return np.concatenate(parts, 1)


def persistence(columns: tuple[Columns, ...]) -> Scaling:
    return Scaling(columns, None, {0.0: (1.0,) * len(columns)})


def fit_scaling(store: Store, columns: tuple[Columns, ...]) -> Scaling:
    """The best constants on the training split.

    The error sum |c x - y| / sum |y|, averaged over samples, is a sum of |c - y / x| with the
    weights |x| / sum |y|, which is least at their weighted median.
    """
    names = {field.name for field in store.schema.features}
    lead = store.schema.columns(LEAD_TIME).start if LEAD_TIME in names else None
    by_lead: dict[float, list[NDArray[np.float32]]] = defaultdict(list)
    for sample in evenly(store.ids("train"), MOST_PAIRS):
        rows = read_first(store, sample, PAIR_POINTS)
        by_lead[_lead_of(rows, lead)].append(rows)
    factors = {
        time: tuple(_best_factor(samples, own) for own in columns)
        for time, samples in sorted(by_lead.items())
    }
    return Scaling(columns, lead, factors)


def _lead_of(rows: NDArray[np.float32], lead: int | None) -> float:
    return 0.0 if lead is None else float(rows[0, lead])


def _best_factor(samples: list[NDArray[np.float32]], columns: Columns) -> float:
    ratios, weights = [], []
    for rows in samples:
        later, state = (rows[:, own].astype(np.float64).ravel() for own in columns)
        some = state != 0
        if some.any() and later.any():
            ratios.append(later[some] / state[some])
            weights.append(np.abs(state[some]) / np.abs(later).sum())
    if not ratios:
        return 1.0
    joined = (torch.from_numpy(np.concatenate(part)) for part in (ratios, weights))
    return float(weighted_median(*joined))
