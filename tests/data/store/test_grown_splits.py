"""Splits that are drawn for a source that has grown: nobody moves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from slipstream.data.store import Splits, draw_splits, ingest, merge, open_store
from slipstream.data.store.splits import FRACTIONS, grow_splits

from ..samples import Made, contents

GOLDEN = {
    "train": ("s01", "s02", "s03", "s04", "s05", "s07", "s08", "s09"),
    "val": ("s06",),
    "test": ("s00",),
}
"""As drawn for stores since the first version."""


def ids(count: int) -> list[str]:
    return [f"s{i:02d}" for i in range(count)]


def moved(before: Splits, after: Splits) -> list[str]:
    return [name for split, names in before.items() for name in names if name not in after[split]]


@pytest.mark.parametrize("seed", range(5))
def test_nobody_moves_and_fractions_are_met(seed: int) -> None:
    splits = draw_splits(ids(16), FRACTIONS, seed)
    for count in (17, 22, 23, 40, 100, 300):
        grown = grow_splits(splits, ids(count), FRACTIONS, seed)
        assert not moved(splits, grown) and grown.keys() == FRACTIONS.keys()
        assert sorted(name for names in grown.values() for name in names) == sorted(ids(count))
        sizes = [len(names) for names in draw_splits(ids(count), FRACTIONS, seed).values()]
        off = [abs(len(names) - n) for names, n in zip(grown.values(), sizes, strict=True)]
        assert max(off) <= 1, count
        assert all(list(names) == sorted(names) for names in grown.values())
        splits = grown


def test_what_a_fresh_draw_agrees_with_is_that_draw() -> None:
    whole = draw_splits(ids(22), FRACTIONS, 0)
    some = {split: names[1:] for split, names in whole.items()}
    assert grow_splits(some, ids(22), FRACTIONS, 0) == whole
    assert grow_splits({}, ids(22), FRACTIONS, 0) == whole


def test_splits_of_other_fractions_and_names_stay() -> None:
    known = {"train": ("s00",), "far": ("s01", "s02")}
    grown = grow_splits(known, ids(12), {"train": 0.5, "test": 0.5}, 0)
    assert grown["far"] == ("s01", "s02") and "s00" in grown["train"]
    assert abs(len(grown["train"]) - len(grown["test"])) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_few_samples_leave_no_split_empty(seed: int) -> None:
    sizes = {
        count: [len(names) for names in draw_splits(ids(count), FRACTIONS, seed).values()]
        for count in range(9)
    }
    assert sizes == {
        0: [0, 0, 0], 1: [1, 0, 0], 2: [2, 0, 0], 3: [1, 1, 1], 4: [2, 1, 1], 5: [3, 1, 1],
        6: [4, 1, 1], 7: [5, 1, 1], 8: [6, 1, 1],
    }  # fmt: skip
    uneven = draw_splits(ids(12), {"train": 0.96, "val": 0.02, "test": 0.02, "none": 0.0}, seed)
    assert [len(names) for names in uneven.values()] == [10, 1, 1, 0]


def test_splits_that_stores_have_are_drawn_again() -> None:
    assert draw_splits(ids(10), FRACTIONS, 0) == GOLDEN
    for count in range(8, 60):
        shuffled = [name for names in _as_one_split(count) for name in names]
        ends = [0, *(round(total * count) for total in (0.8, 0.9, 1.0))]
        drawn = draw_splits(ids(count), FRACTIONS, 0)
        for (first, end), names in zip(pairwise(ends), drawn.values(), strict=True):
            assert sorted(shuffled[first:end]) == list(names)


def _as_one_split(count: int) -> list[tuple[str, ...]]:
    """The samples in the order in which they are drawn, one by one."""
    one_each = {str(i): 1 / count for i in range(count)}
    return list(draw_splits(ids(count), one_each, 0).values())


def _splits(store: Path) -> Mapping[str, tuple[str, ...]]:
    return open_store(store).splits


@pytest.mark.parametrize("bad", [{}, {"s17": "nan"}])
def test_a_store_that_grows(tmp_path: Path, bad: dict[str, str]) -> None:
    for way in ("whole", "shards"):
        store = tmp_path / way
        ingest(Made(16, rows=20), store)
        before = _splits(store)
        if way == "whole":
            ingest(Made(22, rows=20, bad=bad), store)
        else:
            for index in (1, 0):
                ingest(Made(22, rows=20, bad=bad), store, shard=(index, 2))
            merge(store)
        assert moved(dict(before), dict(_splits(store))) == []
        grown = contents(store)
        ingest(Made(22, rows=20, bad=bad), store)
        assert contents(store) == grown
    assert contents(tmp_path / "whole") == contents(tmp_path / "shards")
