"""The relative errors of a model on the samples of a split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.data.batches import Batch
from slipstream.metrics import Groups, Order, error_sums


@dataclass(frozen=True)
class Errors:
    """Relative error of every sample and group; None where the target is zero throughout."""

    groups: tuple[str, ...]
    samples: Mapping[str, tuple[float | None, ...]]

    def by_group(self) -> dict[str, float]:
        """The mean over samples, per group; NaN for a group that no sample defines."""
        columns = zip(*self.samples.values(), strict=True)
        return {g: _mean(column) for g, column in zip(self.groups, columns, strict=True)}

    def mean(self) -> float:
        """Over samples and groups: the paper's metric."""
        return _mean(value for row in self.samples.values() for value in row)


def _mean(values: Iterable[float | None]) -> float:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else math.nan


def predict_batch(model: nn.Module, batch: Batch) -> Float[Tensor, "B N k"]:
    """What a model makes of a batch; a store may have no features at all."""
    return model(batch.coords, batch.features if batch.schema.features else None)


@torch.no_grad()
def sample_errors(
    model: nn.Module, batches: Iterable[Batch], groups: Groups, *, order: Order = 1
) -> Errors:
    """The errors of every sample of the batches. One that is not finite stays so."""
    was_training = model.training
    model.eval()
    found: dict[str, tuple[float | None, ...]] = {}
    for batch in batches:
        sums = error_sums(predict_batch(model, batch), batch.targets, groups, order=order)
        ratios, defined = (part.tolist() for part in sums.relative())
        for sample, values, known in zip(batch.samples, ratios, defined, strict=True):
            pairs = zip(values, known, strict=True)
            found[sample] = tuple(value if here else None for value, here in pairs)
    model.train(was_training)
    return Errors(tuple(groups), found)
