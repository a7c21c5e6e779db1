"""How fast points are drawn from a store: by window, exactly, and by reading the whole sample.

The store is written for the measurement, with random rows, since only sizes matter here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.checks import check_whole
from slipstream.core.runtime import derive_seed
from slipstream.data.batches import Loader, PointDataset, Sampling, endless
from slipstream.data.store import Field, RowBlocks, Rows, Schema, Store, ingest, open_store

_SCHEMA = Schema(
    (Field("position", "m", components=3),),
    (Field("normal", components=3),),
    (Field("pressure", "Pa"), Field("shear", "Pa", components=3)),
)
_BLOCK = 1 << 20
_WARM_UP = 10
"""Draws before timing begins. The allocator then keeps their memory, as it does from the second
epoch of a training on."""


@dataclass(frozen=True)
class RandomRows:
    """A source of samples of random rows."""

    rows: int
    samples: int = 1
    name: str = "random"
    schema: Schema = _SCHEMA

    @property
    def options(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def ids(self) -> list[str]:
        return [str(k) for k in range(self.samples)]

    def splits(self) -> dict[str, list[str]]:
        """All but the last for training, if there are several."""
        ids = self.ids()
        return {"train": ids[:-1], "val": ids[-1:]} if len(ids) > 1 else {"train": ids}

    def files(self, sample: str) -> dict[str, Path]:
        return {}

    def read(self, sample: str) -> RowBlocks:
        return RowBlocks(self.rows, self._blocks(sample))

    def _blocks(self, sample: str) -> Iterator[Rows]:
        draw = np.random.default_rng(derive_seed(0, "bench", sample))
        some = draw.standard_normal((_BLOCK, self.schema.width), np.float32)
        for first in range(0, self.rows, _BLOCK):
            yield some[: min(_BLOCK, self.rows - first)]


def measure_draws(folder: Path, *, rows: int, points: int, repeats: int) -> dict[str, Any]:
    """Milliseconds of one draw in three ways, from a warm cache, and the rate of the ingest."""
    check_whole("rows", rows, 1)
    check_whole("points", points, 1)
    started = time.perf_counter()
    ingest(RandomRows(rows), folder)
    seconds = time.perf_counter() - started
    store = open_store(folder)
    figures: dict[str, Any] = {
        "rows": rows,
        "points": points,
        "bytes": store.manifest.samples["0"].bytes,
        "ingest_rows_per_second": rows / seconds,
    }
    ways: tuple[Sampling, ...] = ("window", "exact")
    datasets = {way: PointDataset(store, "train", points=points, sampling=way) for way in ways}
    # The whole sample is read first, so that it is in the cache for the other two.
    figures["whole_ms"] = _median_ms(lambda _: np.array(store.array("0")), min(repeats, 3))
    for way, dataset in datasets.items():
        figures[f"{way}_ms"] = _median_ms(partial(_draw, dataset), repeats, _WARM_UP)
    return figures


def measure_loader(
    store: Store, *, points: int, workers: int, draws: int
) -> dict[str, float | int]:
    """Draws a second that a loader hands out, from a warm cache."""
    loader = Loader(PointDataset(store, "train", points=points), workers=workers)
    handed = endless(loader)
    for _ in range(2 * max(1, workers) + 2):
        next(handed)
    started = time.perf_counter()
    for _ in range(draws):
        next(handed)
    return {"workers": workers, "draws_per_second": draws / (time.perf_counter() - started)}


def _draw(dataset: PointDataset, epoch: int) -> object:
    return dataset[(epoch, 0)]


def _median_ms(call: Callable[[int], object], repeats: int, warm_up: int = 1) -> float:
    times = []
    for epoch in range(warm_up + repeats):
        started = time.perf_counter()
        call(epoch)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[warm_up:])
