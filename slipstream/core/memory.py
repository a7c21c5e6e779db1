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


def free_memory() -> int:
    """Bytes of memory that programs may still take, by the system's own estimate on Linux; half of
    the machine's elsewhere."""
    information = Path("/proc/meminfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(machine_memory(), 1024 * int(line.split()[1]))
    return machine_memory() // 2
