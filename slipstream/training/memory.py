"""The message for a step that does not fit in the device's memory: figures, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from slipstream.core.errors import TrainingStopped
from slipstream.runs.config import RunConfig


@contextmanager
def describing_memory(config: RunConfig, device: torch.device) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise TrainingStopped(memory_message(config, device)) from error


def memory_message(config: RunConfig, device: torch.device) -> str:
    """One sentence: the memory in use, the memory there is, and the fields to change."""
    helps = []
    if config.batch > 1:
        helps.append(f"batch (now {config.batch})")
    helps.append(f"more processes and mesh.points (now {config.mesh.points})")
    helps.append(f"data.points (now {config.data.points or 'all'})")
    if config.precision == "fp32":
        helps.append("precision=bf16")
    if config.memory != "lean":
        helps.append("memory=lean" + (" with recompute=false" if config.recompute else ""))
    if config.cuda_graph and device.type == "cuda":
        helps.append("cuda_graph=false")
    helps.append(
        f"model.size.layers and model.size.width (now {config.model.size.layers} and"
        f" {config.model.size.width})"
    )
    used = ""
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 1e9
        total = torch.cuda.get_device_properties(device).total_memory / 1e9
        used = f": {peak:.1f} GB were in use at most, of {total:.1f} GB"
    return (
        f"the memory of {device} is too small for a step{used}; what would help: {', '.join(helps)}"
    )
