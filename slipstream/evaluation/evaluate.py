"""The relative errors of a model on the samples of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from slipstream.data.batches import Batch
from slipstream.metrics import Errors, ErrorSums, Groups, Order, error_sums


@torch.no_grad()
def sample_errors(
    model: nn.Module,
    batches: Iterable[Batch],
    groups: Groups,
    *,
    order: Order = 1,
    complete: Callable[[ErrorSums], ErrorSums] = lambda sums: sums,
) -> Errors:
    """The errors of every sample of the batches; NaN and infinities are kept.

    `complete` makes the sums over all points of a sample from those over the points of a batch,
    where they are not the same.
    """
    was_training = model.training
    model.eval()
    parts = []
    for batch in batches:
        sums = error_sums(model(*batch.inputs), batch.targets, groups, order=order)
        parts.append(Errors.of(complete(sums), groups, batch.samples))
    model.train(was_training)
    return Errors.joined(groups, parts)
