from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipstream.data.store.permutation import row_keys, write_permuted

from ..samples import blocks_of


def _permuted(values: NDArray[Any], size: int, bucket_bytes: int, key: str = "a") -> bytes:
    with TemporaryFile() as file, TemporaryFile() as spill:
        file.write(b"head")
        written = write_permuted(
            file,
            spill,
            blocks_of(values, size),
            values.shape,  # type: ignore[arg-type]
            keys=(0, key),
            bucket_bytes=bucket_bytes,
        )
        yielded = b"".join(block.tobytes() for block in written)
        file.seek(0)
        assert file.read() == b"head" + yielded
    return yielded


def _numbered(rows: int, width: int = 2) -> NDArray[Any]:
    return np.repeat(np.arange(rows, dtype=np.float32)[:, None], width, 1)


@settings(max_examples=60)
@given(st.integers(1, 400), st.integers(1, 500), st.integers(16, 8000), st.integers(1, 3))
def test_blocks_and_buckets_do_not_change_a_byte(
    rows: int, size: int, bucket: int, width: int
) -> None:
    values = _numbered(rows, width)
    order = np.argsort(row_keys(0, "a").random_raw(rows), kind="stable")
    assert _permuted(values, size, bucket) == values[order].tobytes()


def test_the_order_is_pinned() -> None:
    """Stores of the past follow from it."""
    found = np.frombuffer(_permuted(_numbered(10, 1), 3, 32), np.float32)
    assert found.tolist() == [8, 4, 9, 3, 2, 1, 5, 0, 6, 7]
    assert _permuted(_numbered(10, 1), 3, 32, "b") != _permuted(_numbered(10, 1), 3, 32, "a")


def test_equal_keys_keep_the_order_they_came_in(
    monkeypatch: pytest.MonkeyPatch, no_shape_checks: None
) -> None:
    class Few:
        def __init__(self) -> None:
            self.draw = np.random.default_rng(0)

        def random_raw(self, count: int) -> Any:
            return self.draw.integers(0, 3, count, dtype=np.uint64) << np.uint64(62)

    monkeypatch.setattr("slipstream.data.store.permutation.row_keys", lambda seed, sample: Few())
    values = _numbered(50)
    expected = values[np.argsort(Few().random_raw(50), kind="stable")].tobytes()
    assert {_permuted(values, size, 100) for size in (1, 7, 50)} == {expected}


def test_every_permutation_is_equally_likely() -> None:
    """All 24 orders of 4 rows, over many sample ids, through several buckets."""
    counts: dict[bytes, int] = {}
    values = _numbered(4, 1)
    for sample in range(2400):
        order = _permuted(values, 2, 24, str(sample))
        counts[order] = counts.get(order, 0) + 1
    squared = sum((count - 100) ** 2 / 100 for count in counts.values())
    assert len(counts) == 24
    assert squared < 49.7  # chi squared with 23 degrees of freedom, one in a thousand


def test_a_window_is_a_uniform_subset() -> None:
    """Rows of a window come from everywhere alike, and neighbours are not kept together."""
    rows = 200_000
    found = np.frombuffer(_permuted(_numbered(rows, 1), 9999, 1 << 17), np.float32)
    window = found[70_000:90_000]
    counts = np.bincount((window // (rows / 100)).astype(int), minlength=100)
    assert ((counts - 200) ** 2 / 200).sum() < 149  # 99 degrees of freedom, one in a thousand
    together = np.isin(window + 1, window).mean()
    assert abs(together - 0.1) < 0.008  # nearly four standard deviations


def test_memory_is_bounded_by_the_bucket_not_by_the_sample(tmp_path: Path) -> None:
    """A sample of 160 MB through buckets of 2 MB, in a process whose peak is read."""
    code = """
import resource, sys
from pathlib import Path
import numpy as np
from slipstream.data.store import RowBlocks
from slipstream.data.store.point_store import write_sample
from tests.data.samples import SCHEMA
folder = Path(sys.argv[1])
def blocks(rows):
    for first in range(0, rows, 10_000):
        yield np.ones((10_000, SCHEMA.width), np.float32)
def write(name, rows):
    stream = RowBlocks(rows, blocks(rows))
    write_sample(folder, name, stream, SCHEMA, seed=0, work=folder, bucket_bytes=2 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = write("small", 200_000)
assert (folder / "samples/small.npy").stat().st_size > 4 * (2 << 20)
print((write("large", 3_600_000) - small) * 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert (tmp_path / "samples/large.npy").stat().st_size > 150e6
    assert int(done.stdout) < 12e6
    assert [path.name for path in tmp_path.iterdir()] == ["samples"]
