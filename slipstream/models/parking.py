"""Where the streams of chunks wait between two sweeps: on the device, in host memory, in a file.

`recompute` keeps nothing: a chunk's stream is computed again from its inputs through the tokens of
the layers before, which takes L (L + 1) / 2 layers instead of L, and no memory.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]
Place = Literal["device", "host", "file", "recompute"]


@runtime_checkable
class Parking(Protocol):
    """Tensors by the number of their chunk. Every chunk is taken before it is parked again."""

    def put(self, chunk: int, tensors: Tensors) -> None: ...

    def get(self, chunk: int) -> Tensors:
        """The tensors of a chunk, on the device; those of the next one may be fetched ahead."""
        ...

    def close(self) -> None: ...


class DeviceParking:
    """Kept where they are computed."""

    def __init__(self) -> None:
        self._held: dict[int, Tensors] = {}

    def put(self, chunk: int, tensors: Tensors) -> None:
        self._held[chunk] = tensors

    def get(self, chunk: int) -> Tensors:
        return self._held.pop(chunk)

    def close(self) -> None:
        self._held.clear()


class HostParking:
    """In pinned memory of the host, for a GPU, which copies beside its kernels.

    While chunk k is computed, chunk k - 1 goes to the host in one stream and chunk k + 1 comes to
    the device in another. All memory on the device is allocated in the stream that computes and is
    referred to until its copy is done; so much of it is in use as these three chunks need.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._leave, self._come = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._held: dict[int, Tensors] = {}
        self._written: dict[int, torch.cuda.Event] = {}
        self._leaving: deque[tuple[torch.cuda.Event, Tensors]] = deque()
        self._coming: dict[int, tuple[torch.cuda.Event, Tensors]] = {}

    def put(self, chunk: int, tensors: Tensors) -> None:
        if chunk not in self._held:
            self._held[chunk] = tuple(
                torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors
            )
        # Kernels wait for what they take: after those of a chunk its old values have been fetched.
        self._leave.wait_stream(torch.cuda.current_stream(self._device))
        written = self._copy(self._leave, self._held[chunk], tensors)
        self._written[chunk] = written
        self._leaving.append((written, tensors))
        while len(self._leaving) > 1:  # else the host is many chunks ahead, each with its memory
            self._leaving.popleft()[0].synchronize()

    def get(self, chunk: int) -> Tensors:
        coming = self._coming.pop(chunk, None)
        ready, tensors = self._fetch(chunk) if coming is None else coming
        torch.cuda.current_stream(self._device).wait_event(ready)
        if chunk + 1 in self._held and chunk + 1 not in self._coming:
            self._coming[chunk + 1] = self._fetch(chunk + 1)
        return tensors

    def _fetch(self, chunk: int) -> tuple[torch.cuda.Event, Tensors]:
        held = self._held[chunk]
        tensors = tuple(torch.empty(t.shape, dtype=t.dtype, device=self._device) for t in held)
        # Kernels that were launched before may still read what was in this memory.
        self._come.wait_stream(torch.cuda.current_stream(self._device))
        self._come.wait_event(self._written[chunk])
        return self._copy(self._come, tensors, held), tensors

    def _copy(self, stream: torch.cuda.Stream, to: Tensors, tensors: Tensors) -> torch.cuda.Event:
        """Copy in a stream; the event says when it is done."""
        done = torch.cuda.Event()
        with torch.cuda.stream(stream):
            for target, tensor in zip(to, tensors, strict=True):
                target.copy_(tensor, non_blocking=True)
            done.record(stream)
        return done

    def close(self) -> None:
        try:
            torch.cuda.synchronize(self._device)
        finally:
            for kept in (self._held, self._written, self._leaving, self._coming):
                kept.clear()
            _return_pinned_memory()


def _return_pinned_memory() -> None:
    """PyTorch keeps pinned memory for itself otherwise; its functions for this have no public name
    in all versions."""
    for name in ("_accelerator_emptyHostCache", "_host_emptyCache"):
        if function := getattr(torch._C, name, None):
            return function()


class FileParking:
    """In a file without a name, which is gone with the process. A thread reads the next chunk and
    writes the last one, in the order of the calls, so that the disk works beside the kernels."""

    def __init__(self, device: torch.device, folder: Path | None = None) -> None:
        self._device, self._folder = device, folder or Path(tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(dir=self._folder)
        self._thread = ThreadPoolExecutor(1, "slipstream-parking")
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._like: dict[int, Sequence[tuple[torch.Size, torch.dtype]]] = {}
        self._begins: dict[int, int] = {}
        self._end = 0
        self._written: Future[None] | None = None
        self._fetched: dict[int, Future[Tensors]] = {}

    def put(self, chunk: int, tensors: Tensors) -> None:
        if chunk not in self._begins:
            self._like[chunk] = [(t.shape, t.dtype) for t in tensors]
            self._begins[chunk] = self._end
            self._end += sum(t.nbytes for t in tensors)
        if self._written is not None:
            self._written.result()  # one chunk waits to be written, not all of them
        computed = None
        if self._copies is not None:  # the thread's own stream knows nothing of this one's kernels
            computed = torch.cuda.current_stream(self._device).record_event()
        self._written = self._thread.submit(self._write, self._begins[chunk], tensors, computed)

    def get(self, chunk: int) -> Tensors:
        tensors = self._fetch(chunk).result()
        del self._fetched[chunk]
        if self._written is not None and self._written.done():
            self._written.result()  # raises what the last write raised: no put may come after it
        if chunk + 1 in self._begins:
            self._fetch(chunk + 1)
        return tuple(tensor.to(self._device) for tensor in tensors)

    def _fetch(self, chunk: int) -> Future[Tensors]:
        if chunk not in self._fetched:
            self._fetched[chunk] = self._thread.submit(self._read, chunk)
        return self._fetched[chunk]

    def _write(self, begin: int, tensors: Tensors, computed: torch.cuda.Event | None) -> None:
        for tensor in tensors:
            rest = memoryview(_bytes(self._on_host(tensor, computed)))
            while len(rest):
                try:
                    written = os.pwrite(self._file.fileno(), rest, begin)
                except OSError as error:
                    raise OSError(error.errno, error.strerror, str(self._folder)) from None
                rest, begin = rest[written:], begin + written

    def _on_host(self, tensor: Tensor, computed: torch.cuda.Event | None) -> Tensor:
        if self._copies is None or computed is None:
            return tensor.cpu().contiguous()
        with torch.cuda.stream(self._copies):
            self._copies.wait_event(computed)
            return tensor.cpu().contiguous()  # when it returns, the copy is done

    def _read(self, chunk: int) -> Tensors:
        begin, tensors = self._begins[chunk], []
        for shape, dtype in self._like[chunk]:
            tensor = torch.empty(shape, dtype=dtype)
            rest = memoryview(_bytes(tensor))
            while len(rest):
                read = os.preadv(self._file.fileno(), [rest], begin)
                if not read:
                    raise OSError(f"the file of parked chunks in {self._folder} was cut short")
                rest, begin = rest[read:], begin + read
            tensors.append(tensor)
        return tuple(tensors)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._file.close()


def _bytes(tensor: Tensor) -> Any:
    """The memory of a contiguous tensor in host memory, to be read and written."""
    return tensor.flatten().view(torch.uint8).numpy()


def make_parking(place: Place, device: torch.device, folder: Path | None = None) -> Parking | None:
    """None where chunks are computed again. `folder` is where the file is."""
    if place == "recompute":
        return None
    if place == "file":
        return FileParking(device, folder)
    if place == "host" and device.type == "cuda":
        return HostParking(device)
    return DeviceParking()
