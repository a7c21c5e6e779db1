"""STORE/ingest: what is known of an ingest until its manifest is written.

origin.json              fields, options and seed it was begun with
done/<id>.json           the manifest's entry of a sample that is written
changed/<id>             a sample that the manifest has and that is written again, of other files
shard-<i>-of-<n>.json    a finished shard: the manifest's entries of its samples
lock-<i>-of-<n>          held by the process that works on a shard
work-*                   folders for files being written
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from slipstream.core.files import json_text, read_json, write_text
from slipstream.data.store.differences import difference
from slipstream.data.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    Origin,
    SampleEntry,
    naming_file,
    read_manifest,
    samples_from_json,
    splits_from_json,
)
from slipstream.data.store.point_store import CHANGED, sample_file
from slipstream.data.store.splits import Splits

REMOVED = ".ingest.partial"
"""In the store: the folder while it is being removed."""


@dataclass(frozen=True)
class Part:
    """What a shard has done."""

    origin: Origin
    splits: Splits
    """Of the whole source."""
    samples: Mapping[str, SampleEntry]
    quarantined: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.origin.to_json(),
            "splits": {name: list(ids) for name, ids in self.splits.items()},
            "samples": {sample: entry.to_json() for sample, entry in self.samples.items()},
            "quarantined": dict(self.quarantined),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        origin = Origin.from_json(value)
        return cls(
            origin,
            splits_from_json(value["splits"]),
            samples_from_json(value["samples"], origin.schema.width),
            value["quarantined"],
        )


class Unfinished:
    """The folder STORE/ingest of one store."""

    def __init__(self, store: Path) -> None:
        self.store, self.path = store, store / "ingest"
        self._lock: IO[bytes] | None = None

    def manifest(self) -> Manifest | None:
        """What the store has from an ingest that was finished."""
        path = self.store / MANIFEST_NAME
        return read_manifest(path) if path.is_file() else None

    def begin(self, origin: Origin, ids: Sequence[str], before: Manifest | None) -> None:
        """Make the folder, or go on with the one there; `before` is the store's manifest.

        Raises ValueError, having changed nothing, when the store is of another origin, has samples
        that are not among `ids`, or is no store.
        """
        note = self.path / "origin.json"
        if before:
            self._check_origin(before.origin, origin)
        elif note.is_file():
            value = read_json(note)
            with naming_file(note):
                begun = Origin.from_json(value)
            self._check_origin(begun, origin)
        elif self.store.exists() and not _only_folders(self.store, ("ingest", "samples")):
            raise ValueError(f"{self.store} must be a store or an empty folder, got other files")
        gone = sorted({*(before.samples if before else ()), *self._begun()} - set(ids))
        if gone:
            raise ValueError(
                f"the source must still have sample {gone[0]!r} of {self.store}, got none"
            )
        (self.path / "done").mkdir(parents=True, exist_ok=True)
        if not note.is_file():
            write_text(note, json_text(origin.to_json()))

    @contextmanager
    def locked(self, shard: tuple[int, int]) -> Iterator[None]:
        """Hold a shard; ValueError where another live process does. A killed one holds nothing."""
        self._lock = (self.path / f"lock-{shard[0]}-of-{shard[1]}").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            what = "it" if shard[1] == 1 else f"shard {shard[0]} of {shard[1]}"
            raise ValueError(
                f"{self.store} must not be in use, got a live process that writes {what}: wait for"
                " it to end"
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            self._unlock()

    def _unlock(self) -> None:
        """Also before the file is removed: NFS keeps an open one, and with it the folder."""
        if self._lock:
            self._lock.close()

    def _begun(self) -> set[str]:
        """The samples that an unfinished ingest has recorded, or written and not yet recorded."""
        if not self.path.is_dir():
            return set()
        files = [*self.path.glob("done/*.json"), *self.store.glob("samples/*.npy")]
        return {file.stem for file in files}

    def work_folder(self, shard: tuple[int, int]) -> Path:
        """A new folder to write in; what a killed run of the same shard left is removed."""
        prefix = f"work-{shard[0]}-of-{shard[1]}-"
        for old in self.path.glob(prefix + "*"):
            self.drop(old)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=self.path))

    def drop(self, work: Path) -> None:
        """Remove a work folder."""
        shutil.rmtree(work, ignore_errors=True)

    def record(self, sample: str, entry: SampleEntry) -> None:
        """Note that a sample is written: the next run keeps it.

        Not durable: a record that a power failure spoils is read as none.
        """
        write_text(self._record(sample), json_text(entry.to_json()), durable=False)

    def finished(self, ids: Sequence[str], before: Manifest | None) -> dict[str, SampleEntry]:
        """The samples that the manifest or an earlier run has, and whose files are there."""
        entries = {}
        for sample in ids:
            entry = before.samples.get(sample) if before else None
            if entry is None or self._changed(sample).exists():
                entry = self._recorded(sample)
            if entry and _size(sample_file(self.store, sample)) == entry.bytes:
                entries[sample] = entry
        return entries

    def forget(self, sample: str) -> None:
        """Note that a finished sample is about to be written again, of other files.

        Durable: from here on neither its record nor the manifest speaks of what its file holds.
        """
        self._changed(sample).parent.mkdir(exist_ok=True)
        write_text(self._changed(sample), "")
        self._record(sample).unlink(missing_ok=True)

    def check_files(self, part: Path, samples: Mapping[str, SampleEntry]) -> None:
        """Raise ValueError when a sample of a finished shard is not in the store, or cut short."""
        for sample, entry in samples.items():
            file = sample_file(self.store, sample)
            size = _size(file)
            if size != entry.bytes:
                got = "none" if size is None else f"{size}"
                raise ValueError(
                    f"{file} must have the {entry.bytes} bytes that {part.name} says, got {got}:"
                    " copy it here, or run that shard again"
                )

    def _recorded(self, sample: str) -> SampleEntry | None:
        try:
            return SampleEntry.from_json(read_json(self._record(sample)))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def write_part(self, shard: tuple[int, int], part: Part) -> None:
        text = json_text(part.to_json(), spread=("splits", "samples", "quarantined"))
        write_text(self._shard_file(*shard), text)

    def read_parts(self) -> dict[Path, Part]:
        """All shards, or ValueError naming those that are missing."""
        found = sorted(self.path.glob("shard-*-of-*.json"))
        named = (re.fullmatch(r"shard-\d+-of-(\d+)\.json", path.name) for path in found)
        count = next((int(name[1]) for name in named if name), None)
        if count is None:
            got = ", ".join(path.name for path in found) or "none"
            raise ValueError(f"{self.store} must hold shards to merge, got {got}")
        wanted = [self._shard_file(index, count) for index in range(count)]
        missing = [path.name for path in wanted if path not in found]
        besides = [path.name for path in found if path not in wanted]
        if missing or besides:
            got = f"no {', '.join(missing)}" if missing else f"also {', '.join(besides)}"
            raise ValueError(f"{self.store} must hold {count} shards to merge, got {got}")
        parts = {}
        for path in wanted:
            value = read_json(path)
            with naming_file(path):
                parts[path] = Part.from_json(value)
        return parts

    def remove(self) -> None:
        """Everything is in the manifest. Renamed first, so that a kill leaves no half of it."""
        old = self.store / REMOVED
        if old.is_dir():
            shutil.rmtree(old)
        if self.path.is_dir():
            os.replace(self.path, old)
            self._unlock()
            shutil.rmtree(old)

    def give_up(self, work: Path) -> None:
        """After a failure: keep what is done; a store in which nothing is done goes again."""
        self.drop(work)
        others = (
            path for kind in ("shard-*", "work-*", "changed") for path in self.path.glob(kind)
        )
        if any(others) or any((self.path / "done").iterdir()):
            return
        self._unlock()
        shutil.rmtree(self.path)
        for folder in (self.store / "samples", self.store):
            with suppress(OSError):  # not empty, or never made
                folder.rmdir()

    def _check_origin(self, before: Origin, now: Origin) -> None:
        had, has = before.to_json(), now.to_json()
        pairs = {"fields": (had["fields"], has["fields"])}
        for key in ("source", "options", "seed"):
            pairs[key] = (had["provenance"][key], has["provenance"][key])
        for what, (old, new) in pairs.items():
            if old != new:
                raise ValueError(
                    f"{what} must be what {self.store} was begun with, {difference(old, new)}"
                )

    def _changed(self, sample: str) -> Path:
        return self.store / CHANGED / sample

    def _record(self, sample: str) -> Path:
        return self.path / "done" / f"{sample}.json"

    def _shard_file(self, index: int, count: int) -> Path:
        return self.path / f"shard-{index}-of-{count}.json"


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _only_folders(path: Path, allowed: tuple[str, ...]) -> bool:
    """Whether a folder holds nothing but these, as after a kill in the first moments."""
    return path.is_dir() and all(child.name in allowed for child in path.iterdir())
