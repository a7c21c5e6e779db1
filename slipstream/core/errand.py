"""A task for workers that may be processes of other machines: they read it from a shared folder.

The task lies in a file of the folder that it works on, and what is sent is the file's place and
hash. So a worker that does not see that folder says so before it does anything, and a task that
holds a long list of files is read once by each process, not sent with every item. The file is
locked, and is there only while the call that wrote it lives.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from slipstream.core.files import naming
from slipstream.core.locks import is_locked, take_lock
from slipstream.core.runtime import compute_alike
from slipstream.core.version import VERSION

PREFIX = ".engine-"
"""Files of this name may lie in a store, study or run while workers are at it."""
_EXTRAS = ("pyvista", "h5py")

Item = TypeVar("Item")
Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _extras() -> tuple[str, ...]:
    return tuple(name for name in _EXTRAS if find_spec(name) is not None)


@dataclass(frozen=True)
class Errand(Generic[Item, Result]):
    """A task as it is sent: called on a worker, with one item at a time.

    ValueError names the worker's machine where it has another version or lacks an extra, where it
    does not see the folder or the files, and where it does not see locks that are needed.
    """

    path: Path
    sha256: str
    files: tuple[tuple[Path, int], ...]
    """Files that the task reads, and their sizes."""
    locks: bool
    folder: Path
    """What the worker is to see by the file: the folder it is in, or one above it."""
    host: str = field(default_factory=platform.node)
    version: str = VERSION
    extras: tuple[str, ...] = field(default_factory=_extras)

    def __call__(self, item: Item) -> Result:
        self._check()
        compute_alike()
        task: Callable[[Item], Result] = _read(self.path, self.sha256)
        return task(item)

    def _check(self) -> None:
        worker = f"the worker on {platform.node()}"
        if self.version != VERSION:
            raise ValueError(f"{worker} must have slipstream {self.version}, got {VERSION}")
        lacking = sorted(set(self.extras) - set(_extras()))
        if lacking:
            raise ValueError(f"{worker} must have {lacking[0]} as {self.host} has, got none")
        for file, size in ((self.path, None), *self.files):
            seen = file.stat().st_size if file.is_file() else None
            if seen is None or size not in (None, seen):
                what = self.folder if size is None else file
                got = "another or none" if seen is None else f"one of {seen} bytes"
                raise ValueError(
                    f"{worker} must see the same {what} as {self.host}, got {got}: folders"
                    " must be shared and have the same names on all machines"
                )
        if self.locks and not is_locked(self.path):
            raise ValueError(
                f"{worker} must see which files of {self.folder} {self.host} has locked, got"
                " none: the file system must be mounted with locks that machines share"
            )


def check_alone(folder: Path) -> None:
    """ValueError where a live process hands out a task in a folder."""
    for other in folder.glob(f"{PREFIX}*"):
        if is_locked(other):
            raise ValueError(
                f"{folder} must not be in use, got a live process that hands out its tasks: wait"
                " for it to end"
            )


@contextmanager
def errand_in(
    folder: Path,
    task: Callable[[Item], Result],
    *,
    files: Sequence[Path] = (),
    locks: bool = False,
    named: Path | None = None,
) -> Iterator[Errand[Item, Result]]:
    """Keep a task in a folder for as long as the context; its lock is held so long too. Errors name
    that folder, or `named`, in which it is.

    What a killed process left there is removed. OSError where locks are needed and the file system
    has none.
    """
    folder = folder.absolute()
    for old in folder.glob(f"{PREFIX}*"):
        if not is_locked(old):
            old.unlink(missing_ok=True)
    content = pickle.dumps(task)
    path = folder / f"{PREFIX}{uuid.uuid4().hex}"
    sized = tuple((file.absolute(), file.stat().st_size) for file in files if file.is_file())
    try:
        with path.open("wb") as file:
            with naming(path):
                take_lock(file, needed=locks)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            sha256 = hashlib.sha256(content).hexdigest()
            yield Errand(path, sha256, sized, locks, named or folder)
    finally:  # not before it is closed: on NFS an open file stays, and so does its folder
        path.unlink(missing_ok=True)


@lru_cache(maxsize=1)  # a task may hold models on a GPU
def _read(path: Path, sha256: str) -> Callable[[Any], Any]:
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"the worker on {platform.node()} must see {path.parent} as other machines do, got"
            f" another content of {path.name}"
        )
    task: Callable[[Any], Any] = pickle.loads(content)
    return task
