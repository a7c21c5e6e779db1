from __future__ import annotations

from typing import get_args

import pytest
import torch

from slipstream.metrics import ErrorSums
from slipstream.runs.config import Loss
from slipstream.training.losses import loss_of

GROUPS = {"p": (0,), "u": (1, 2)}
PREDICTION = torch.tensor([[[1.0, 2.0, 0.0, 9.0], [0.0, 0.0, 1.0, 9.0]]])
TARGET = torch.tensor([[[2.0, 1.0, 0.0, 0.0], [2.0, 0.0, 3.0, 0.0]]])


@pytest.mark.parametrize("kind", get_args(Loss))
@pytest.mark.parametrize("cut", [0, 1, 4])
def test_points_elsewhere_count_alike(kind: Loss, cut: int) -> None:
    """Uneven shards: sums are added up, and the division comes last."""
    draw = torch.Generator().manual_seed(0)
    prediction, target = (torch.randn(2, 5, 4, generator=draw).double() for _ in range(2))
    kept: list[ErrorSums] = []

    def keep(sums: ErrorSums) -> ErrorSums:
        kept.append(sums)
        return sums if len(kept) == 1 else kept[0] + sums

    loss_of(kind, prediction[:, :cut], target[:, :cut], GROUPS, keep)
    found = loss_of(kind, prediction[:, cut:], target[:, cut:], GROUPS, keep)
    torch.testing.assert_close(found, loss_of(kind, prediction, target, GROUPS))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("relative-l1", ((1 + 2) / 4 + (1 + 2) / 4) / 2),
        ("relative-l2", ((5 / 8) ** 0.5 + (5 / 10) ** 0.5) / 2),
        ("l1", 6 / 6),
        ("mse", (1 + 4 + 1 + 4) / 6),
    ],
)
def test_losses_by_hand(kind: str, expected: float) -> None:
    """The last channel is in no group: it does not count."""
    found = loss_of(kind, PREDICTION, TARGET, GROUPS)  # type: ignore[arg-type]
    assert found.item() == pytest.approx(expected)
