"""A sample of a store, read some rows at a time: as points for streaming, and with its targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from slipstream.data.batches import Batch
from slipstream.data.store import Store
from slipstream.runs.streaming import PhysicalPoints


@dataclass(frozen=True)
class StoredSample:
    """Rows are in the random order of the store, so the first ones are a random subset."""

    store: Store
    name: str

    @property
    def count(self) -> int:
        return self.store.rows(self.name)

    def rows(self, first: int, end: int) -> Batch:
        """The rows of a span as a batch of one; a file that was cut short raises ValueError."""
        rows = torch.empty(end - first, self.store.schema.width)
        self.store.read_spans(self.name, [(first, end)], rows.numpy())
        return Batch(rows[None], self.store.schema, (self.name,))

    def points(self, first: int = 0, end: int | None = None) -> PhysicalPoints:
        """The points of a span, or all, without their targets."""

        def read(begin: int, stop: int) -> tuple[Any, Any]:
            return self.rows(first + begin, first + stop).inputs

        return PhysicalPoints((self.count if end is None else end) - first, read)
