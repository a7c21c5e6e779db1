"""The errors of a trained model on a split: the paper's metric and errors in physical units.

Three measures. `composite` is the validation error of a training on another split: relative L1 on
normalised targets, per sample and group. `L1` and `L2` are relative errors of each variable in
physical units: a scalar by itself, a vector as a whole.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from slipstream.core.checks import check_whole
from slipstream.data.batches import Batch, PointDataset
from slipstream.data.fields import Schema
from slipstream.data.store import Store
from slipstream.evaluation.evaluate import predict_batch
from slipstream.metrics import Errors, Groups, Order, error_sums
from slipstream.runs.model_file import TrainedModel

MEASURES = ("composite", "L1", "L2")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """On which points a model is measured."""

    split: str = "test"
    full: bool = False
    """All points of a sample at once, instead of draws as in training."""
    repeats: int = 1
    """Independent draws of the points of every sample: how much the points matter."""

    def __post_init__(self) -> None:
        check_whole("repeats", self.repeats, 1)

    def on(self, points: int | float | None) -> Protocol:
        """As it comes out for a model trained on so many points of a sample: where a sample is
        taken whole, nothing is drawn, and a repeat would only say so."""
        whole = self.full or points is None or (isinstance(points, float) and points == 1)
        return replace(self, full=whole, repeats=1) if whole else self


@dataclass(frozen=True)
class Number:
    """A mean over samples, and its spread over the repeats."""

    measure: str
    variable: str | None
    """None for the mean over groups."""
    repeats: tuple[float | None, ...]
    """The mean of each repeat; None where it is not defined or not finite."""
    mean: float | None = field(init=False)
    std: float | None = field(init=False)
    """None with fewer than two repeats."""

    def __post_init__(self) -> None:
        known = [value for value in self.repeats if value is not None]
        whole = len(known) == len(self.repeats)
        mean = statistics.fmean(known) if known and whole else None
        std = statistics.stdev(known) if whole and len(known) > 1 else None
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    @property
    def relative_std(self) -> float | None:
        return self.std / self.mean if self.std is not None and self.mean else None


@dataclass(frozen=True)
class Measured:
    """The errors of one model: by measure, one for each repeat."""

    errors: Mapping[str, tuple[Errors, ...]]

    def numbers(self) -> list[Number]:
        found = [Number("composite", None, _finite(e.mean() for e in self.errors["composite"]))]
        for measure, repeats in self.errors.items():
            means = [errors.by_group() for errors in repeats]
            for variable in repeats[0].groups:
                found.append(Number(measure, variable, _finite(mean[variable] for mean in means)))
        return found

    def samples(self) -> dict[str, float | None]:
        """The composite error of every sample, the mean over groups and repeats."""
        repeats = self.errors["composite"]
        return {
            sample: _finite([Errors(repeats[0].groups, _rows(sample, repeats)).mean()])[0]
            for sample in repeats[0].samples
        }

    def median_sample(self, among: int = 50) -> str:
        """The sample of median error among the first ones; of two, the lower."""
        known = [(e, sample) for sample, e in list(self.samples().items())[:among] if e is not None]
        if not known:
            raise ValueError("the model must have finite errors on some sample, got none")
        return sorted(known)[(len(known) - 1) // 2][1]


def _rows(sample: str, repeats: Sequence[Errors]) -> dict[str, tuple[float | None, ...]]:
    return {str(i): errors.samples[sample] for i, errors in enumerate(repeats)}


def _finite(values: Any) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values)


def variables(schema: Schema) -> dict[str, tuple[int, ...]]:
    """The channels of each target field."""
    first = schema.columns("targets").start
    return {
        field.name: tuple(range(columns.start - first, columns.stop - first))
        for field in schema.targets
        for columns in [schema.columns(field.name)]
    }


def make_dataset(store: Store, trained: TrainedModel, protocol: Protocol) -> PointDataset:
    """The draws of a protocol; ValueError where the split is empty."""
    if not store.splits.get(protocol.split):
        have = ", ".join(name for name, ids in store.splits.items() if ids) or "none"
        raise ValueError(
            f"{store.path} must have samples in its split {protocol.split!r}, got {have}"
        )
    data = trained.config.data
    return PointDataset(
        store,
        protocol.split,
        points=None if protocol.full else data.points,
        sampling=data.sampling,
        seed=data.evaluation_seed,
    )


def measure(
    trained: TrainedModel,
    dataset: PointDataset,
    protocol: Protocol,
    progress: Progress = lambda done, total: None,
) -> Measured:
    """All three measures on every sample of the split, one sample at a time, in fp32."""
    schema = trained.schema
    kinds: dict[str, tuple[Groups, Order]] = {
        "composite": (schema.target_groups, 1),
        "L1": (variables(schema), 1),
        "L2": (variables(schema), 2),
    }
    found: dict[str, list[Errors]] = {name: [] for name in MEASURES}
    total = protocol.repeats * len(dataset)
    for repeat in range(protocol.repeats):
        here = {name: Errors(tuple(groups), {}) for name, (groups, _) in kinds.items()}
        for index in range(len(dataset)):
            for name, errors in _errors_of(trained, dataset[repeat, index], kinds).items():
                here[name] |= errors
            progress(repeat * len(dataset) + index + 1, total)
        for name in MEASURES:
            found[name].append(here[name])
    return Measured({name: tuple(errors) for name, errors in found.items()})


@torch.no_grad()
def _errors_of(
    trained: TrainedModel, batch: Batch, kinds: Mapping[str, tuple[Groups, Order]]
) -> dict[str, Errors]:
    config, normaliser = trained.config, trained.normaliser
    device = next(trained.model.parameters()).device
    batch = batch.to(device, config.dtype)
    normalised = batch.normalise(normaliser)
    prediction = predict_batch(trained.model, normalised)
    physical = normaliser.targets.inverse(prediction)
    found = {}
    for name, (groups, order) in kinds.items():
        pair = (
            (prediction, normalised.targets) if name == "composite" else (physical, batch.targets)
        )
        found[name] = Errors.of(error_sums(*pair, groups, order=order), groups, batch.samples)
    return found


def definitions(schema: Schema, protocol: Protocol, points: int | float | None) -> dict[str, str]:
    """What each number is: norm, units, groups, points and repeats."""
    groups, named = ", ".join(schema.target_groups), ", ".join(variables(schema))
    where = f"{protocol.split} split, {_points_text(protocol, points)}"
    return {
        "composite": (
            f"relative L1 error on normalised targets, sum |prediction - truth| / sum |truth| over"
            f" the points of a sample and the channels of a group; mean over groups ({groups}) and"
            f" samples; {where}"
        ),
        "L1": (
            f"relative L1 error in physical units, sum |prediction - truth| / sum |truth| over the"
            f" points of a sample and the components of a variable ({named}); mean over samples;"
            f" {where}"
        ),
        "L2": (
            f"relative L2 error in physical units, the root of sum (prediction - truth)^2 / sum"
            f" truth^2 over the points of a sample and the components of a variable ({named}); mean"
            f" over samples; {where}"
        ),
    }


def _points_text(protocol: Protocol, points: int | float | None) -> str:
    if protocol.full:
        return "all points of a sample at once"
    share = f"{points:.3g} of the points" if isinstance(points, float) else f"{points} points"
    if protocol.repeats == 1:
        return f"{share} of a sample, as in training"
    return (
        f"{share} of a sample, as in training; mean and standard deviation over"
        f" {protocol.repeats} independent draws"
    )
