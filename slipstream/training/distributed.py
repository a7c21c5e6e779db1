"""One run in several processes, as `torchrun` starts it: a mesh of data x points.

Along the axis of the data every rank draws its own samples of a step, and the gradients are
averaged. As every rank has equally many samples, that is the gradient of one process with all of
them. Along the axis of the points the ranks have the same samples, and of each some of its points:
each has the same loss, of all points, and a part of its gradient. Only rank 0 writes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from slipstream.core.collectives import common_total
from slipstream.core.errors import TrainingStopped
from slipstream.core.runtime import environment, pick_device
from slipstream.data.batches import WHOLE, Part
from slipstream.metrics import Errors, ErrorSums
from slipstream.runs.config import MeshConfig

Agreed = TypeVar("Agreed")

NO_MESH = MeshConfig()
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
    part: Part = WHOLE
    """Which part of a sample's points this rank has: neighbouring ranks share a sample."""
    points: dist.ProcessGroup | None = None
    """The ranks that share a sample's points; None where each has all of its samples' points."""

    @property
    def data(self) -> Part:
        """Which part of the samples this rank draws, along the axis of the data."""
        return Part(self.rank // self.part.ranks, self.size // self.part.ranks)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass averages gradients over the ranks."""
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def backward(self, loss: Tensor) -> None:
        """Give every parameter the gradient of the mean loss of all samples of the step.

        DistributedDataParallel takes the mean over all ranks, and the gradients of those that share
        a sample's points are parts of one: they are to be added up.
        """
        (loss if self.points is None else loss * self.part.ranks).backward()

    def settle(self, network: nn.Module, inputs: Sequence[Tensor | None]) -> None:
        """One backward pass before the first step, whose gradients are thrown away.

        DistributedDataParallel puts the gradients into buckets, and after its first backward pass
        into others, in the order in which they came. Where more than two ranks add up, the order of
        a sum depends on its place in the bucket: a process that goes on from a checkpoint would
        round its first step differently (seen with three gloo ranks, PyTorch 2.13).
        """
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # a user's layers may draw from it
            self.backward(network(*inputs).float().mean())
        network.zero_grad()

    def complete(self, sums: ErrorSums) -> ErrorSums:
        """The sums over all points of the samples, from those over the points of this rank."""
        if self.points is None:
            return sums
        both = common_total(torch.stack((sums.difference, sums.reference)), self.points)
        return ErrorSums(both[0], both[1], sums.order)

    def mean(self, loss: Tensor) -> Tensor:
        """The mean over all samples of the step; ranks that share samples have the same loss."""
        if self.data.ranks > 1:
            dist.all_reduce(loss)
            loss /= self.size
        return loss

    def largest(self, number: int) -> int:
        """The largest number of any rank. All ranks must call this; no device is waited for."""
        return self._of_all(number, dist.ReduceOp.MAX)

    def total(self, number: int) -> int:
        """The sum of the numbers of all ranks, as `largest`."""
        return self._of_all(number, dist.ReduceOp.SUM)

    def _of_all(self, number: int, op: Any) -> int:
        if self.size == 1:
            return number
        tensor = torch.tensor(number)
        dist.all_reduce(tensor, op, group=self.hosts)
        return int(tensor)

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
def join_world(device: str = "auto", mesh: MeshConfig = NO_MESH) -> Iterator[World]:
    """Join the processes that `torchrun` started; a world of one process without it.

    Raises ValueError where they cannot be arranged as the mesh.
    """
    rank, size = place_in_world()
    mesh.check_divides(size)
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
            if mesh.points == 1:
                yield World(where, rank, size, hosts)
            else:
                shape = (size // mesh.points, mesh.points)
                arranged = init_device_mesh(where.type, shape, mesh_dim_names=("data", "points"))
                part = Part(arranged.get_local_rank("points"), mesh.points)
                yield World(where, rank, size, hosts, part, arranged.get_group("points"))
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
