"""How many points are taken at a time, and where chunks wait: chosen by size, and said.

The stream of a point is C numbers (twice that in variants that keep the first layer's membership).
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.memory import free_memory
from slipstream.models.parking import Place
from slipstream.models.sweeps import Sweeping
from slipstream.models.transolver import Transolver

Parked = Literal["auto", "device", "host", "file", "recompute"]
CHUNK = {"cuda": 1 << 18}
CPU_CHUNK = 1 << 15
"""Points of a chunk. Two cores take 32,768 points at width 256 as fast as more, in 0.2 GB."""
SHARE = 0.5
"""The share of the host's free memory that parked chunks may take."""
GPU_SHARE = 0.8
DISK_SHARE = 0.8


@dataclass(frozen=True)
class SweepPlan:
    """How points are taken through a model, and why."""

    points: int
    chunk: int
    place: Place
    parked_bytes: int
    """Bytes that wait between two sweeps."""
    folder: Path | None = None

    @property
    def one_pass(self) -> bool:
        """Whether all points are taken at once."""
        return self.points <= self.chunk

    @property
    def sweeping(self) -> Sweeping:
        return Sweeping(self.chunk, self.place, self.folder)

    def __str__(self) -> str:
        if self.one_pass:
            return f"{self.points:,} points in one pass"
        chunks = -(-self.points // self.chunk)
        size = f"{self.parked_bytes / 1e9:.3g} GB"
        where = {
            "device": f"their streams ({size}) stay on the device",
            "host": f"their streams ({size}) wait in host memory",
            "file": f"their streams ({size}) wait in a file in {self.folder}",
            "recompute": f"their streams ({size}) are not kept but computed again in every sweep",
        }
        return f"{self.points:,} points in {chunks:,} chunks of {self.chunk:,}; {where[self.place]}"


def plan_sweeps(
    model: Transolver,
    points: int,
    *,
    chunk: int | None = None,
    place: Parked = "auto",
    folder: Path | None = None,
) -> SweepPlan:
    """The plan for this many points.

    Where chunks wait is the first of device, host, file that has room for them, else nowhere:
    they are computed again. Raises ValueError for a chunk or place that cannot be.
    """
    check_choice("place", place, get_args(Parked))
    device = next(model.parameters()).device
    if chunk is None:
        chunk = CHUNK.get(device.type, CPU_CHUNK)
    check_whole("chunk", chunk, 1)
    folder = folder or Path(tempfile.gettempdir())
    size = points * stream_bytes(model)
    chosen = _roomiest(size, device, folder) if place == "auto" else place
    return SweepPlan(points, chunk, chosen, size, folder)


def stream_bytes(model: Transolver) -> int:
    """Bytes of a point's stream between two layers."""
    copies = 2 if model.variant.slicing == "first-layer" else 1
    return copies * model.size.width * model.placeholder.element_size()


def _roomiest(size: int, device: torch.device, folder: Path) -> Place:
    if device.type == "cuda":
        if size <= GPU_SHARE * _free_on(device):
            return "device"
        if size <= SHARE * free_memory():
            return "host"
    elif size <= SHARE * free_memory():
        return "device"
    return "file" if size <= DISK_SHARE * shutil.disk_usage(folder).free else "recompute"


def _free_on(device: torch.device) -> int:
    """Bytes that are free on a GPU, or that PyTorch keeps there and does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
