"""The relative errors of a model on the samples of a split."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from slipstream.data.batches import Batch
from slipstream.metrics import Errors, Groups, Order, error_sums


@torch.no_grad()
def sample_errors(
    model: nn.Module, batches: Iterable[Batch], groups: Groups, *, order: Order = 1
) -> Errors:
    """The errors of every sample of the batches; NaN and infinities are kept."""
    was_training = model.training
    model.eval()
    parts = []
    for batch in batches:
        sums = error_sums(model(*batch.inputs), batch.targets, groups, order=order)
        parts.append(Errors.of(sums, groups, batch.samples))
    model.train(was_training)
    return Errors.joined(groups, parts)
