"""Processes of the machine, by /proc: the children of one, their memory, and their end."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def tree(pid: int) -> list[int]:
    """A process and all processes that it started, and these in turn."""
    pids = [pid]
    for parent in pids:
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(*_GONE):
                pids += map(int, file.read_text().split())
    return pids


def status(pid: int, field: str) -> int:
    """A field of /proc/PID/status in bytes, as VmHWM, the most memory; 0 if the process is gone."""
    with suppress(*_GONE):
        found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


def memory(pid: int, field: str) -> int:
    return sum(status(one, field) for one in tree(pid))


def forget_peak(pid: int) -> None:
    """Let VmHWM of a process and its children begin again at what they hold now."""
    for one in tree(pid):
        with suppress(*_GONE):
            Path(f"/proc/{one}/clear_refs").write_text("5")


def kill_tree(pid: int) -> None:
    """End a process and its children; it must be the leader of a session that they share."""
    pids = tree(pid)
    for one in pids:
        with suppress(*_GONE):
            os.kill(one, signal.SIGKILL)
    with suppress(*_GONE):
        os.killpg(pid, signal.SIGKILL)
