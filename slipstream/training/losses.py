"""The losses: errors of normalised predictions, over the channels of the target groups."""

from __future__ import annotations

from torch import Tensor

from slipstream.metrics import Groups, pick, relative_error
from slipstream.runs.config import Loss


def loss_of(kind: Loss, prediction: Tensor, target: Tensor, groups: Groups) -> Tensor:
    """The loss as a tensor on the device: the host does not wait for it, and NaN stays NaN."""
    if kind in ("relative-l1", "relative-l2"):
        order = 1 if kind == "relative-l1" else 2
        return relative_error(prediction, target, groups, order=order, check_values=False)  # type: ignore[arg-type]
    counted = sorted({channel for members in groups.values() for channel in members})
    # Under autocast the prediction is bf16 and the target fp32: the difference is taken in fp32.
    difference = pick(prediction, counted) - pick(target, counted)
    return difference.abs().mean() if kind == "l1" else difference.square().mean()
