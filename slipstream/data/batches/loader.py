"""A loader over one split whose position within an epoch can be saved and restored.

The order of an epoch is a pure function of (seed, epoch), dealt out to the ranks batch by batch;
each draw is one of (seed, epoch, sample). So the batches are the same with any number of workers,
and after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch.utils.data import DataLoader, Sampler

from slipstream.core.checks import check_whole
from slipstream.core.runtime import generator
from slipstream.core.signals import become_worker, starting_workers
from slipstream.data.batches.dataset import Batch, Item, PointDataset


@dataclass(frozen=True, kw_only=True)
class Share:
    """Which part of an epoch this process draws."""

    batch_size: int = 1
    """Samples of a batch."""
    shuffle: bool = True
    """Whether every epoch has an order of its own, by the seed of the dataset."""
    even: bool = True
    """True for training: all ranks get equally many full batches, and the first samples may come
    twice for it. False for evaluation: every sample comes once, and the number of batches and the
    size of the last one may differ between ranks. 10 samples in batches of 4: True gives 4, 4 and 4
    with 2 samples repeated, False gives 4, 4 and 2."""
    rank: int = 0
    """The number of this process, from 0."""
    world_size: int = 1
    """How many processes draw."""

    def __post_init__(self) -> None:
        check_whole("batch_size", self.batch_size, 1)
        check_whole("world_size", self.world_size, 1)
        check_whole("rank", self.rank, 0)
        if self.rank >= self.world_size:
            raise ValueError(
                f"rank must be below the world size {self.world_size}, got {self.rank}"
            )

    def batches(self, samples: int, seed: int, epoch: int) -> list[list[int]]:
        """The batches of this rank in an epoch, as indices into the split."""
        order = list(range(samples))
        if self.shuffle:
            order = torch.randperm(samples, generator=generator(seed, "order", epoch)).tolist()
        step = self.batch_size * self.world_size
        if self.even:
            short = -samples % step
            order += (order * (short // samples + 1))[:short]
        mine = [
            order[i : i + step][self.rank :: self.world_size] for i in range(0, len(order), step)
        ]
        return [batch for batch in mine if batch]


class Loader:
    """Iterating gives the batches that remain of the current epoch; then the next one begins.

    `state_dict` counts the batches handed out, not those read ahead, so it may be saved after any
    step. `load_state_dict` continues in the same order at the same position; all ranks have the
    same position, so the state of one serves all. `workers` processes read ahead, `prefetch`
    batches each; with 0 this process reads.
    """

    def __init__(
        self,
        dataset: PointDataset,
        share: Share | None = None,
        *,
        workers: int = 0,
        prefetch: int = 2,
    ) -> None:
        check_whole("workers", workers, 0)
        self.dataset, self.share = dataset, share or Share()
        if not len(dataset):
            raise ValueError(f"split {dataset.split!r} must have at least one sample, got none")
        if self.share.batch_size > 1:
            dataset.check_equal_counts(range(len(dataset)))
        self._remaining = _Remaining(self.share, len(dataset), dataset.seed)
        self._workers, self._prefetch = workers, prefetch
        self._loader = self._new_loader()

    def _new_loader(self) -> DataLoader[Any]:
        workers = self._workers
        return DataLoader(
            self.dataset,
            batch_sampler=cast(Sampler[list[int]], self._remaining),
            collate_fn=_as_is,  # the dataset returns batches already
            num_workers=workers,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=workers > 0,
            prefetch_factor=self._prefetch if workers else None,
            worker_init_fn=become_worker,
            generator=torch.Generator(),  # else every epoch draws a seed from torch's global one
        )

    def stop_workers(self) -> None:
        """End the worker processes; iterating starts others.

        Where the garbage collector finds PyTorch's loader in a circle of references, the queues of
        its workers are closed before they are told to end, and it waits 5 s for each of them.
        """
        self._loader = self._new_loader()

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return len(self._remaining.batches())

    def __iter__(self) -> Iterator[Batch]:
        place = self._remaining
        with starting_workers():
            batches = iter(self._loader)
        for batch in batches:
            place.position += 1
            yield batch
        place.epoch, place.position = place.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        place = self._remaining
        return {
            "epoch": place.epoch,
            "position": place.position,
            "seed": place.seed,
            "samples": place.samples,
            **asdict(self.share),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError when the state is of another order: seed, samples, batch or ranks."""
        for name, value in self.state_dict().items():
            if name not in ("epoch", "position", "rank") and state[name] != value:
                raise ValueError(f"{name} of the saved state must be {value}, got {state[name]}")
        self._remaining.epoch, self._remaining.position = state["epoch"], state["position"]


def endless(loader: Loader) -> Iterator[Batch]:
    """The batches of one epoch after the other, from the loader's position on."""
    while True:
        yield from loader


class _Remaining(Sampler[list[Item]]):
    """The items of the batches that remain of an epoch.

    It has no reference to the loader: in a circle of references PyTorch's loader would not be freed
    at once, and its workers would stay.
    """

    def __init__(self, share: Share, samples: int, seed: int) -> None:
        self.share, self.samples, self.seed = share, samples, seed
        self.epoch, self.position = 0, 0

    def batches(self) -> list[list[int]]:
        return self.share.batches(self.samples, self.seed, self.epoch)

    def __len__(self) -> int:
        return len(self.batches()) - self.position

    def __iter__(self) -> Iterator[list[Item]]:
        epoch = self.epoch
        for batch in self.batches()[self.position :]:
            yield [(epoch, index) for index in batch]


def _as_is(batch: Any) -> Any:
    return batch
