"""What a model must beat: errors of predictions that need no training.

mean         every target is its mean over the training set, at all points
persistence  the later state is the state (later_states.py), where that is what is asked
scaling      the later state is the state times a constant, one for each lead time and variable
inclination  on surfaces: a fitted function of the wall's direction (inclination.py)
nearest      the targets of the nearest training sample (neighbours.py), each point taking those of
             the point that is closest to it, by coordinates as they are

All are measured as the model is, on the same samples, but at the first POINTS points of each. They
depend on the data alone and are kept in the folder of the store (kept_yardsticks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.data.batches import Normaliser
from slipstream.data.store import Store
from slipstream.evaluation.inclination import fit_inclination
from slipstream.evaluation.kept_yardsticks import kept
from slipstream.evaluation.later_states import fit_scaling, persistence, state_columns
from slipstream.evaluation.measure import MeasuredErrors, errors_of, measures
from slipstream.evaluation.neighbours import MOST_TRAINING, candidates, nearest_samples, read_first
from slipstream.metrics import Errors
from slipstream.runs.evaluation_file import Yardstick, YardstickKind

POINTS = 4096
"""Points of a sample at which the yardsticks are measured."""
SOURCE_POINTS = 65_536
"""Points of the nearest training sample from which values are taken."""
_ROUNDING = 1e-12

Answer = Callable[[str, NDArray[np.float32]], NDArray[np.float32]]
"""The targets as stored, from a sample and its rows."""


@dataclass(frozen=True)
class _Way:
    """A way to answer without a model."""

    kind: YardstickKind
    definition: str
    answer: Answer
    neighbours: dict[str, str] = field(default_factory=dict)


def measure_yardsticks(store: Store, normaliser: Normaliser, split: str) -> tuple[Yardstick, ...]:
    """The errors of all yardsticks of the data, on a split; the normaliser is the model's."""
    return kept(store, normaliser, split, lambda: _measure(store, normaliser, split))


def _measure(store: Store, normaliser: Normaliser, split: str) -> tuple[Yardstick, ...]:
    samples = store.ids(split)
    return tuple(_measured(way, store, normaliser, samples) for way in _ways(store, samples))


def _ways(store: Store, samples: Sequence[str]) -> Iterator[_Way]:
    mean = np.array(store.statistics.mean, np.float32)[store.schema.columns("targets")]
    yield _Way(
        "mean",
        "every target is its mean over the training set, at all points",
        lambda _, rows: np.broadcast_to(mean, (len(rows), len(mean))),
    )
    if states := state_columns(store.schema):
        yield _Way("persistence", "the later state is the state itself", persistence(states))
        yield _Way(
            "scaling",
            "the later state is the state times a constant, for each lead time and variable that"
            " with the least relative L1 error on the training set",
            fit_scaling(store, states),
        )
    if inclination := fit_inclination(store):
        yield _Way(
            "inclination",
            "the targets at a point are a polynomial, fitted to the training set by least squares,"
            f" in {inclination.seen}; a vector has such a part along each direction of the wall",
            inclination,
        )
    neighbours = nearest_samples(store, samples)
    if len(neighbours) == len(samples):
        yield _Way("nearest", _nearest_text(store), _Transfer(store, neighbours), neighbours)


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
    from scipy.spatial import KDTree

    return np.asarray(KDTree(source).query(at)[1], np.intp)


def _measured(way: _Way, store: Store, normaliser: Normaliser, samples: Sequence[str]) -> Yardstick:
    kinds, parts = measures(store.schema), []
    for sample in samples:
        rows = read_first(store, sample, POINTS)
        truth = rows[:, store.schema.columns("targets")]
        given, true = (_as_batch(values) for values in (way.answer(sample, rows), truth))
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
    definition = f"{way.definition}; measured at up to {POINTS:,} points of each sample"
    return Yardstick(way.kind, definition, errors, measured.samples(), way.neighbours)


def _as_batch(values: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.array(values, np.float64))[None]


def _nearest_text(store: Store) -> str:
    among, training = len(candidates(store)), len(store.ids("train"))
    of = f"{among:,}" if among == training else f"{MOST_TRAINING:,} of {training:,}"
    return (
        f"the targets of the most similar of {of} training samples, by parameters and by the"
        " distribution of coordinates and features over its points, each point taking those of the"
        " point closest to it"
    )
