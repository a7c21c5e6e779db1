"""One run in several processes: data parallel, as `torchrun` starts it.

Every rank draws its own samples of a step, and the gradients are averaged. As every rank has
equally many samples, that is the gradient of one process with all of them. Only rank 0 writes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from slipstream.core.errors import TrainingStopped
from slipstream.core.runtime import environment, pick_device
from slipstream.metrics import Errors

Agreed = TypeVar("Agreed")

PATIENCE = timedelta(minutes=10)
"""How long a rank waits for another before it gives up: a validation may be uneven."""


@dataclass(frozen=True)
class World:
    """Which process of how many this is, and where it computes."""

    device: torch.device
    rank: int = 0
    size: int = 1
    hosts: dist.ProcessGroup | None = None
    """The ranks as a group of gloo, where the group of their devices is another."""

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass averages gradients over the ranks."""
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def mean(self, value: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value

    def largest(self, number: int) -> int:
        """The largest number of any rank. All ranks must call this; no device is waited for."""
        if self.size == 1:
            return number
        largest = torch.tensor(number)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.hosts)
        return int(largest)

    def gather(self, errors: Errors) -> Errors:
        """The errors of all ranks' samples, in the same order on every rank."""
        if self.size == 1:
            return errors
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, errors)
        return Errors.joined(errors.groups, parts)

    def agree(self, value: Agreed) -> Agreed:
        """The value of rank 0, on every rank."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Wait until all ranks have called this."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def join_world(device: str = "auto") -> Iterator[World]:
    """Join the processes that `torchrun` started; a world of one process without it."""
    rank, size = place_in_world()
    if size == 1:
        yield World(pick_device(device))
        return
    local = int(environment("LOCAL_RANK") or 0)
    where = pick_device(device)
    if where.type == "cuda":
        where = pick_device(f"cuda:{local}")
        torch.cuda.set_device(where)
    on_gpus = where.type == "cuda"
    with _naming_lost_ranks(rank, size):
        dist.init_process_group("nccl" if on_gpus else "gloo", timeout=PATIENCE)
        try:
            hosts = dist.new_group(backend="gloo", timeout=PATIENCE) if on_gpus else None
            yield World(where, rank, size, hosts)
        finally:
            dist.destroy_process_group()


@contextmanager
def _naming_lost_ranks(rank: int, size: int) -> Iterator[None]:
    """One sentence where another rank is gone, in place of the error of the process group."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise TrainingStopped(
            f"another process of this run ended or does not answer, so rank {rank} of {size} ends"
            f" too; the same command goes on from the newest checkpoint ({_cause(error)})"
        ) from None


def _cause(error: RuntimeError) -> str:
    """As "Read error [127.0.0.1]:36276: Connection reset by peer"."""
    return re.sub(r"^\[[^]]*\] *", "", str(error).strip().split("\n")[0]).split(". ")[0]


def place_in_world() -> tuple[int, int]:
    """The rank of this process, and how many there are; (0, 1) without `torchrun`."""
    return int(environment("RANK") or 0), int(environment("WORLD_SIZE") or 1)


def leave_world(code: int) -> None:
    """End this process at once if it is one of several, after its work is done.

    Where DistributedDataParallel was used, PyTorch's threads outlive the process group. A thread
    that releases a tensor while the interpreter shuts down aborts the process, and torchrun reports
    the run as failed: seen in 7 of 8 ends of eight gloo processes on two cores, and in none of 5
    with this.
    """
    if place_in_world()[1] > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
