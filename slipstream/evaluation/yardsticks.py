"""What a model must beat: errors of two predictions that need no training.

mean      every target is its mean over the training set, at all points
nearest   the targets of the nearest training sample (neighbours.py), each point taking those of the
          point that is closest to it, by coordinates as they are

Both are measured as the model is, on the same samples, but at the first POINTS points of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.data.batches import Normaliser
from slipstream.data.store import Store
from slipstream.evaluation.measure import MeasuredErrors, errors_of, measures
from slipstream.evaluation.neighbours import MOST_TRAINING, candidates, nearest_samples, read_first
from slipstream.metrics import Errors
from slipstream.runs.evaluation_file import Yardstick, YardstickKind

POINTS = 4096
"""Points of a sample at which the yardsticks are measured."""
SOURCE_POINTS = 65_536
"""Points of the nearest training sample from which values are taken."""
_ROUNDING = 1e-12
_AT_ONCE = 1024
"""Points whose distances are computed together where there is no KD-tree."""

Answer = Callable[[str, NDArray[np.float32]], NDArray[np.float32]]
"""The targets as stored, from a sample and its rows."""


def measure_yardsticks(store: Store, normaliser: Normaliser, split: str) -> tuple[Yardstick, ...]:
    """The errors of both yardsticks on a split; the normaliser is the model's."""
    samples = store.ids(split)
    mean = np.array(store.statistics.mean, np.float32)[store.schema.columns("targets")]
    neighbours = nearest_samples(store, samples)
    made = [_measured("mean", store, normaliser, samples, lambda _, rows: _constant(mean, rows))]
    if len(neighbours) == len(samples):
        transfer = _Transfer(store, neighbours)
        made.append(_measured("nearest", store, normaliser, samples, transfer, neighbours))
    return tuple(made)


def _constant(values: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.broadcast_to(values, (len(rows), len(values)))


class _Transfer:
    """Values of the nearest training sample, at the points of another one."""

    def __init__(self, store: Store, neighbours: dict[str, str]) -> None:
        self.store, self.neighbours = store, neighbours

    def __call__(self, sample: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        source = read_first(self.store, self.neighbours[sample], SOURCE_POINTS)
        coords, targets = (self.store.schema.columns(part) for part in ("coords", "targets"))
        return source[closest_points(source[:, coords], rows[:, coords]), targets]


def closest_points(source: NDArray[np.float32], at: NDArray[np.float32]) -> NDArray[np.intp]:
    """For each point of `at`, the number of the closest one of `source`."""
    try:
        from scipy.spatial import KDTree
    except ModuleNotFoundError:  # it comes with the extra `mesh`
        pieces = [_closest(source, at[i : i + _AT_ONCE]) for i in range(0, len(at), _AT_ONCE)]
        return np.concatenate(pieces)
    return np.asarray(KDTree(source).query(at)[1], np.intp)


def _closest(source: NDArray[np.float32], at: NDArray[np.float32]) -> NDArray[np.intp]:
    # By differences: the quicker products of matrices lose what is close in fp32.
    how = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(torch.from_numpy(at.copy()), torch.from_numpy(source.copy()), 2.0, how)
    return distances.argmin(1).numpy()


def _measured(
    kind: YardstickKind,
    store: Store,
    normaliser: Normaliser,
    samples: Sequence[str],
    answer: Answer,
    neighbours: dict[str, str] | None = None,
) -> Yardstick:
    kinds, parts = measures(store.schema), []
    for sample in samples:
        rows = read_first(store, sample, POINTS)
        truth = rows[:, store.schema.columns("targets")]
        given, true = (_as_batch(values) for values in (answer(sample, rows), truth))
        normalised = normaliser.targets.forward(given)
        parts.append(errors_of(normaliser, normalised, true, kinds, [sample]))
    joined = {
        name: (Errors.joined(groups, [part[name] for part in parts]),)
        for name, (groups, _) in kinds.items()
    }
    measured = MeasuredErrors(joined)
    means = {number.name: number.mean for number in measured.numbers()}
    # Normalising and undoing it leaves 1e-17 where the values are those of the truth.
    errors = {name: 0.0 if error is not None and error < _ROUNDING else error
              for name, error in means.items()}  # fmt: skip
    definition = _definition(kind, store)
    return Yardstick(kind, definition, errors, measured.samples(), neighbours or {})


def _as_batch(values: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.array(values, np.float64))[None]


def _definition(kind: YardstickKind, store: Store) -> str:
    where = f"measured at up to {POINTS:,} points of each sample"
    if kind == "mean":
        return f"every target is its mean over the training set, at all points; {where}"
    among, training = len(candidates(store)), len(store.ids("train"))
    of = f"{among:,}" if among == training else f"{MOST_TRAINING:,} of {training:,}"
    return (
        f"the targets of the most similar of {of} training samples, by parameters and by the"
        " distribution of coordinates and features over its points, each point taking those of the"
        f" point closest to it; {where}"
    )
