from __future__ import annotations

from pathlib import Path

from slipstream.data.store import Store, data_hash, ingest, open_store, split_hash
from slipstream.physics.builtin import builtin_source


def made(path: Path, *, seed: int = 0, order: int = 0, train: float = 0.5) -> Store:
    source = builtin_source("poisson", samples=4, points=8, seed=seed)
    ingest(source, path, seed=order, fractions={"train": train, "val": 1 - train})
    return open_store(path)


def test_hashes_are_of_contents_not_of_places(tmp_path: Path) -> None:
    one, same = made(tmp_path / "a"), made(tmp_path / "b")
    assert data_hash(one) == data_hash(same) and split_hash(one) == split_hash(same)
    other = made(tmp_path / "c", seed=1)
    assert data_hash(one) != data_hash(other)
    reordered = made(tmp_path / "d", order=1)
    assert data_hash(one) != data_hash(reordered)
    split = made(tmp_path / "e", train=0.75)
    assert data_hash(one) == data_hash(split) and split_hash(one) != split_hash(split)
