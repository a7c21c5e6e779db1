"""The manifest of a point store: what the folder holds, in a written, versioned schema.

Schema 2, one JSON object:

    schema        2
    slipstream    version that wrote the store
    fields        coords, features, targets: lists of {name, unit, group, components}
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.files import json_text, read_json, write_text
from slipstream.core.version import VERSION
from slipstream.data.store.fields import Schema
from slipstream.data.store.statistics import Statistics, check_count, merge_statistics

SCHEMA = 2
MANIFEST_NAME = "manifest.json"
HASH_KEY = "sha256"
TRAIN = "train"
"""The split whose statistics are used to normalise."""

_SAMPLE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,199}")


@dataclass(frozen=True)
class SampleEntry:
    """What the manifest says about one sample."""

    rows: int
    bytes: int
    crc32: int
    statistics: Statistics
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "statistics": self.statistics.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SampleEntry:
        for what, least in (("rows", 1), ("bytes", 1), ("crc32", 0)):
            check_count(what, value[what], least)
        _check_mapping("parameters", value["parameters"])
        _check_mapping("files", value["files"])
        return cls(**{**value, "statistics": Statistics.from_json(value["statistics"])})


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

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin:
        provenance = value["provenance"]
        _check_mapping("provenance", provenance)
        _check_mapping("options", provenance["options"])
        seed = provenance["seed"]
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ValueError(f"seed must be a whole number, got {seed!r}")
        return cls(Schema.from_json(value["fields"]), **provenance)


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
        """Raises ValueError, KeyError or TypeError where the value does not follow the schema."""
        origin = Origin.from_json(value)
        width = origin.schema.width
        samples = samples_from_json(value["samples"], width)
        statistics = None
        if value["statistics"] is not None:
            statistics = Statistics.from_json(value["statistics"])
            _check_width("statistics", statistics, width)
        splits, quarantined = splits_from_json(value["splits"]), value["quarantined"]
        _check_mapping("quarantined", quarantined)
        return cls(origin, splits, samples, quarantined, statistics)


def samples_from_json(value: Any, width: int) -> dict[str, SampleEntry]:
    """Entries by id; ValueError names the one that is wrong."""
    _check_mapping("samples", value)
    entries = {}
    for sample, entry in value.items():
        check_sample_id(sample)
        try:
            _check_mapping("an entry", entry)
            entries[sample] = SampleEntry.from_json(entry)
            _check_width("statistics", entries[sample].statistics, width)
        except KeyError as error:
            raise ValueError(f"sample {sample}: it must have the key {error}, got none") from None
        except ValueError as error:
            raise ValueError(f"sample {sample}: {error}") from None
    return entries


def splits_from_json(value: Any) -> dict[str, tuple[str, ...]]:
    _check_mapping("splits", value)
    for split, ids in value.items():
        if not isinstance(ids, list) or not all(isinstance(sample, str) for sample in ids):
            raise ValueError(f"split {split!r} must be a list of sample ids, got another value")
    return {split: tuple(ids) for split, ids in value.items()}


def _check_mapping(what: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a mapping, got {value!r}")


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


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn errors in the JSON of a file into a ValueError with one sentence that names the file."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} must have the key {error}, got none") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    except (TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must follow schema {SCHEMA}, got {reason}") from None


def check_schema(path: Path, value: Mapping[str, Any]) -> None:
    """Raise ValueError unless `value` has a schema version that this package can read."""
    version = value.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{path}: schema must be a whole number of at least 1, got {version!r}")
    if version > SCHEMA:
        raise ValueError(
            f"{path}: schema must be at most {SCHEMA}, got {version}: a newer slipstream wrote it"
        )
