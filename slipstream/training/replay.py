"""A step recorded once as a CUDA graph and replayed: one launch instead of a thousand.

On small clouds a GPU finishes a kernel before the host has launched the next one. A replay runs the
same kernels as steps launched one by one, so the results are equal to the bit and do not depend on
where the recording began: a resumed run, which records again, is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from slipstream.core.errors import TrainingStopped
from slipstream.data.batches import Batch
from slipstream.runs.config import RunConfig
from slipstream.training.distributed import World

WARM_UP = 3
"""Steps launched one by one before the recording: they compile the kernels and create the
optimiser's state."""


def why_not_replayed(config: RunConfig, world: World, *, equal_counts: bool) -> str | None:
    """Why the steps of a run are launched one by one; None where one is recorded and replayed."""
    if world.device.type != "cuda":
        return "the device is no GPU"
    if not config.cuda_graph:
        return "cuda_graph is false"
    if config.memory == "lean":
        return "memory is lean: a recorded step keeps to itself what it needs, all the time"
    if world.size > 1:
        return "several processes train"
    if not equal_counts:
        return "the samples give different numbers of points"
    return None


class Replayed:
    """Moves batches of one shape to the device and runs `step` on each.

    `step` must do all its work on the device without waiting for it, and what it reads and keeps
    between steps must stay at the same addresses.
    """

    def __init__(
        self, step: Callable[[Batch], None], device: torch.device, dtype: torch.dtype
    ) -> None:
        self._step, self._device, self._dtype = step, device, dtype
        self._stream = torch.cuda.Stream(device)
        self._taken = 0
        self._batch: Batch | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch) -> None:
        if self._taken < WARM_UP:
            self._take_alone(batch)
        else:
            if self._graph is None:
                self._graph = self._record(batch)
            assert self._batch is not None
            self._batch.rows.copy_(batch.rows, non_blocking=True)
            self._graph.replay()
        self._taken += 1

    def _take_alone(self, batch: Batch) -> None:
        """A warm-up step, on the stream of the recording: autograd sets up its state there."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._step(batch.to(self._device, self._dtype))
        current.wait_stream(self._stream)

    def _record(self, batch: Batch) -> torch.cuda.CUDAGraph:
        self._batch = batch.to(self._device, self._dtype)
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: the loader's thread may go on pinning batches during the recording
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._step(self._batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise TrainingStopped(
                "the step could not be recorded as a CUDA graph; cuda_graph=false takes the steps"
                f" one by one ({str(error).splitlines()[0]})"
            ) from error
        return graph
