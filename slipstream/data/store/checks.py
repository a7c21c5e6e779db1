"""Is a store what its manifest says? Every byte and every number, without changing anything."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slipstream.core.files import read_json
from slipstream.data.store.cloud import Rows, check_finite_rows
from slipstream.data.store.fields import Schema
from slipstream.data.store.manifest import MANIFEST_NAME, TRAIN, Manifest, read_manifest
from slipstream.data.store.point_store import (
    check_sample_size,
    crc32_of_header,
    sample_file,
    stored_blocks,
)
from slipstream.data.store.pool import run_tasks
from slipstream.data.store.splits import overlaps
from slipstream.data.store.statistics import merge_statistics, statistics_of


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: with a sample, or with the store as a whole."""

    sample: str | None
    message: str

    def __str__(self) -> str:
        return self.message if self.sample is None else f"{self.sample}: {self.message}"


def check_store(
    path: Path, *, workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Finding]:
    """Everything wrong with a store; none means good. Reads every byte, by `workers` processes.

    `progress` is called with samples done and samples in all.
    """
    if not (path / MANIFEST_NAME).is_file():
        return [Finding(None, f"{path} must be a store with a {MANIFEST_NAME}, got none")]
    try:
        manifest = read_manifest(path / MANIFEST_NAME)
    except ValueError as error:
        return [Finding(None, str(error))]
    found = list(_check_folder(path, manifest))
    found += _check_splits(manifest)
    found += _check_statistics(manifest)
    found += _check_std(path, manifest)
    ids = list(manifest.samples)
    for done, (_, messages) in enumerate(
        run_tasks(partial(check_sample, path, manifest), ids, workers), start=1
    ):
        found += messages
        if progress:
            progress(done, len(ids))
    order = {sample: place for place, sample in enumerate((None, *ids))}
    return sorted(found, key=lambda finding: order.get(finding.sample, len(order)))


def check_sample(path: Path, manifest: Manifest, sample: str) -> list[Finding]:
    """What is wrong with the file of one sample."""
    entry, schema = manifest.samples[sample], manifest.origin.schema
    file, shape = sample_file(path, sample), (entry.rows, schema.width)
    reading = _Reading(schema)
    try:
        check_sample_size(file, entry.bytes)
        crc = crc32_of_header(file, shape)
        statistics = statistics_of(reading.pass_through(stored_blocks(file, shape), crc))
    except (ValueError, OSError) as error:
        return [Finding(sample, str(error))]
    found = [Finding(sample, message) for message in reading.messages]
    if reading.crc != entry.crc32:
        found.append(Finding(sample, f"its crc32 must be {entry.crc32:08x}, got {reading.crc:08x}"))
    for column in statistics.differing(entry.statistics) if not reading.messages else ():
        channel = schema.channels[column]
        found.append(Finding(sample, f"its statistics of {channel} must be those of its rows"))
    return found


class _Reading:
    """Checksum and finite values of a sample, in the one pass that its statistics take."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.crc = 0
        self.messages: list[str] = []

    def pass_through(self, blocks: Iterable[Rows], crc: int) -> Iterator[Rows]:
        self.crc = crc
        first = 0
        for block in blocks:
            self.crc = zlib.crc32(block.data, self.crc)
            if not self.messages and not np.isfinite(block).all():
                self.messages += _not_finite(self.schema, block, first)
            first += len(block)
            # Statistics of a damaged sample are not looked at, so its rows need not be there.
            yield np.nan_to_num(block, nan=0, posinf=0, neginf=0) if self.messages else block


def _not_finite(schema: Schema, block: Rows, first: int) -> Iterator[str]:
    for name in (field.name for field in schema.fields):
        try:
            check_finite_rows(name, block[:, schema.columns(name)], first)
        except ValueError as error:
            yield str(error)


def _check_folder(path: Path, manifest: Manifest) -> Iterator[Finding]:
    """Files without an entry; missing files are found with their samples."""
    if (path / "ingest").is_dir():
        yield Finding(None, "an ingest must be finished, got the folder ingest: run it again")
    for file in sorted(path.iterdir()):
        if file.name not in (MANIFEST_NAME, "samples", "ingest"):
            yield Finding(None, f"a store must hold nothing else, got {file.name}")
    expected = {sample_file(path, sample).name for sample in manifest.samples}
    folder = path / "samples"
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name not in expected:
            yield Finding(None, f"samples must be in the manifest, got samples/{file.name}")


def _check_splits(manifest: Manifest) -> Iterator[Finding]:
    for phrase in overlaps(manifest.splits):
        yield Finding(None, f"splits must not overlap, got {phrase}")
    members = {sample for split in manifest.splits.values() for sample in split}
    for sample in sorted(members - set(manifest.samples)):
        yield Finding(sample, "a sample of a split must have an entry, got none")
    for sample in manifest.samples:
        if sample not in members:
            yield Finding(sample, "a sample must be in a split, got none")
        if sample in manifest.quarantined:
            yield Finding(sample, "a sample must not be quarantined, got both")


def _check_statistics(manifest: Manifest) -> Iterator[Finding]:
    """Those of the training split are the merged ones of its samples."""
    entries = [manifest.samples[i] for i in manifest.splits.get(TRAIN, ()) if i in manifest.samples]
    expected = merge_statistics(entry.statistics for entry in entries) if entries else None
    if (manifest.statistics is None) != (expected is None):
        yield Finding(None, "statistics must be there for the split 'train', and without it absent")
    if manifest.statistics and expected:
        for column in manifest.statistics.differing(expected):
            channel = manifest.origin.schema.channels[column]
            yield Finding(None, f"statistics of {channel} must be those of the split 'train'")


def _check_std(path: Path, manifest: Manifest) -> Iterator[Finding]:
    """The one statistic that is in the file for its readers only: it follows from the others."""
    if manifest.statistics is None:
        return
    stated, expected = (
        read_json(path / MANIFEST_NAME)["statistics"].get("std"),
        manifest.statistics.std,
    )
    if stated != list(expected):
        yield Finding(None, "std of statistics must follow from their squares, got other numbers")
