"""Files that are complete or absent: written under another name, synced, then renamed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from slipstream.core.locks import is_at, take_lock

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def check_regular(path: Path) -> None:
    """Raise ValueError for what is no file, or a link to it: reading a pipe or device may not end.

    A missing file is left to whoever opens it.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFREG:
        raise ValueError(f"{path} must be a regular file, got {_KINDS.get(kind, 'another kind')}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a source file, the hash that publishers of data list beside their files."""
    check_regular(path)
    with naming(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of the system: a full disk, for one, is reported without."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextmanager
def naming_file(file: Path | str) -> Iterator[None]:
    """Begin the message of a ValueError about the content of a file with its name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def publish(aside: Path, path: Path) -> None:
    """Rename a finished file to its final name: a reader sees all of it or nothing.

    A power failure before `sync_folder` may lose the new name, but never leaves a part of the file.
    """
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(aside, path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder):
            os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a small file of text as `write_bytes` does."""
    write_bytes(path, text.encode(), durable=durable)


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file completely or not at all: the old one stays until the new one is safe.

    Without `durable` this holds if the process is killed, but not after a power failure. A process
    that is killed leaves `.NAME.PROCESS.partial`, which `remove_partials` removes.
    """
    with written_aside(path, durable=durable) as aside, aside.open("r+b") as file:
        file.write(content)


@contextmanager
def written_aside(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """An empty file beside `path`, to be written inside the context, also by another process.

    At the end it gets its final name, as `write_bytes` says; after an error it is removed. Whoever
    writes it must not replace it by another file.
    """
    aside = path.with_name(f".{path.name}.{process_number()}.partial")
    try:
        with naming(path), _locked_file(aside):
            yield aside
            if durable:
                publish(aside, path)
                sync_folder(path.parent)
            else:
                os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def remove_partials(folder: Path, *names: str) -> None:
    """Remove what killed processes left of files of these names when they wrote into a folder.

    A name may be a pattern, as `field-*.svg`. The file of a process that is still writing stays,
    and so does every file that is not named as this package names its own.
    """
    for file in folder.iterdir() if folder.is_dir() else ():
        match = _PARTIAL.fullmatch(file.name)
        ours = match and any(match[1] == name or fnmatchcase(match[1], name) for name in names)
        if ours and file.is_file():
            with suppress(FileNotFoundError, PermissionError), file.open("r+b") as left:
                if take_lock(left):
                    file.unlink()


def process_number() -> str:
    """A number that no other process has, on this machine or another one."""
    return f"{os.getpid()}{_RANDOM:09}"


_RANDOM = secrets.randbelow(10**9)
_PARTIAL = re.compile(r"\.(.+?)(?:\.[0-9]+)?\.partial")
"""Older versions wrote checkpoints as `.NAME.partial`, without the number of the process."""


@contextmanager
def _locked_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, locked: so `remove_partials` of another process knows that it is in use."""
    while True:
        with path.open("wb") as file:
            take_lock(file, wait=True)
            if is_at(file, path):  # else it was removed before it was locked
                yield file
                return


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; ValueError says in one sentence what the file is instead."""
    check_regular(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON object, got {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(value).__name__}")
    return value


def json_text(value: Mapping[str, Any], *, spread: tuple[str, ...] = ()) -> str:
    """JSON with one line for each key; a key in `spread` has one line for each of its entries."""
    lines = [f"{json.dumps(key)}: {_entry(key, value[key], spread)}" for key in value]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _entry(key: str, value: Any, spread: tuple[str, ...]) -> str:
    if key not in spread or not value:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    items = (
        f"  {json.dumps(name)}: {json.dumps(item, allow_nan=False, ensure_ascii=False)}"
        for name, item in value.items()
    )
    return "{\n" + ",\n".join(items) + "\n}"
