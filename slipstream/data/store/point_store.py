"""The point store: a folder with a manifest and one permuted array of rows for each sample.

    STORE/manifest.json        see manifest.py
    STORE/samples/<id>.npy     float32, row-major, rows = coords | features | targets
    STORE/ingest/              only while an ingest is unfinished

Rows are permuted once, when written, so that a contiguous window is a uniform random subset. The
arrays are plain npy files: numpy.load(..., mmap_mode="r") opens them without this package.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from slipstream.core.checks import check_choice
from slipstream.core.files import check_regular, naming, publish
from slipstream.data.store.cloud import Cloud, RowBlocks, Rows, checked_blocks
from slipstream.data.store.fields import Schema
from slipstream.data.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    SampleEntry,
    check_sample_id,
    read_manifest,
)
from slipstream.data.store.pairs import PAIRS_OPTION
from slipstream.data.store.permutation import BUCKET_BYTES, write_permuted
from slipstream.data.store.statistics import Statistics, StreamingStatistics

CHANGED = "ingest/changed"
"""This folder exists while samples are rewritten because their source files have changed."""

Span = tuple[int, int]
"""First row and end of consecutive rows."""


class Store:
    """A finished store, open for reading. It can be pickled: files are opened for each read."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest

    @property
    def schema(self) -> Schema:
        return self.manifest.origin.schema

    @property
    def splits(self) -> dict[str, tuple[str, ...]]:
        return dict(self.manifest.splits)

    @property
    def statistics(self) -> Statistics:
        """Statistics of the training split, one number for each column."""
        if self.manifest.statistics is None:
            raise ValueError(f"{self.path} must have a split 'train' to have statistics, got none")
        return self.manifest.statistics

    def ids(self, split: str) -> tuple[str, ...]:
        check_choice("split", split, self.manifest.splits)
        return self.manifest.splits[split]

    def rows(self, sample: str) -> int:
        """The number of points of a sample."""
        return self._entry(sample).rows

    def file(self, sample: str) -> Path:
        return sample_file(self.path, sample)

    def array(self, sample: str) -> Rows:
        """All rows of a sample, memory-mapped."""
        check_sample_file(self.file(sample), self._shape(sample))
        return np.load(self.file(sample), mmap_mode="r")

    def read_spans(self, sample: str, spans: Sequence[Span], out: Rows) -> None:
        """Read spans of rows, one after the other, into `out`, a row-major float32 array.

        Plain reads instead of a memory map: no page faults, large requests on network file systems,
        and a file that was cut short raises an error instead of sending a signal.
        """
        check_regular(self.file(sample))
        with self.file(sample).open("rb", buffering=0) as file:
            start = _check_header(self.file(sample), file, self._shape(sample))
            filled = 0
            for first, end in spans:
                file.seek(start + 4 * self.schema.width * first)
                _read_exactly(file, out[filled : filled + end - first])
                filled += end - first

    def _shape(self, sample: str) -> tuple[int, int]:
        return (self._entry(sample).rows, self.schema.width)

    def _entry(self, sample: str) -> SampleEntry:
        if sample not in self.manifest.samples:
            check_choice("sample", sample, self.manifest.samples)
        return self.manifest.samples[sample]


def open_store(path: Path | str) -> Store:
    """Open a store.

    Raises ValueError when the folder is no store, is of a newer version, lacks a sample's file, or
    has samples that are being rewritten. The samples of a store of trajectories are pairs of
    states.
    """
    path = Path(path)
    if not (path / MANIFEST_NAME).is_file():
        unfinished = (
            ": its ingest is unfinished, run it again" if (path / "ingest").is_dir() else ""
        )
        raise ValueError(f"{path} must be a store with a {MANIFEST_NAME}, got none{unfinished}")
    if (path / CHANGED).is_dir():
        raise ValueError(
            f"{path} must be as its manifest says, got samples made anew of changed files: its"
            " ingest is unfinished, run it again"
        )
    store = Store(path, read_manifest(path / MANIFEST_NAME))
    for sample, entry in store.manifest.samples.items():
        check_sample_size(store.file(sample), entry.bytes)
    if PAIRS_OPTION in store.manifest.origin.options:
        from slipstream.data.store.pair_store import PairStore

        return PairStore(path, store.manifest)
    return store


def sample_file(store: Path, sample: str) -> Path:
    return store / "samples" / f"{sample}.npy"


def check_sample_size(path: Path, size: int) -> None:
    """Raise ValueError unless the file exists and has this size."""
    if not path.is_file():
        raise ValueError(f"{path} must be a sample of {size} bytes, got no file")
    actual = path.stat().st_size
    if actual != size:
        short = ": the file was cut short" if actual < size else ""
        raise ValueError(f"{path} must have {size} bytes, got {actual}{short}")


def check_sample_file(path: Path, shape: tuple[int, int]) -> None:
    """Raise ValueError unless the file is a complete row-major float32 array of this shape."""
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a sample of shape {shape}, got no file")
    with path.open("rb") as file:
        start = _check_header(path, file, shape)
    check_sample_size(path, start + 4 * shape[0] * shape[1])


def write_sample(
    store: Path,
    sample: str,
    cloud: Cloud | RowBlocks,
    schema: Schema,
    *,
    seed: int,
    work: Path,
    bucket_bytes: int = BUCKET_BYTES,
) -> SampleEntry:
    """Write one sample into the store, permuted by (seed, sample), and return its entry.

    It is written in the folder `work` of the same file system, and renamed when it is complete and
    on disk. After an error nothing is left behind, and an older file stays. Memory is bounded by a
    few times `bucket_bytes` and the largest block, not by the sample.
    """
    check_sample_id(sample)
    mine = f"{sample}.{uuid.uuid4().hex}"  # another worker may write the same sample
    aside, spill = (work / f"{mine}.{end}" for end in ("partial", "keys"))
    shape = (cloud.rows, schema.width)
    statistics, crc = StreamingStatistics(), 0
    with ExitStack() as stack:
        stack.enter_context(naming(sample_file(store, sample)))
        for path in (aside, spill):
            stack.callback(path.unlink, missing_ok=True)
        with aside.open("w+b") as file, spill.open("w+b") as keys:
            _write_header(file, shape)
            crc = crc32_of_header(aside, shape)
            blocks = write_permuted(
                file,
                keys,
                checked_blocks(schema, cloud.rows, cloud.blocks()),
                shape,
                keys=(seed, sample),
                bucket_bytes=bucket_bytes,
            )
            for chunk in statistics.pass_through(blocks):
                crc = zlib.crc32(chunk.data, crc)
        size = aside.stat().st_size
        sample_file(store, sample).parent.mkdir(exist_ok=True)
        publish(aside, sample_file(store, sample))
    return SampleEntry(cloud.rows, size, crc, statistics.total(), dict(cloud.parameters))


def stored_blocks(path: Path, shape: tuple[int, int], size: int = 1 << 23) -> Iterable[Rows]:
    """All rows of a sample's file, in blocks; a block is valid until the next is requested."""
    check_sample_file(path, shape)
    rows, width = shape
    buffer = np.empty((max(1, size // (4 * width)), width), np.float32)
    with path.open("rb", buffering=0) as file:
        _check_header(path, file, shape)
        for first in range(0, rows, len(buffer)):
            block = buffer[: min(len(buffer), rows - first)]
            _read_exactly(file, block)
            yield block


def crc32_of_header(path: Path, shape: tuple[int, int]) -> int:
    """The checksum of the header; that of the whole sample continues from it with the rows.

    It guards against damage, not against forgery, so the fastest of the standard library is used:
    zlib.crc32 runs at 3.9 GB/s on one core, sha256 at 1.7 (0.4 without the CPU's own instructions)
    and blake2b at 0.9. A damaged file of the right size passes once in 4e9.
    """
    with path.open("rb") as file:
        size = _check_header(path, file, shape)
        file.seek(0)
        return zlib.crc32(file.read(size))


def _write_header(file: BinaryIO, shape: tuple[int, int]) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    file.flush()


def _check_header(path: Path, file: Any, shape: tuple[int, int]) -> int:
    """The offset of the rows; ValueError unless the header says float32, row-major, `shape`."""
    try:
        np.lib.format.read_magic(file)
        actual, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    except OSError:
        raise
    except Exception as error:  # numpy parses headers as Python, whose parser raises many kinds
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be an npy file, got {reason}") from None
    if (actual, by_column, dtype) != (shape, False, np.dtype("<f4")):
        order = "column-major" if by_column else "row-major"
        raise ValueError(
            f"{path} must hold row-major float32 of shape {shape}, got {order} {dtype} of shape"
            f" {actual}"
        )
    return int(file.tell())


def _read_exactly(file: Any, out: Rows) -> None:
    """Fill `out`, by several calls if need be: Linux reads at most 2 GiB at a time."""
    view = memoryview(out.data).cast("B")
    filled = 0
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            raise ValueError(f"{file.name} must have {len(view) - filled} bytes more, got its end")
        filled += count
