"""Whether a store agrees with its manifest in every byte and number; nothing is changed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from slipstream.core.files import read_json
from slipstream.core.pool import run_tasks
from slipstream.data.store.cloud import Rows, check_finite_rows
from slipstream.data.store.fields import Schema
from slipstream.data.store.manifest import MANIFEST_NAME, YARDSTICKS_NAME, Manifest, read_manifest
from slipstream.data.store.manifest_checks import Defect, check_manifest
from slipstream.data.store.point_store import (
    check_sample_size,
    crc32_of_header,
    sample_file,
    stored_blocks,
)
from slipstream.data.store.statistics import statistics_of


def check_store(
    path: Path, *, workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Defect]:
    """All defects of a store; an empty list means that it is good.

    Reads every byte, in `workers` processes. `progress` is called with samples done and samples in
    all.
    """
    if not (path / MANIFEST_NAME).is_file():
        return [Defect(None, f"{path} must be a store with a {MANIFEST_NAME}, got none")]
    try:
        manifest = read_manifest(path / MANIFEST_NAME)
    except ValueError as error:
        return [Defect(None, str(error))]
    defects = list(_check_folder(path, manifest))
    defects += check_manifest(read_json(path / MANIFEST_NAME), manifest)
    ids = list(manifest.samples)
    with closing(run_tasks(partial(check_sample, path, manifest), ids, workers)) as results:
        for done, (_, of_sample) in enumerate(results, start=1):
            defects += of_sample
            if progress:
                progress(done, len(ids))
    # Workers finish in any order: sorted as in the manifest, those of the whole store first.
    order = {sample: index for index, sample in enumerate((None, *ids))}
    return sorted(defects, key=lambda defect: order.get(defect.sample, len(order)))


def check_sample(path: Path, manifest: Manifest, sample: str) -> list[Defect]:
    """The defects of one sample's file."""
    entry, schema = manifest.samples[sample], manifest.origin.schema
    file, shape = sample_file(path, sample), (entry.rows, schema.width)
    reading = _Reading(schema)
    try:
        check_sample_size(file, entry.bytes)
        crc = crc32_of_header(file, shape)
        statistics = statistics_of(reading.pass_through(stored_blocks(file, shape), crc))
    except (ValueError, OSError) as error:
        return [Defect(sample, str(error))]
    defects = [Defect(sample, message) for message in reading.messages]
    if reading.crc != entry.crc32:
        message = f"its crc32 must be {entry.crc32:08x}, got {reading.crc:08x}"
        defects.append(Defect(sample, message))
    for column in statistics.differing(entry.statistics) if not reading.messages else ():
        channel = schema.channels[column]
        defects.append(Defect(sample, f"its statistics of {channel} must be those of its rows"))
    return defects


class _Reading:
    """Computes the checksum of a sample and checks its values, in one pass with its statistics."""

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
            # The statistics of a damaged sample are not compared, so any finite values will do.
            yield np.nan_to_num(block, nan=0, posinf=0, neginf=0) if self.messages else block


def _not_finite(schema: Schema, block: Rows, first: int) -> Iterator[str]:
    for name in (field.name for field in schema.fields):
        try:
            check_finite_rows(name, block[:, schema.columns(name)], first)
        except ValueError as error:
            yield str(error)


def _check_folder(path: Path, manifest: Manifest) -> Iterator[Defect]:
    """Files that the manifest does not have; `check_sample` reports files that are missing."""
    if (path / "ingest").is_dir():
        yield Defect(None, "an ingest must be finished, got the folder ingest: run it again")
    for file in sorted(path.iterdir()):
        if file.name not in (MANIFEST_NAME, YARDSTICKS_NAME, "samples", "ingest"):
            yield Defect(None, f"a store must hold nothing else, got {file.name}")
    expected = {sample_file(path, sample).name for sample in manifest.samples}
    folder = path / "samples"
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name not in expected:
            yield Defect(None, f"samples must be in the manifest, got samples/{file.name}")
