"""Splits that are drawn for a source that has grown: nobody moves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from slipstream.data.store import Splits, draw_splits, ingest, merge, open_store
from slipstream.data.store.splits import FRACTIONS, grow_splits

from ..samples import Made, contents


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
