"""The losses: errors of normalised predictions, over the channels of the target groups."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from slipstream.metrics import ErrorSums, Groups, error_sums, pick
from slipstream.runs.config import Loss

CompleteErrors = Callable[[ErrorSums], ErrorSums]
"""The sums over some points of a sample to those over all, wherever the others are."""


def loss_of(
    kind: Loss,
    prediction: Tensor,
    target: Tensor,
    groups: Groups,
    complete: CompleteErrors = lambda sums: sums,
) -> Tensor:
    """The loss as a tensor on the device: the host does not wait for it, and NaN stays NaN."""
    if kind == "relative-l1":
        return complete(error_sums(prediction, target, groups, order=1)).mean()
    if kind == "relative-l2":
        return complete(error_sums(prediction, target, groups, order=2)).mean()
    return complete(_plain_sums(kind, prediction, target, groups)).mean()


def _plain_sums(kind: Loss, prediction: Tensor, target: Tensor, groups: Groups) -> ErrorSums:
    """Sums of errors that are not relative: beside them the count of the numbers summed."""
    counted = sorted({channel for members in groups.values() for channel in members})
    # Under autocast the prediction is bf16 and the target fp32: the difference is taken in fp32.
    difference = pick(prediction, counted) - pick(target, counted)
    errors = difference.abs() if kind == "l1" else difference.square()
    sums = errors.flatten(1).sum(1, keepdim=True)
    return ErrorSums(sums, sums.new_full(sums.shape, errors[0].numel()), 1)
