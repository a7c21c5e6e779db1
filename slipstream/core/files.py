"""Files that are whole or absent: write aside, fsync, rename."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """The hash of a source file: what publishers of data list, so that the two can be compared."""
    with naming(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have errors of the system name the file: those of writing, as on a full disk, do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def publish(aside: Path, path: Path) -> None:
    """Give a finished file its name: to any reader it is there whole, or not at all.

    After a power failure the name may be gone until `sync_folder`, but what has it is whole.
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
    """Write a small file, whole or not at all: what was there stays until the new one is safe.

    Not `durable`, that holds for a killed process but not for a power failure.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with naming(path):
            aside.write_text(text, encoding="utf-8")
            if durable:
                publish(aside, path)
                sync_folder(path.parent)
            else:
                os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def remove_partials(path: Path) -> None:
    """Remove what killed processes left of writing this file, and nothing else."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9]+\.partial")
    for file in path.parent.iterdir():
        if left.fullmatch(file.name) and file.is_file():
            file.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or one sentence that says what the file is instead."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON object, got {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(value).__name__}")
    return value


def json_text(value: Mapping[str, Any], *, spread: tuple[str, ...] = ()) -> str:
    """JSON with one line a key, and for the keys in `spread` one line an entry of theirs."""
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
