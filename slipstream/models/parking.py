"""Where the streams of chunks wait between two sweeps: on the device, in host memory, in a file.

`recompute` keeps nothing: a chunk's stream is computed again from its inputs through the tokens of
the layers before, which takes L (L + 1) / 2 layers instead of L, and no memory.
"""

from __future__ import annotations

import os
import tempfile
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
    """In pinned memory of the host, for a GPU. Copies run beside the kernels, in a stream of their
    own, which keeps them in order: a chunk is fetched before its new values overwrite it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._copies = torch.cuda.Stream(device)
        self._held: dict[int, Tensors] = {}
        self._fetched: dict[int, Tensors] = {}

    def put(self, chunk: int, tensors: Tensors) -> None:
        if chunk not in self._held:
            self._held[chunk] = tuple(
                torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors
            )
        self._copies.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._copies):
            for held, tensor in zip(self._held[chunk], tensors, strict=True):
                held.copy_(tensor, non_blocking=True)
                tensor.record_stream(self._copies)  # its memory is in use until the copy is done

    def get(self, chunk: int) -> Tensors:
        self._fetch(chunk)
        now = torch.cuda.current_stream(self._device)
        now.wait_stream(self._copies)
        tensors = self._fetched.pop(chunk)
        for tensor in tensors:
            tensor.record_stream(now)
        self._fetch(chunk + 1)
        return tensors

    def _fetch(self, chunk: int) -> None:
        if chunk in self._held and chunk not in self._fetched:
            with torch.cuda.stream(self._copies):
                self._fetched[chunk] = tuple(
                    held.to(self._device, non_blocking=True) for held in self._held[chunk]
                )

    def close(self) -> None:
        torch.cuda.synchronize(self._device)
        self._held.clear()
        self._fetched.clear()


class FileParking:
    """In a file without a name, which is gone with the process. A thread reads the next chunk and
    writes the last one, so that the disk works beside the kernels."""

    def __init__(self, device: torch.device, folder: Path | None = None) -> None:
        self._device, self._folder = device, folder or Path(tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(dir=self._folder)
        self._thread = ThreadPoolExecutor(1, "slipstream-parking")
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
        self._written = self._thread.submit(self._write, self._begins[chunk], tensors)

    def get(self, chunk: int) -> Tensors:
        tensors = self._fetch(chunk).result()
        del self._fetched[chunk]
        if chunk + 1 in self._begins:
            self._fetch(chunk + 1)
        return tuple(tensor.to(self._device) for tensor in tensors)

    def _fetch(self, chunk: int) -> Future[Tensors]:
        if chunk not in self._fetched:
            self._fetched[chunk] = self._thread.submit(self._read, chunk)
        return self._fetched[chunk]

    def _write(self, begin: int, tensors: Tensors) -> None:
        for tensor in tensors:
            rest = memoryview(_bytes(tensor.cpu().contiguous()))
            while len(rest):
                try:
                    written = os.pwrite(self._file.fileno(), rest, begin)
                except OSError as error:
                    raise OSError(error.errno, error.strerror, str(self._folder)) from None
                rest, begin = rest[written:], begin + written

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
