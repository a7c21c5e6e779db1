"""What can be told from a manifest alone: its hash, and whether its parts agree with each other.

`check_store` compares it with the files besides. A manifest of schema 1 has no hash: only what its
other parts, or the rows, contradict is noticed there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipstream.data.store.manifest import (
    HASH_KEY,
    TRAIN,
    Manifest,
    check_sample_id,
    content_hash,
)
from slipstream.data.store.pairs import PAIRS_OPTION, Pairs
from slipstream.data.store.source_files import check_agreement
from slipstream.data.store.splits import overlaps
from slipstream.data.store.statistics import merge_statistics

_VERSION = re.compile(r"\d+(\.\d+)+((a|b|rc|\.dev|\.post)\d+)*(\+[a-z0-9.]+)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong with a sample, or with the store as a whole."""

    sample: str | None
    message: str

    def __str__(self) -> str:
        return self.message if self.sample is None else f"{self.sample}: {self.message}"


def check_manifest(value: Mapping[str, Any], manifest: Manifest) -> list[Defect]:
    """The defects of a manifest, given as the JSON of its file and as what was read from it."""
    return [
        *_check_hash(value),
        *_check_origin(value, manifest),
        *_check_splits(manifest),
        *_check_files(manifest),
        *_check_quarantined(manifest),
        *_check_statistics(value, manifest),
    ]


def _check_hash(value: Mapping[str, Any]) -> Iterator[Defect]:
    if value["schema"] == 1:
        if HASH_KEY in value:
            yield Defect(None, f"a manifest of schema 1 must have no {HASH_KEY}, got one")
        return
    stated, actual = value.get(HASH_KEY), content_hash(value)
    if stated != actual:
        yield Defect(
            None,
            f"the manifest must have the content of its {HASH_KEY}, {_short(stated)}, got"
            f" {_short(actual)}: it was changed after it was written",
        )


def _short(text: Any) -> str:
    return f"{text[:12]}..." if isinstance(text, str) and len(text) > 12 else repr(text)


def _check_origin(value: Mapping[str, Any], manifest: Manifest) -> Iterator[Defect]:
    version, origin = value.get("slipstream"), manifest.origin
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        yield Defect(None, f"slipstream must be a version, as 0.1.0, got {version!r}")
    if not _is_text(origin.source):
        yield Defect(None, f"source must be the name of a source, got {origin.source!r}")
    for field in origin.schema.fields:
        if field.group is not None and not _is_text(field.group):
            yield Defect(None, f"the group of field {field.name!r} must be text, got {field.group}")
    if PAIRS_OPTION not in origin.options:
        return
    try:
        stored = Pairs.from_json(origin.options[PAIRS_OPTION]).stored(origin.schema.coords)
    except ValueError as error:
        yield Defect(None, f"the option {PAIRS_OPTION!r} must describe pairs: {error}")
        return
    if stored != origin.schema:
        yield Defect(None, f"the fields must be those of the option {PAIRS_OPTION!r}, got others")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_splits(manifest: Manifest) -> Iterator[Defect]:
    for split in manifest.splits:
        if not _is_text(split):
            yield Defect(None, f"a split must have a name, got {split!r}")
    for phrase in overlaps(manifest.splits):
        yield Defect(None, f"splits must not overlap, got {phrase}")
    members = [sample for split in manifest.splits.values() for sample in split]
    for sample in sorted(set(members) - set(manifest.samples)):
        yield Defect(sample, "a sample of a split must have an entry, got none")
    for sample in sorted(set(manifest.samples) - set(members)):
        yield Defect(sample, "a sample must be in a split, got none")
    if sorted(members) == sorted(manifest.samples) and members != list(manifest.samples):
        yield Defect(None, "samples must be in the order of the splits, got another order")
    seen: set[str] = set()
    for sample in manifest.samples:
        if sample.lower() in seen:
            yield Defect(sample, "ids must be unique, capitals aside, got it more than once")
        seen.add(sample.lower())


def _check_files(manifest: Manifest) -> Iterator[Defect]:
    """The source files of the samples, which need not be there any more."""
    good = {}
    for sample, entry in manifest.samples.items():
        wrong = [name for name, file in entry.files.items() if not _describes_file(name, file)]
        for name in wrong:
            yield Defect(
                sample,
                f"source file {name!r} must have its bytes, and may have its sha256, got"
                f" {entry.files[name]!r}",
            )
        if not wrong:
            good[sample] = entry
    try:
        check_agreement([("the manifest", good)])
    except ValueError as error:
        yield Defect(None, str(error).partition(": it changed")[0])


def _describes_file(name: Any, file: Any) -> bool:
    if not _is_text(name) or not isinstance(file, Mapping):
        return False
    size, hashed = file.get("bytes"), file.get("sha256")
    return (
        set(file) <= {"bytes", "sha256"}
        and isinstance(size, int)
        and not isinstance(size, bool)
        and size >= 0
        and ("sha256" not in file or (isinstance(hashed, str) and bool(_SHA256.fullmatch(hashed))))
    )


def _check_quarantined(manifest: Manifest) -> Iterator[Defect]:
    for sample, reason in manifest.quarantined.items():
        if sample in manifest.samples:
            yield Defect(sample, "a sample must not be quarantined, got both")
        try:
            check_sample_id(sample)
        except ValueError as error:
            yield Defect(None, f"quarantined: {error}")
        if not isinstance(reason, str) or not reason:
            yield Defect(None, f"the reason to quarantine {sample} must be text, got {reason!r}")


def _check_statistics(value: Mapping[str, Any], manifest: Manifest) -> Iterator[Defect]:
    """The statistics of the training split must be those of its samples, merged."""
    entries = [manifest.samples[i] for i in manifest.splits.get(TRAIN, ()) if i in manifest.samples]
    expected = merge_statistics(entry.statistics for entry in entries) if entries else None
    if (manifest.statistics is None) != (expected is None):
        yield Defect(None, "statistics must be there for the split 'train', and without it absent")
    if manifest.statistics is None:
        return
    if expected is not None:
        for column in manifest.statistics.differing(expected):
            channel = manifest.origin.schema.channels[column]
            yield Defect(None, f"statistics of {channel} must be those of the split 'train'")
    # The package computes `std` and never reads it.
    if value["statistics"].get("std") != list(manifest.statistics.std):
        yield Defect(None, "std of statistics must follow from their squares, got other numbers")
