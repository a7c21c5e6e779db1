"""Losses, norms and times of the steps since the last report, without waiting for the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class Window:
    """Sums on the device of losses, gradient norms, steps taken and steps skipped.

    Reading them makes the host wait for the device, so they are read at logged steps only.
    """

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(4, device=device)
        self.reset()

    def reset(self) -> None:
        self._sums.zero_()  # in place: a recorded CUDA graph adds to this very tensor
        self._points = 0
        self._since = time.perf_counter()

    def add(self, loss: Tensor, norm: Tensor, skipped: Tensor) -> None:
        taken = 1 - skipped
        finite = torch.stack((loss.float(), norm.float())).nan_to_num(0, 0, 0) * taken
        self._sums += torch.cat((finite, torch.stack((taken, skipped))))

    def count(self, points: int) -> None:
        self._points += points

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time of a validation or a checkpoint out of points per second."""
        started = time.perf_counter()
        yield
        self._since += time.perf_counter() - started

    def take_skipped(self) -> int:
        """The skipped steps, which are then no longer counted here."""
        count = int(self._sums[3].item())
        self._sums[3] = 0
        return count

    def mean_loss(self) -> float | None:
        """Over the steps that were taken; None where there were none. Nothing is reset."""
        loss, _, taken, _ = self._sums.tolist()
        return loss / taken if taken else None

    def read(self, total: Callable[[int], int] = lambda points: points) -> dict[str, Any]:
        """Means over the steps that were taken; None where there were none.

        `total` gives the points of all processes from those counted here.
        """
        loss, norm, taken, skipped = self._sums.tolist()
        seconds = time.perf_counter() - self._since
        means = {
            "loss": loss / taken if taken else None,
            "gradient_norm": norm / taken if taken else None,
            "points_per_second": total(self._points) / seconds,
            "skipped": int(skipped),
        }
        self.reset()
        return means
