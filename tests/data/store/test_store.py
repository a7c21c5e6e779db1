from __future__ import annotations

import errno
import json
import pickle
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.store import RowBlocks, Store, ingest, open_store
from slipstream.data.store.point_store import write_sample

from ..samples import SCHEMA, Made, blocks_of, contents, make_cloud, make_rows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    ingest(Made(), tmp_path / "store")
    return open_store(tmp_path / "store")


def test_a_sample_is_a_plain_array_of_permuted_rows(tmp_path: Path) -> None:
    entry = write_sample(tmp_path, "a", make_cloud("a", 700), SCHEMA, seed=3, work=tmp_path)
    found = np.load(tmp_path / "samples" / "a.npy", mmap_mode="r")
    assert (found.shape, found.dtype, found.flags.c_contiguous) == ((700, 11), np.float32, True)
    order = found[:, 0].astype(int)
    assert sorted(order) == list(range(700)) and (np.diff(order) == 1).mean() < 0.02
    assert np.array_equal(found, make_rows("a", 700)[order])
    assert (entry.rows, entry.bytes) == (700, (tmp_path / "samples/a.npy").stat().st_size)
    assert entry.parameters == {"angle": 4.0}


def test_the_rows_follow_from_seed_and_id_alone(tmp_path: Path) -> None:
    files = []
    for seed, name, size in ((0, "a", 700), (0, "a", 13), (1, "a", 13), (0, "b", 13)):
        stream = RowBlocks(700, blocks_of(make_rows("a", 700), size))
        write_sample(tmp_path, name, stream, SCHEMA, seed=seed, work=tmp_path, bucket_bytes=9999)
        files.append((tmp_path / "samples" / f"{name}.npy").read_bytes())
    assert files[0] == files[1]
    assert len(set(files)) == 3


def test_reading(store: Store) -> None:
    sample = store.ids("train")[0]
    rows = store.array(sample)
    assert rows.shape == (store.rows(sample), 11)
    out = np.empty((30, 11), np.float32)
    store.read_spans(sample, [(len(rows) - 10, len(rows)), (0, 20)], out)
    assert np.array_equal(out, np.concatenate((rows[-10:], rows[:20])))
    again = pickle.loads(pickle.dumps(store))
    assert np.array_equal(again.array(sample), rows) and again.schema == SCHEMA
    assert set(store.splits) == {"train", "val", "test"} and store.statistics.count > 0
    with pytest.raises(ValueError, match="split must be one of train, val, test, got 'tset'; did"):
        store.ids("tset")
    with pytest.raises(ValueError, match="sample must be one of .*, got 's99'"):
        store.rows("s99")


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1000)


def _as_dtype(dtype: str) -> Callable[[Path], None]:
    return lambda path: np.save(path, np.load(path).astype(dtype))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, r"s00.npy must be a sample of \d+ bytes, got no file"),
        (_cut, r"s00.npy must have 22128 bytes, got 1000: the file was cut short"),
        (_as_dtype("f8"), r"s00.npy must have 22128 bytes, got 44128$"),
    ],
)
def test_damaged_samples_are_found_on_opening(
    store: Store, damage: Callable[[Path], None], message: str
) -> None:
    damage(store.file("s00"))
    with pytest.raises(ValueError, match=message):
        open_store(store.path)


def test_damage_that_keeps_the_size_is_found_on_reading(store: Store) -> None:
    rows, path = np.load(store.file("s00")), store.file("s00")
    out = np.empty((5, 11), np.float32)
    for changed, message in (
        (
            rows.astype("i4"),
            r"must hold row-major float32 of shape \(500, 11\), got row-major int32",
        ),
        (np.asfortranarray(rows), "got column-major float32"),
        (rows.reshape(250, 22), r"of shape \(250, 22\)"),
    ):
        np.save(path, changed)
        for read in (lambda: store.array("s00"), lambda: store.read_spans("s00", [(0, 5)], out)):
            with pytest.raises(ValueError, match=message):
                read()
    path.write_bytes(b"something else" * 2000)
    with pytest.raises(ValueError, match="s00.npy must be an npy file, got"):
        store.array("s00")
    np.save(path, rows)
    _cut(path)
    with pytest.raises(ValueError, match="got its end"):
        store.read_spans("s00", [(400, 405)], out)


def _change(path: Path, **changes: Any) -> None:
    manifest = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value != "gone"}))


def test_manifests_that_are_none(store: Store, tmp_path: Path) -> None:
    path = store.path / "manifest.json"
    for changes, message in (
        ({"schema": 3}, "schema must be at most 2, got 3: a newer slipstream wrote it$"),
        ({"schema": None}, "schema must be a whole number of at least 1, got None"),
        ({"schema": 1, "splits": "gone"}, "manifest.json: it must have the field splits, got none"),
        ({"splits": {}, "samples": 3}, "manifest.json: samples must be a mapping, got 3"),
    ):
        _change(path, **changes)
        with pytest.raises(ValueError, match=message):
            open_store(store.path)
    path.write_text("{")
    with pytest.raises(ValueError, match="manifest.json must be a JSON object, got"):
        open_store(store.path)
    with pytest.raises(ValueError, match="must be a store with a manifest.json, got none$"):
        open_store(tmp_path / "nowhere")


class _FailingDisk:
    """A file whose writes fail once `left` bytes are written."""

    left = 0

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: Any) -> int:
        type(self).left -= memoryview(data).nbytes
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self.file.write(data))


def _old_and_new(tmp_path: Path) -> tuple[dict[str, bytes], RowBlocks]:
    write_sample(tmp_path, "a", make_cloud("a", 700), SCHEMA, seed=3, work=tmp_path)
    return contents(tmp_path), RowBlocks(5000, blocks_of(make_rows("b", 5000), 700))


@pytest.mark.parametrize("left", [0, 60_000, 150_000, 300_000, 450_000])
def test_a_failing_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    before, stream = _old_and_new(tmp_path)
    monkeypatch.setattr(_FailingDisk, "left", left)
    write = "slipstream.data.store.permutation._write_at"

    def failing(file: Any, offset: int, array: Any) -> None:
        file.seek(offset)
        _FailingDisk(file).write(array)

    monkeypatch.setattr(write, failing)
    with pytest.raises(OSError, match="No space left"):
        write_sample(tmp_path, "a", stream, SCHEMA, seed=3, work=tmp_path, bucket_bytes=50_000)
    assert contents(tmp_path) == before


@pytest.fixture
def small_files() -> Iterator[int]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, small_files: int) -> None:
    before, stream = _old_and_new(tmp_path)
    with pytest.raises(OSError, match="File too large: '.*/samples/a.npy'"):
        write_sample(tmp_path, "a", stream, SCHEMA, seed=3, work=tmp_path)
    assert contents(tmp_path) == before


def test_a_bad_stream_leaves_what_was_there(tmp_path: Path) -> None:
    before, stream = _old_and_new(tmp_path)
    with pytest.raises(ValueError, match="the blocks must hold 5001 rows in all, got 5000"):
        short = RowBlocks(5001, stream.blocks())
        write_sample(tmp_path, "a", short, SCHEMA, seed=3, work=tmp_path)
    for name in ("", ".hidden", "a/b", "x" * 201, "ä"):
        with pytest.raises(ValueError, match="a sample id must have 1 to 200 letters"):
            write_sample(tmp_path, name, make_cloud("a", 3), SCHEMA, seed=3, work=tmp_path)
    assert contents(tmp_path) == before
