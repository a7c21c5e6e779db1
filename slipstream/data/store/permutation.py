"""Rows on disk in random order, for samples of any size, with bounded memory.

Every row gets a 64-bit random key, a pure function of (seed, sample id), and the rows are written
in the order of their keys (equal keys, one pair in 2^64, in the order of the source). That is a
uniform permutation, so any window of it is a uniform subset. It takes two passes over the file: the
leading bits of its key assign a row to a bucket, and rows are first written bucket by bucket, whose
sizes are counted beforehand from the keys; then each bucket is sorted in memory, in place. The
result depends neither on the blocks in which rows come nor on the number of buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from slipstream.core.runtime import derive_seed
from slipstream.data.store.cloud import Rows, rechunked

BUCKET_BYTES = 32 << 20
"""A bucket needs about three times this while it is sorted."""

_KEY_BYTES = 8
_COUNTED_AT_ONCE = 1 << 20
Keys = NDArray[np.uint64]


def row_keys(seed: int, sample: str) -> np.random.Philox:
    """The stream of keys, by `random_raw`, which numpy promises never to change."""
    return np.random.Philox(key=derive_seed(seed, "rows", sample))


def row_order(seed: int, sample: str, rows: int) -> NDArray[np.intp]:
    """The row of the source, (rows,), that each row of a stored sample was."""
    return _sorted_order(row_keys(seed, sample).random_raw(rows))


def write_permuted(
    file: BinaryIO,
    spill: BinaryIO,
    blocks: Iterable[Rows],
    shape: tuple[int, int],
    *,
    keys: tuple[int, str],
    bucket_bytes: int = BUCKET_BYTES,
) -> Iterator[Rows]:
    """Write the rows to `file` from where it stands, in the order of the keys of (seed, sample).

    Yields the rows in their final order, bucket by bucket, as they are written; the file is done
    when the iterator is. `spill` is an empty scratch file, 8 bytes a row. The blocks must hold
    exactly `shape` = (rows, width) float32.
    """
    rows, width = shape
    bits = _bucket_bits(rows * (4 * width + _KEY_BYTES), bucket_bytes)
    ends = np.cumsum(_bucket_sizes(row_keys(*keys), rows, bits))
    starts = np.concatenate(([0], ends[:-1]))
    start = file.tell()
    chunks = rechunked(blocks, max(1, bucket_bytes // (4 * width)))
    _scatter(file, spill, chunks, start, (row_keys(*keys), bits, starts))
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if first == end:
            continue
        order = _sorted_order(_read_at(spill, _KEY_BYTES * first, (end - first,), np.uint64))
        at = start + 4 * width * first
        bucket = np.take(_read_at(file, at, (end - first, width), np.float32), order, axis=0)
        _write_at(file, at, bucket)
        yield bucket


def _bucket_bits(size: int, bucket_bytes: int) -> int:
    """Leading bits of the key that choose the bucket, so that a bucket has `bucket_bytes`."""
    return min(16, max(0, -(-size // bucket_bytes) - 1).bit_length())


def _bucket_sizes(stream: np.random.Philox, rows: int, bits: int) -> NDArray[Any]:
    sizes = np.zeros(1 << bits, np.int64)
    for first in range(0, rows, _COUNTED_AT_ONCE):
        keys = stream.random_raw(min(_COUNTED_AT_ONCE, rows - first))
        sizes += np.bincount(_buckets(keys, bits), minlength=1 << bits)
    return sizes


def _buckets(keys: Keys, bits: int) -> NDArray[np.uint16]:
    # A shift by 64 is undefined, so the single bucket goes by two shifts.
    return (keys >> np.uint64(1) >> np.uint64(63 - bits)).astype(np.uint16)


def _scatter(
    file: BinaryIO,
    spill: BinaryIO,
    chunks: Iterable[Rows],
    start: int,
    plan: tuple[np.random.Philox, int, NDArray[Any]],
) -> None:
    """First pass: every row and its key behind what its bucket already holds."""
    stream, bits, starts = plan
    ends = starts.copy()
    for chunk in chunks:
        keys = stream.random_raw(len(chunk))
        buckets = _buckets(keys, bits)
        order = np.argsort(buckets, kind="stable")
        rows, keys = np.take(chunk, order, axis=0), np.take(keys, order)
        sizes = np.bincount(buckets, minlength=1 << bits)
        taken = 0
        for bucket in np.flatnonzero(sizes).tolist():
            size, end = int(sizes[bucket]), int(ends[bucket])
            _write_at(file, start + end * rows.shape[1] * 4, rows[taken : taken + size])
            _write_at(spill, _KEY_BYTES * end, keys[taken : taken + size])
            taken += size
        ends += sizes


def _sorted_order(keys: Keys) -> NDArray[np.intp]:
    return np.argsort(keys, kind="stable")


def _write_at(file: BinaryIO, offset: int, array: NDArray[Any]) -> None:
    file.seek(offset)
    file.write(array.data)


def _read_at(
    file: BinaryIO, offset: int, shape: tuple[int, ...], dtype: type[np.generic]
) -> NDArray[Any]:
    array = np.empty(shape, dtype)
    file.seek(offset)
    if file.readinto(array.data) != array.nbytes:  # type: ignore[attr-defined]
        raise OSError(f"{file.name} must hold {array.nbytes} bytes at {offset}, got fewer")
    return array
