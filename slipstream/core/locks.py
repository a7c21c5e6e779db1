"""Locks on files: one process holds a lock, and the system releases it however the process ends.

A holder has the lock to itself. Whoever asks whether it is held shares it for a moment with all
others that ask, and a process that comes to hold it tells the two apart: a question never makes it
fail.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from pathlib import Path
from typing import IO, Any


def take_lock(file: IO[Any], *, wait: bool = False, needed: bool = False) -> bool:
    """Hold the lock of an open file until it is closed; False where another process holds it.

    With `wait`, it waits until the other process has released it. Where the file system has no
    locks, OSError is raised if the lock is `needed`; else all may hold it. The file must be open
    for writing, which NFS demands.
    """
    try:
        return _take(file, wait)
    except OSError:
        if needed:
            raise
        return True


def _take(file: IO[Any], wait: bool) -> bool:
    if wait:
        fcntl.flock(file, fcntl.LOCK_EX)
        return True
    while not _try(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
        if not _try(file, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
        fcntl.flock(file, fcntl.LOCK_UN)  # nobody holds it: somebody asked just now
        time.sleep(random.uniform(0, 0.001))
    return True


def is_locked(path: Path) -> bool:
    """Whether a live process holds the lock of a file."""
    try:
        with path.open("rb") as file:
            return not _try(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # there is no such file, or the file system has no locks
        return False


def is_at(file: IO[Any], path: Path) -> bool:
    """Whether an open file still has this name: it may have been removed before it was locked."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _try(file: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    return True
