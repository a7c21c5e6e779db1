"""Batches of a store: the dataset that draws them and the value that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from slipstream.core.checks import check_choice
from slipstream.core.shapes import Float
from slipstream.data.batches.normaliser import Normaliser
from slipstream.data.batches.sampling import (
    WHOLE,
    Part,
    Sampling,
    count_points,
    cut,
    draw_exact,
    draw_window,
)
from slipstream.data.store import Rows, Schema, Store

Item = tuple[int, int]
"""(epoch, place in the split): what a draw depends on."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Points of some samples, in one tensor, of which coords, features and targets are views."""

    rows: Float[Tensor, "B N W"]
    schema: Schema
    samples: tuple[str, ...]
    normalised: bool = False

    @property
    def coords(self) -> Float[Tensor, "B N D"]:
        return self.rows[..., self.schema.columns("coords")]

    @property
    def features(self) -> Float[Tensor, "B N F"]:
        return self.rows[..., self.schema.columns("features")]

    @property
    def inputs(self) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N F"] | None]:
        """What a model takes: coordinates, and features where the store has any."""
        return self.coords, self.features if self.schema.features else None

    @property
    def targets(self) -> Float[Tensor, "B N K"]:
        return self.rows[..., self.schema.columns("targets")]

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Batch:
        """The batch on a device, in one copy; the host does not wait if the memory is pinned."""
        return replace(self, rows=self.rows.to(device, non_blocking=True).to(dtype))

    def pin_memory(self) -> Batch:
        """The batch in pinned memory, so that its copy to a GPU overlaps with computing.

        PyTorch's loader calls this.
        """
        return replace(self, rows=self.rows.pin_memory())

    def normalise(self, normaliser: Normaliser) -> Batch:
        """A new batch of normalised values."""
        if self.normalised:
            raise ValueError("a batch must not be normalised twice, got a normalised one")
        return replace(self, rows=normaliser.rows.forward(self.rows), normalised=True)

    def denormalise(self, normaliser: Normaliser) -> Batch:
        """A new batch of physical values."""
        if not self.normalised:
            raise ValueError("a batch must be normalised to undo it, got physical values")
        return replace(self, rows=normaliser.rows.inverse(self.rows), normalised=False)


class PointDataset(Dataset[Batch]):
    """Draws from one split of a store; a draw is a pure function of seed, epoch and index.

    A draw has `points` rows: a number, a fraction of each sample's rows (a float), or None for all.
    Of these a batch has the `part` of one rank, and no others are read. `sampling` is window (one
    read of neighbouring rows) or exact (each row by itself), `seed` that of all draws.
    """

    def __init__(
        self,
        store: Store,
        split: str,
        *,
        points: int | float | None = None,
        sampling: Sampling = "window",
        seed: int = 0,
        part: Part = WHOLE,
    ) -> None:
        check_choice("sampling", sampling, ("window", "exact"))
        self.store, self.split, self.sampling, self.seed = store, split, sampling, seed
        self.samples, self.part = store.ids(split), part
        self._counts = [count_points(points, store.rows(i), i) for i in self.samples]
        self._check_parts()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, item: Item) -> Batch:
        """A batch of one draw."""
        return self.__getitems__([item])

    def __getitems__(self, items: Sequence[Item]) -> Batch:
        """A batch of draws, read directly into the memory of its tensor."""
        self.check_equal_counts([index for _, index in items])
        points, width = self._counts[items[0][1]], self.store.schema.width
        first, end = self.part.of(points)
        rows = _empty((len(items), end - first, width))
        for out, (epoch, index) in zip(rows.numpy(), items, strict=True):
            self._draw(epoch, self.samples[index], points, out)
        names = tuple(self.samples[index] for _, index in items)
        return Batch(rows, self.store.schema, names)

    def blank(self, samples: int) -> Batch:
        """A batch of zeros, as large as one of the first sample's draws."""
        first, end = self.part.of(self._counts[0])
        rows = torch.zeros(samples, end - first, self.store.schema.width)
        return Batch(rows, self.store.schema, self.samples[:1] * samples, normalised=True)

    @property
    def counts_are_equal(self) -> bool:
        """Whether all samples give equally many points."""
        return len(set(self._counts)) <= 1

    @property
    def mean_points(self) -> float:
        """The points that a sample gives here, in the mean over the split."""
        return sum(self._counts) / len(self._counts) / self.part.ranks

    def in_batches(self, points: int) -> list[range]:
        """The indices of the split in order, in ranges of at most `points` points.

        A range has at least one index, and only one where samples give different numbers of points.
        3 samples of 400 points with `points` = 1000: indices 0 and 1 together, then 2.
        """
        size = max(1, points // max(self._counts)) if self.counts_are_equal else 1
        return [range(start, min(start + size, len(self))) for start in range(0, len(self), size)]

    def check_equal_counts(self, indices: Sequence[int]) -> None:
        """Raise unless these samples give equally many points, as those of a batch must."""
        first = indices[0]
        for index in indices:
            if self._counts[index] != self._counts[first]:
                raise ValueError(
                    "samples of a batch must have equally many points, got"
                    f" {self._counts[first]} of {self.samples[first]} and {self._counts[index]} of"
                    f" {self.samples[index]}: give points as a number, or batches of 1"
                )

    def _check_parts(self) -> None:
        """Raise where some rank would have no point of a draw."""
        fewest = min(self._counts, default=self.part.ranks)
        if fewest < self.part.ranks:
            sample = self.samples[self._counts.index(fewest)]
            raise ValueError(
                f"the points of a draw must be at least as many as the {self.part.ranks} processes"
                f" that share them, got {fewest} of sample {sample}"
            )

    def _draw(self, epoch: int, sample: str, points: int, out: Rows) -> None:
        """Fill `out` with our part of a draw of so many points."""
        rows, (first, end) = self.store.rows(sample), self.part.of(points)
        if points == rows:
            self.store.read_spans(sample, [(first, end)], out)
        elif self.sampling == "window":
            spans = draw_window(self.seed, epoch, sample, rows=rows, points=points)
            self.store.read_spans(sample, cut(spans, first, end), out)
        else:
            chosen = draw_exact(self.seed, epoch, sample, rows=rows, points=points)[first:end]
            np.take(self.store.array(sample), chosen, axis=0, out=out, mode="clip")


def _empty(shape: tuple[int, ...]) -> Tensor:
    """An uninitialised tensor; in a loader's worker, in memory shared with the main process, so
    that a batch is not copied there."""
    if torch.utils.data.get_worker_info() is None:
        return torch.empty(shape)
    storage = torch.UntypedStorage._new_shared(4 * int(np.prod(shape)))
    return torch.empty(0).set_(storage, 0, shape)  # type: ignore[call-overload]
