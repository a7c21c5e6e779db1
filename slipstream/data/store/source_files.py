"""The files that samples are made from: what the manifest records, and whether they have changed.

A resumed ingest of thousands of files of many GB must not read them all to learn that nothing has
changed, and the manifest, which has the same bytes whenever it is made, holds no times. So sizes
are always compared, but a hash only where a file is newer than the sample made from it. Newer is
meant by both times of the file system, as mv, tar and cp -p preserve the time of the content. If
nothing has changed, this reads the size and times of each file; a file that was only touched or
moved is hashed once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from slipstream.core.files import check_regular, sha256_of
from slipstream.data.store.manifest import SampleEntry

Described = Mapping[str, Mapping[str, Any]]
"""File name -> bytes and, where hashed, sha256."""


def describe_files(files: Mapping[str, Path], hashed: bool) -> dict[str, dict[str, Any]]:
    """The manifest's entry for the files of a sample; ValueError where one is missing."""
    described: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        check_regular(path)
        if not path.is_file():
            raise ValueError(f"source file {name} must exist, got none")
        described[name] = {"bytes": path.stat().st_size}
        if hashed:
            described[name]["sha256"] = hash_of(path, _changed_at(path))
    return described


def have_changed(
    recorded: Described, files: Mapping[str, Path], sample: Path, *, hashed: bool
) -> bool:
    """Whether a sample, written to the file `sample`, was made from other files than these.

    A missing file is no change: raw data may be removed once they are in a store. Hashes are
    compared if they are recorded and `hashed` is set. A sample whose files agree is given a later
    time than theirs, so that they are not hashed again.
    """
    if not all(path.is_file() for path in files.values()):
        return False
    if recorded.keys() != files.keys():
        return True
    if any(recorded[name].get("bytes") != path.stat().st_size for name, path in files.items()):
        return True
    if not hashed:
        return False
    written = sample.stat().st_mtime_ns
    times = {name: _changed_at(path) for name, path in files.items()}
    newer = [name for name in times if times[name] >= written and "sha256" in recorded[name]]
    if any(recorded[name]["sha256"] != hash_of(files[name], times[name]) for name in newer):
        return True
    if newer:
        after = 1 + max(times[name] for name in newer)
        with suppress(PermissionError):  # another user's file: it is hashed again next time
            os.utime(sample, ns=(after, after))
    return False


def check_agreement(shards: Iterable[tuple[str, Mapping[str, SampleEntry]]]) -> None:
    """Raise ValueError where two samples were made from different versions of one file.

    `shards` are the names and samples of the shards of one store.
    """
    seen: dict[tuple[str, str], tuple[str, str, Any]] = {}
    for shard, samples in shards:
        for sample, entry in samples.items():
            for name, key, value in _facts(entry.files):
                first, other, known = seen.setdefault((name, key), (shard, sample, value))
                if known != value:
                    outdated = " and ".join(dict.fromkeys((first, shard)))
                    raise ValueError(
                        f"source file {name} must be one file to all samples, got {key} {known} of"
                        f" {other} and {value} of {sample}: it changed in between, so run"
                        f" {outdated} again"
                    )


def _facts(files: Described) -> Iterable[tuple[str, str, Any]]:
    return ((name, key, file[key]) for name, file in files.items() for key in file)


def _changed_at(path: Path) -> int:
    """When the file's content or name last changed, in ns."""
    status = path.stat()
    return max(status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=256)
def hash_of(path: Path, changed: int) -> str:
    """The SHA-256 of a file, cached as some files hold many samples.

    `changed` is the time of the file's last change, so that a changed file is hashed again.
    """
    return sha256_of(path)
