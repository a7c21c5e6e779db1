"""The manifest of a point store: what the folder holds, in a written, versioned schema.

Schema 2, one JSON object:

    schema        2
    slipstream    version that wrote the store
    fields        coords, features, targets: lists of {name, unit, group, components}, and what
                  a field was computed as, {computed}, or divided by, {divided: {by, factor,
                  unit}}, where it was
    provenance    source (its name), options, seed of the permutations; the option "pairs" makes it
                  a store of trajectories (pairs.py)
    splits        split -> sample ids, in order; every sample is in exactly one
    statistics    of the split "train", a number a column: count, mean, std, low, high, squares
                  (sums of squared distances from the mean); null without such a split
    samples       id -> rows, bytes and crc32 of samples/<id>.npy, its statistics, parameters, and
                  files: the sources with their sizes and sha256
    quarantined   id -> why the sample is not in the store
    sha256        of everything above, see `content_hash`; schema 1 has none
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.files import json_text, naming_file, read_json, write_text
from slipstream.core.schemas import YOUNGER, Count, Positive, parsed
from slipstream.core.version import VERSION
from slipstream.data.store.fields import Schema
from slipstream.data.store.statistics import Statistics, merge_statistics

SCHEMA = 2
MANIFEST_NAME = "manifest.json"
YARDSTICKS_NAME = "yardsticks.json"
"""What the evaluation keeps in the folder of a store; it is no part of the data."""
HASH_KEY = "sha256"
TRAIN = "train"
"""The split whose statistics are used to normalise."""

_SAMPLE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,199}")


@dataclass(frozen=True)
class SampleEntry:
    """What the manifest says about one sample."""

    rows: Positive
    bytes: Positive
    crc32: Count
    statistics: Statistics
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "statistics": self.statistics.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SampleEntry:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place="sample")


@dataclass(frozen=True)
class Origin:
    """What a sample's rows depend on, besides its source files."""

    schema: Schema
    source: str
    options: Mapping[str, Any]
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "fields": self.schema.to_json(),
            "provenance": {"source": self.source, "options": self.options, "seed": self.seed},
        }

    def identity(self) -> dict[str, Any]:
        """The same without what describes the fields only: equal for equal rows."""
        return {**self.to_json(), "fields": self.schema.identity()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        return parsed(WrittenOrigin, value, open=True).origin


@dataclass(frozen=True)
class Manifest:
    origin: Origin
    splits: Mapping[str, tuple[str, ...]]
    samples: Mapping[str, SampleEntry]
    quarantined: Mapping[str, str]
    statistics: Statistics | None
    """Statistics of the split "train"; None without such a split."""

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "slipstream": VERSION,
            **self.origin.to_json(),
            "splits": {name: list(ids) for name, ids in self.splits.items()},
            "statistics": self.statistics
            and {"std": list(self.statistics.std), **self.statistics.to_json()},
            "samples": {sample: entry.to_json() for sample, entry in self.samples.items()},
            "quarantined": dict(self.quarantined),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        """Raises ValueError where the value does not follow the schema."""
        value = dict(value)
        if isinstance(value.get("statistics"), dict):  # `std` is for people, and computed here
            value["statistics"] = {k: v for k, v in value["statistics"].items() if k != "std"}
        written = parsed(_WrittenManifest, value)
        written.check()
        statistics = written.statistics
        if statistics is not None:
            _check_width("statistics", statistics, written.fields.width)
        return cls(written.origin, written.splits, written.samples, written.quarantined, statistics)


@dataclass(frozen=True)
class Provenance:
    source: str
    options: dict[str, Any]
    seed: int


@dataclass(frozen=True)
class WrittenOrigin:
    """What an `Origin` is in a file."""

    fields: Schema
    provenance: Provenance

    @property
    def origin(self) -> Origin:
        return Origin(self.fields, **vars(self.provenance))


@dataclass(frozen=True)
class WrittenSamples(WrittenOrigin):
    """What a manifest and a finished shard have in common."""

    splits: dict[str, tuple[str, ...]]
    samples: dict[str, SampleEntry]
    quarantined: dict[str, str]

    def check(self) -> None:
        """Raise ValueError where an id cannot be one, or a sample has other columns."""
        for sample, entry in self.samples.items():
            check_sample_id(sample)
            _check_width(f"statistics of sample {sample}", entry.statistics, self.fields.width)


@dataclass(frozen=True)
class _WrittenManifest(WrittenSamples):
    schema: Positive
    slipstream: str
    statistics: Statistics | None
    sha256: str | None = field(default=None, metadata=YOUNGER)


def _check_width(what: str, statistics: Statistics, width: int) -> None:
    if len(statistics.mean) != width:
        raise ValueError(
            f"{what} must have {width} numbers of each kind, one a column, got"
            f" {len(statistics.mean)}"
        )


def build_manifest(
    origin: Origin,
    splits: Mapping[str, tuple[str, ...]],
    samples: Mapping[str, SampleEntry],
    quarantined: Mapping[str, str],
) -> Manifest:
    """The manifest of these samples, in the order of the splits.

    Statistics are merged in this order too, on which their last bits depend.

    Raises ValueError when no sample, or none of the split "train", is good.
    """
    kept = {name: tuple(i for i in ids if i in samples) for name, ids in splits.items()}
    for split in (None, TRAIN) if TRAIN in splits else (None,):
        if not any(kept.values() if split is None else kept[split]):
            bad = next(iter(quarantined.items()), ("none", "there are no samples"))
            raise ValueError(
                f"{'a store' if split is None else f'the split {split!r}'} must have at least one"
                f" good sample, got {len(quarantined)} bad ones, the first {bad[0]}: {bad[1]}"
            )
    ordered = {i: samples[i] for ids in kept.values() for i in ids}
    train = kept.get(TRAIN, ())
    statistics = merge_statistics(samples[i].statistics for i in train) if train else None
    return Manifest(origin, kept, ordered, dict(sorted(quarantined.items())), statistics)


def check_sample_id(sample: str) -> None:
    """Raise ValueError unless the id can be a file name on any system."""
    if not isinstance(sample, str) or not _SAMPLE_ID.fullmatch(sample):
        raise ValueError(
            "a sample id must have 1 to 200 letters, digits or ._+=@- and start with a letter,"
            f" digit or _, got {sample!r}"
        )


def write_manifest(path: Path, manifest: Manifest) -> None:
    value = manifest.to_json()
    value[HASH_KEY] = content_hash(value)
    write_text(path, json_text(value, spread=("splits", "samples", "quarantined")))


def content_hash(value: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest's content: of all keys but the hash itself, in their order.

    White space does not count, the order does: statistics are merged in the order of the samples.
    """
    content = {key: part for key, part in value.items() if key != HASH_KEY}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest; ValueError names the file, what was expected and what it has."""
    value = read_json(path)
    check_schema(path, value)
    with naming_file(path):
        return Manifest.from_json(value)


def check_schema(path: Path, value: Mapping[str, Any]) -> None:
    """Raise ValueError unless `value` has a schema version that this package can read."""
    version = value.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{path}: schema must be a whole number of at least 1, got {version!r}")
    if version > SCHEMA:
        raise ValueError(
            f"{path}: schema must be at most {SCHEMA}, got {version}: a newer slipstream wrote it"
        )
