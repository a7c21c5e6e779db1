"""Messages between a process and the one that reads meshes for it, over a Unix socket.

A message is JSON after its length, followed by arrays. Small arrays are sent as bytes; of a large
one an anonymous file in memory is handed over, which the receiver maps: it is written once and
never copied again, and nothing is left behind when a process dies. There is no pickle: a process
whose memory a hostile file has corrupted must not be able to run code in the other.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
_SMALL = 1 << 16  # bytes; an array up to this size is sent as it is
_LONGEST = 1 << 28  # bytes of JSON
_DTYPES = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f4", "f8"}


class Closed(Exception):
    """The other process has closed the connection, or has ended."""


def send(link: socket.socket, value: Any, arrays: Sequence[NDArray[Any]] = ()) -> None:
    described = [[a.dtype.str[1:], list(a.shape)] for a in arrays]
    text = json.dumps([value, described]).encode()
    try:
        link.sendall(_LENGTH.pack(len(text)) + text)
        for array in arrays:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if raw.nbytes <= _SMALL:
                link.sendall(raw.tobytes())
            else:
                _send_file(link, memoryview(raw))  # type: ignore[arg-type]
    except (BrokenPipeError, ConnectionResetError):
        raise Closed from None


def receive(link: socket.socket, deadline: float | None = None) -> tuple[Any, list[NDArray[Any]]]:
    """The next message; TimeoutError after the deadline, by the clock `time.monotonic`."""
    (length,) = _LENGTH.unpack(_take(link, _LENGTH.size, deadline))
    if length > _LONGEST:
        raise Closed
    try:
        value, described = json.loads(_take(link, length, deadline))
    except ValueError:
        raise Closed from None
    return value, [_receive_array(link, kind, shape, deadline) for kind, shape in described]


def _send_file(link: socket.socket, raw: memoryview) -> None:
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("mesh", os.MFD_CLOEXEC)
    else:  # a file without a name
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    try:
        place = 0
        while place < len(raw):
            place += os.write(handle, raw[place : place + (1 << 30)])
        socket.send_fds(link, [b"f"], [handle])
    finally:
        os.close(handle)


def _receive_array(
    link: socket.socket, kind: str, shape: Sequence[int], deadline: float | None
) -> NDArray[Any]:
    if kind not in _DTYPES or any(size < 0 for size in shape):
        raise Closed
    dtype = np.dtype(kind)
    length = math.prod(shape) * dtype.itemsize
    if length <= _SMALL:
        return np.frombuffer(bytearray(_take(link, length, deadline)), dtype).reshape(shape)
    _wait(link, deadline)
    _, handles, *_ = socket.recv_fds(link, 1, 1)
    if not handles:
        raise Closed
    try:
        if os.fstat(handles[0]).st_size != length:
            raise Closed
        return np.frombuffer(mmap.mmap(handles[0], length), dtype).reshape(shape)
    finally:
        os.close(handles[0])


def _take(link: socket.socket, length: int, deadline: float | None) -> bytes:
    taken = bytearray()
    while len(taken) < length:
        _wait(link, deadline)
        try:
            some = link.recv(min(length - len(taken), 1 << 20))
        except ConnectionResetError:
            raise Closed from None
        if not some:
            raise Closed
        taken += some
    return bytes(taken)


def _wait(link: socket.socket, deadline: float | None) -> None:
    """Let the next call on the socket wait until the deadline at most."""
    link.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-3))
