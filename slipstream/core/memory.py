"""How much memory this machine has, and whether an error says that something needs more."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may use, in its second and first version."""


@cache
def machine_memory() -> int:
    """Bytes of memory that this machine has, or fewer where a container is given fewer."""
    least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in map(Path, _GROUPS):
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdecimal():
            least = min(least, int(text))
    return least


def array_bytes(error: BaseException) -> int | None:
    """The size of the array that numpy could not allocate; None for any other error."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if not isinstance(error, MemoryError) or shape is None or dtype is None:
        return None
    return math.prod(shape) * int(dtype.itemsize)
