"""The errors of a trained model on a split: the paper's metric and errors in physical units.

Three measures. `composite` is the validation error of training, here on any split: relative L1 on
normalised targets, per sample and group. `L1` and `L2` are relative errors of each variable in
physical units, where a vector is one variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.data.batches import Batch, Normaliser, PointDataset
from slipstream.data.store import Schema, Store
from slipstream.evaluation.streamed import Kinds, is_streamed, streamed_errors, sums_by_kind
from slipstream.metrics import Errors
from slipstream.runs.evaluation_file import Number, Protocol, number_name
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.tokens import Tokens

MEASURES = ("composite", "L1", "L2")
POINTS_AT_ONCE = 65_536
"""Samples share a forward pass as long as they have no more points than this together."""
OnSample = Callable[[int, int], None]
"""Called with samples measured and samples in all."""


@dataclass(frozen=True)
class MeasuredErrors:
    """The errors of one model: by measure, one for each repeat."""

    errors: Mapping[str, tuple[Errors, ...]]
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    """Of the samples that were streamed, by name: their predictions need no other pass."""

    def numbers(self) -> list[Number]:
        composite = _finite(e.mean() for e in self.errors["composite"])
        numbers = [Number.of("composite", None, composite)]
        for measure, repeats in self.errors.items():
            means = [errors.by_group() for errors in repeats]
            for variable in repeats[0].groups:
                values = _finite(mean[variable] for mean in means)
                numbers.append(Number.of(measure, variable, values))
        return numbers

    def samples(self) -> dict[str, dict[str, float | None]]:
        """Every number of each sample, the mean over its repeats."""
        by_sample: dict[str, dict[str, float | None]] = {}
        for sample in self.errors["composite"][0].samples:
            rows = {name: _repeats_of(sample, errors) for name, errors in self.errors.items()}
            own = by_sample[sample] = {"composite": _finite([rows["composite"].mean()])[0]}
            for measure, errors in rows.items():
                for variable, mean in errors.by_group().items():
                    own[number_name(measure, variable)] = _finite([mean])[0]
        return by_sample

    def left_out(self) -> dict[str, int]:
        """How many samples a number leaves out, as the truth is zero at every point of them."""
        counts: dict[str, int] = {}
        for measure, repeats in self.errors.items():
            for index, variable in enumerate(repeats[0].groups):
                without = {s for e in repeats for s, row in e.samples.items() if row[index] is None}
                if without:
                    counts[number_name(measure, variable)] = len(without)
        return counts

    def median_sample(self, among: int = 50) -> str:
        """The sample of median composite error among the first ones.

        Of four with the errors 1, 2, 3 and 4 the second: an even number has a lower median.
        """
        first = list(self.samples().items())[:among]
        known = [(row["composite"], name) for name, row in first if row["composite"] is not None]
        if not known:
            raise ValueError("the model must have finite errors on some sample, got none")
        return sorted(known)[(len(known) - 1) // 2][1]


def _repeats_of(sample: str, repeats: Sequence[Errors]) -> Errors:
    """The repeats of one sample as the samples of an `Errors`, whose means are over them."""
    rows = {str(i): errors.samples[sample] for i, errors in enumerate(repeats)}
    return Errors(repeats[0].groups, rows)


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


def measures(schema: Schema) -> Kinds:
    """The groups and the norm of each measure."""
    own = variables(schema)
    return {"composite": (schema.target_groups, 1), "L1": (own, 1), "L2": (own, 2)}


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
    on_sample: OnSample = lambda done, total: None,
    chunk: int | None = None,
) -> MeasuredErrors:
    """All three measures on every sample of the split, in fp32.

    A whole sample of more points than a chunk is streamed, in bounded memory: the same numbers up
    to the order of sums. `chunk` is 32,768, or 262,144 on a GPU, unless given.
    """
    kinds = measures(trained.schema)
    by_repeat: dict[str, list[Errors]] = {name: [] for name in MEASURES}
    tokens: dict[str, Tokens] = {}
    total = protocol.repeats * len(dataset)
    for repeat in range(protocol.repeats):
        parts = []
        for indices in dataset.in_batches(POINTS_AT_ONCE):
            samples = [StoredSample(dataset.store, dataset.samples[index]) for index in indices]
            if is_streamed(trained, protocol, samples[0].count, chunk):
                for sample in samples:
                    errors, tokens[sample.name] = streamed_errors(trained, sample, kinds, chunk)
                    parts.append(errors)
            else:
                batch = dataset.__getitems__([(repeat, index) for index in indices])
                parts.append(_model_errors(trained, batch, kinds))
            on_sample(repeat * len(dataset) + indices[-1] + 1, total)
        for name, (groups, _) in kinds.items():
            by_repeat[name].append(Errors.joined(groups, [part[name] for part in parts]))
    return MeasuredErrors({name: tuple(own) for name, own in by_repeat.items()}, tokens)


@torch.no_grad()
def _model_errors(trained: TrainedModel, batch: Batch, kinds: Kinds) -> dict[str, Errors]:
    batch = batch.to(trained.device, trained.config.dtype)
    prediction: Tensor = trained.normalised(*batch.inputs)
    return errors_of(trained.normaliser, prediction, batch.targets, kinds, batch.samples)


def errors_of(
    normaliser: Normaliser,
    prediction: Float[Tensor, "S N K"],
    truth: Float[Tensor, "S N K"],
    kinds: Kinds,
    samples: Sequence[str],
) -> dict[str, Errors]:
    """The errors of a normalised prediction by measure; the truth is as stored."""
    sums = sums_by_kind(normaliser, prediction, truth, kinds, prediction.dtype)
    return {name: Errors.of(sums[name], groups, samples) for name, (groups, _) in kinds.items()}


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
    return f"{share} of a sample, as in training; mean over {protocol.repeats} independent draws"
