from __future__ import annotations

import pytest
import torch

from slipstream.training.losses import loss_of

GROUPS = {"p": (0,), "u": (1, 2)}
PREDICTION = torch.tensor([[[1.0, 2.0, 0.0, 9.0], [0.0, 0.0, 1.0, 9.0]]])
TARGET = torch.tensor([[[2.0, 1.0, 0.0, 0.0], [2.0, 0.0, 3.0, 0.0]]])


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
