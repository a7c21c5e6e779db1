"""What is made small: errors of normalised predictions, over the channels that count."""

from __future__ import annotations

from torch import Tensor

from slipstream.metrics import Groups, pick, relative_error
from slipstream.runs.config import Loss


def loss_of(kind: Loss, prediction: Tensor, target: Tensor, groups: Groups) -> Tensor:
    """A number on the device; nothing waits for it, and NaN stays NaN."""
    if kind in ("relative-l1", "relative-l2"):
        order = 1 if kind == "relative-l1" else 2
        return relative_error(prediction, target, groups, order=order, check_values=False)  # type: ignore[arg-type]
    counted = sorted({channel for members in groups.values() for channel in members})
    # of the two, the target is never bf16
    difference = pick(prediction, counted) - pick(target, counted)
    return difference.abs().mean() if kind == "l1" else difference.square().mean()
