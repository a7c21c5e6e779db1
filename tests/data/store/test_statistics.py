from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipstream.data.store import Statistics
from slipstream.data.store.statistics import merge_statistics, statistics_of

from ..samples import blocks_of


def _rows(rows: int, seed: int = 0) -> NDArray[Any]:
    """A large offset with a small spread, where careless sums lose every digit."""
    draw = np.random.default_rng(seed)
    return draw.normal([101325, 0, -1e-3], [0.5, 10, 1e-6], (rows, 3)).astype(np.float32)


def test_against_the_whole_array() -> None:
    rows = _rows(50_000)
    found, exact = statistics_of(blocks_of(rows, 777)), rows.astype(np.float64)
    assert found.count == 50_000
    np.testing.assert_allclose(found.mean, exact.mean(0), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(found.std, exact.std(0), rtol=1e-10)
    assert np.array_equal(found.low, exact.min(0)) and np.array_equal(found.high, exact.max(0))


def test_blocks_do_not_change_a_bit() -> None:
    rows = _rows(70_000)
    assert len({statistics_of(blocks_of(rows, size)) for size in (1, 1000, 16384, 70_000)}) == 1


@settings(max_examples=30)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_merging_is_counting_together(sizes: list[int]) -> None:
    parts = [_rows(size, seed) for seed, size in enumerate(sizes)]
    merged = merge_statistics(statistics_of([part]) for part in parts)
    whole = statistics_of([np.concatenate(parts)])
    assert not merged.differing(whole)
    assert merged.count == sum(sizes)


def test_a_constant_column_has_no_spread() -> None:
    rows = np.full((49_999, 4), (1.2041, 0.1, 38.889, 101325.1), np.float32)
    parts = [statistics_of(blocks_of(rows[:size], 7)) for size in (1, 999, 49_999)]
    assert merge_statistics(parts).std == (0.0,) * 4


def test_differences_are_seen() -> None:
    found = statistics_of([_rows(1000)])
    assert found.differing(found) == []
    assert found.differing(Statistics.from_json({**found.to_json(), "count": 3})) == [0, 1, 2]
    moved = {**found.to_json(), "mean": [found.mean[0], found.mean[1] + 1e-5, found.mean[2]]}
    assert found.differing(Statistics.from_json(moved)) == [1]


def test_json_keeps_every_bit() -> None:
    found = statistics_of([_rows(1000)])
    assert Statistics.from_json(json.loads(json.dumps(found.to_json()))) == found
