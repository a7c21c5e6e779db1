"""A store of trajectories whose samples are read as pairs of states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from slipstream.core.checks import check_choice
from slipstream.data.store.cloud import Rows
from slipstream.data.store.fields import Schema
from slipstream.data.store.manifest import Manifest
from slipstream.data.store.pairs import PAIRS_OPTION, Pairs
from slipstream.data.store.point_store import Span, Store
from slipstream.data.store.statistics import Statistics


class PairStore(Store):
    """Reads the rows of a trajectory and picks the columns of a pair."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        super().__init__(path, manifest)
        self.pairs = Pairs.from_json(manifest.origin.options[PAIRS_OPTION])
        self._trajectories = Store(path, manifest)

    @cached_property
    def schema(self) -> Schema:
        return self.pairs.seen(self._trajectories.schema.coords)

    @cached_property
    def splits(self) -> dict[str, tuple[str, ...]]:
        return {
            split: tuple(name for member in members for name in self.pairs.names(member))
            for split, members in self.manifest.splits.items()
        }

    @cached_property
    def statistics(self) -> Statistics:
        return self.pairs.statistics(self._trajectories.statistics, self.schema.width)

    def ids(self, split: str) -> tuple[str, ...]:
        check_choice("split", split, self.splits)
        return self.splits[split]

    def rows(self, sample: str) -> int:
        return self._trajectories.rows(self._place(sample)[0])

    def file(self, sample: str) -> Path:
        return self._trajectories.file(self._place(sample)[0])

    def array(self, sample: str) -> Rows:
        """All rows of a pair, in memory."""
        trajectory, first, lag = self._place(sample)
        out = np.empty((self.rows(sample), self.schema.width), np.float32)
        self.pairs.pick(self._trajectories.array(trajectory), first, lag, out)
        return out

    def read_spans(self, sample: str, spans: Sequence[Span], out: Rows) -> None:
        trajectory, first, lag = self._place(sample)
        rows = np.empty((len(out), self._trajectories.schema.width), np.float32)
        self._trajectories.read_spans(trajectory, spans, rows)
        self.pairs.pick(rows, first, lag, out)

    def _place(self, sample: str) -> tuple[str, int, int]:
        trajectory, *numbers = sample.rsplit("-", 2)
        good = len(numbers) == 2 and all(number.isdecimal() for number in numbers)
        if not good or tuple(map(int, numbers)) not in self.pairs.places:
            raise ValueError(
                f"sample must be a trajectory, a first state and a lag, as"
                f" {next(iter(self.manifest.samples))}-00-01, got {sample!r}"
            )
        return trajectory, int(numbers[0]), int(numbers[1])
