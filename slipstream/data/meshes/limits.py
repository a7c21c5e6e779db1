"""How much memory and time the reading of one mesh may take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from slipstream.core.memory import machine_memory

GB = 1_000_000_000
_SHARE = 0.8  # of the machine's memory
_TIMES = 100  # an image of n compressed float32 values takes 100 n bytes once its cells are listed
_LEAST = 4 * GB
_SECONDS, _SECONDS_FOR_GB = 600, 60


@dataclass(frozen=True)
class ReadLimits:
    """None: 100 times the file's size, at least 4 GB, at most 80 % of the machine's memory; 600 s
    and 60 s more for each GB of the file."""

    memory: float | int | None = None
    """In GB."""
    seconds: float | int | None = None

    def __post_init__(self) -> None:
        for name, value in (("read memory", self.memory), ("read timeout", self.seconds)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0, got {value}")

    def memory_for(self, size: int) -> int:
        """Bytes of memory for a mesh whose files have `size` bytes."""
        if self.memory is not None:
            return int(self.memory * GB)
        return int(min(_SHARE * machine_memory(), max(_LEAST, _TIMES * size)))

    def seconds_for(self, size: int) -> float | int:
        if self.seconds is not None:
            return self.seconds
        return _SECONDS + _SECONDS_FOR_GB * size / GB


_USUAL = ReadLimits()
_current: ContextVar[ReadLimits] = ContextVar("read limits", default=_USUAL)


@contextmanager
def read_within(limits: ReadLimits) -> Iterator[None]:
    """Meshes that are read inside this context have these limits."""
    before = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(before)


def current_limits() -> ReadLimits:
    return _current.get()


def too_much(name: str, limit: int, doing: str = "reading") -> str:
    """The sentence for a file whose reading or writing needs more memory than the limit."""
    return f"{doing} {name} needs more than the {limit / GB:.3g} GB that --read-memory allows"


def too_long(name: str, seconds: float | int, doing: str = "reading") -> str:
    return f"{doing} {name} took more than the {seconds:.4g} s that --read-timeout allows"


def check_fits(name: str, needed: int, size: int) -> None:
    """Raise if values of `needed` bytes, from a file of `size` bytes, exceed the limit."""
    limit = current_limits().memory_for(size)
    if needed > limit:
        raise ValueError(f"{too_much(name, limit)}: it declares {needed / GB:.4g} GB")


@contextmanager
def memory_named(name: str) -> Iterator[None]:
    """A lack of memory as ValueError that names the file: what it declares may be wrong."""
    try:
        yield
    except MemoryError as error:
        detail = " ".join(str(error).split()) or "an allocation that failed"
        raise ValueError(f"{name} must fit into memory, got {detail}") from None
