"""STORE/ingest: the state of an ingest until its manifest is written.

origin.json              the fields, options and seed of the ingest
done/<id>.json           the manifest's entry of a sample that is written
changed/<id>             a sample of the manifest that is rewritten as its files have changed
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

from slipstream.core.files import json_text, naming_file, read_json, write_text
from slipstream.core.schemas import parsed
from slipstream.data.store.differences import difference
from slipstream.data.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    Origin,
    SampleEntry,
    WrittenSamples,
    read_manifest,
)
from slipstream.data.store.point_store import CHANGED, sample_file
from slipstream.data.store.splits import Splits

REMOVED = ".ingest.partial"
"""The name of the folder STORE/ingest while it is being removed."""


@dataclass(frozen=True)
class Part:
    """The samples of one finished shard."""

    origin: Origin
    splits: Splits
    """Splits of the whole source, not of the shard only."""
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
        """Raises ValueError where the value is not what `to_json` returns."""
        written = parsed(WrittenSamples, value)
        written.check()
        return cls(written.origin, written.splits, written.samples, written.quarantined)


class Unfinished:
    """The folder STORE/ingest of one store."""

    def __init__(self, store: Path) -> None:
        self.store, self.path = store, store / "ingest"
        self._lock: IO[bytes] | None = None

    def manifest(self) -> Manifest | None:
        """The store's manifest from an earlier, finished ingest; None without one."""
        path = self.store / MANIFEST_NAME
        return read_manifest(path) if path.is_file() else None

    def begin(self, origin: Origin, ids: Sequence[str], before: Manifest | None) -> None:
        """Make the folder, or continue with the existing one; `before` is the store's manifest.

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
        """Hold the lock of a shard; ValueError where another live process holds it.

        The system releases the lock of a process that is killed.
        """
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
        except OSError:  # the file system has no locks
            pass
        try:
            yield
        finally:
            self._unlock()

    def _unlock(self) -> None:
        """Close the lock file. It must be closed before it is removed: on NFS an open file stays,
        and so does its folder."""
        if self._lock:
            self._lock.close()

    def _begun(self) -> set[str]:
        """The samples that an unfinished ingest has written, recorded or not."""
        if not self.path.is_dir():
            return set()
        files = [*self.path.glob("done/*.json"), *self.store.glob("samples/*.npy")]
        return {file.stem for file in files}

    def work_folder(self, shard: tuple[int, int]) -> Path:
        """A new folder to write in; those that a killed process of the shard left are removed."""
        prefix = f"work-{shard[0]}-of-{shard[1]}-"
        for old in self.path.glob(prefix + "*"):
            self.drop(old)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=self.path))

    def drop(self, work: Path) -> None:
        """Remove a work folder."""
        shutil.rmtree(work, ignore_errors=True)

    def record(self, sample: str, entry: SampleEntry) -> None:
        """Record that a sample is written, so that the next run keeps it.

        It is not durable: a record that a power failure damaged counts as absent.
        """
        write_text(self._record(sample), json_text(entry.to_json()), durable=False)

    def finished(self, ids: Sequence[str], before: Manifest | None) -> dict[str, SampleEntry]:
        """The samples that the manifest or an earlier run recorded and whose files exist."""
        entries = {}
        for sample in ids:
            entry = before.samples.get(sample) if before else None
            if entry is None or self._changed(sample).exists():
                entry = self._recorded(sample)
            if entry and _size(sample_file(self.store, sample)) == entry.bytes:
                entries[sample] = entry
        return entries

    def forget(self, sample: str) -> None:
        """Record that a finished sample is about to be rewritten, as its files have changed.

        It is durable: from here on neither its record nor the manifest describes its file.
        """
        self._changed(sample).parent.mkdir(exist_ok=True)
        write_text(self._changed(sample), "")
        self._record(sample).unlink(missing_ok=True)

    def check_files(self, part: Path, samples: Mapping[str, SampleEntry]) -> None:
        """Raise ValueError where the file of a finished shard's sample is missing or cut short."""
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
        except (FileNotFoundError, ValueError):
            return None

    def write_part(self, shard: tuple[int, int], part: Part) -> None:
        text = json_text(part.to_json(), spread=("splits", "samples", "quarantined"))
        write_text(self._shard_file(*shard), text)

    def read_parts(self) -> dict[Path, Part]:
        """All shards, or ValueError naming those that are missing."""
        files = sorted(self.path.glob("shard-*-of-*.json"))
        matches = (re.fullmatch(r"shard-\d+-of-(\d+)\.json", path.name) for path in files)
        count = next((int(match[1]) for match in matches if match), None)
        if count is None:
            got = ", ".join(path.name for path in files) or "none"
            raise ValueError(f"{self.store} must hold shards to merge, got {got}")
        expected = [self._shard_file(index, count) for index in range(count)]
        missing = [path.name for path in expected if path not in files]
        extra = [path.name for path in files if path not in expected]
        if missing or extra:
            got = f"no {', '.join(missing)}" if missing else f"also {', '.join(extra)}"
            raise ValueError(f"{self.store} must hold {count} shards to merge, got {got}")
        parts = {}
        for path in expected:
            value = read_json(path)
            with naming_file(path):
                parts[path] = Part.from_json(value)
        return parts

    def remove(self) -> None:
        """Remove the folder, as everything is in the manifest now.

        It is renamed first, so that a process killed meanwhile leaves no half of it.
        """
        old = self.store / REMOVED
        if old.is_dir():
            shutil.rmtree(old)
        if self.path.is_dir():
            os.replace(self.path, old)
            self._unlock()
            shutil.rmtree(old)

    def give_up(self, work: Path) -> None:
        """After a failure: keep finished samples; if there are none, remove the store again."""
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
        old, new = before.identity(), now.identity()
        pairs = {"fields": (old["fields"], new["fields"])}
        for key in ("source", "options", "seed"):
            pairs[key] = (old["provenance"][key], new["provenance"][key])
        for what, (begun_with, given) in pairs.items():
            if begun_with != given:
                raise ValueError(
                    f"{what} must be what {self.store} was begun with,"
                    f" {difference(begun_with, given)}"
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
    """Whether a folder holds nothing but these, as an ingest killed at its very start leaves it."""
    return path.is_dir() and all(child.name in allowed for child in path.iterdir())
