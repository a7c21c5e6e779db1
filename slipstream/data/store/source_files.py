"""The files that samples are made from: what the manifest says of them, and whether it still holds.

A resumed ingest of thousands of files of many GB must not read them all to learn that nothing has
changed, and the manifest, which is the same bytes whenever it is made, holds no times. So sizes are
always compared, but a hash only where a file was changed after the sample made from it was written,
as the file system says (its times of change: those of content alone survive mv, tar and cp -p).
Where nothing has changed that costs a look at each file's size and times; a file that was merely
touched or moved is read once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from slipstream.core.files import sha256_of
from slipstream.data.store.manifest import SampleEntry

Described = Mapping[str, Mapping[str, Any]]
"""File name -> bytes and, where hashed, sha256."""


def describe_files(files: Mapping[str, Path], hashed: bool) -> dict[str, dict[str, Any]]:
    """What the manifest says of the files of a sample; ValueError where one is not there."""
    described: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
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

    One that is gone changes nothing: raw data may be put away once it is in a store. Hashes are
    compared where one is recorded and `hashed`. A sample whose files agree is given a time past
    theirs, so that they are not hashed again.
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
        with suppress(PermissionError):  # of another user: hashed again next time
            os.utime(sample, ns=(after, after))
    return False


def check_agreement(shards: Iterable[tuple[str, Mapping[str, SampleEntry]]]) -> None:
    """Raise ValueError where a file was another one to one sample than to the next.

    `shards` are names and samples of shards that are to be one store.
    """
    seen: dict[tuple[str, str], tuple[str, str, Any]] = {}
    for shard, samples in shards:
        for sample, entry in samples.items():
            for name, key, value in _facts(entry.files):
                first, other, known = seen.setdefault((name, key), (shard, sample, value))
                if known != value:
                    again = " and ".join(dict.fromkeys((first, shard)))
                    raise ValueError(
                        f"source file {name} must be one file to all samples, got {key} {known} of"
                        f" {other} and {value} of {sample}: it changed in between, so run {again}"
                        " again"
                    )


def _facts(files: Described) -> Iterable[tuple[str, str, Any]]:
    return ((name, key, file[key]) for name, file in files.items() for key in file)


def _changed_at(path: Path) -> int:
    """When content or name last changed, in ns."""
    status = path.stat()
    return max(status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=256)
def hash_of(path: Path, changed: int) -> str:
    """Kept, since some files hold many samples; `changed` is when the file last was."""
    return sha256_of(path)
