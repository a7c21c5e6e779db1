from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.data.store import (
    Cloud,
    RowBlocks,
    Schema,
    Store,
    data_hash,
    ingest,
    open_store,
    split_hash,
)
from slipstream.physics.builtin import builtin_schema, builtin_source

from ..samples import SCHEMA, Made


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


@dataclass(frozen=True)
class Described(Made):
    """The same samples by a version that says what the normals are."""

    @property
    def schema(self) -> Schema:
        normal = replace(SCHEMA.features[0], computed="normals")
        return replace(SCHEMA, features=(normal, *SCHEMA.features[1:]))

    def read(self, sample: str) -> Cloud | RowBlocks:
        made = super().read(sample)
        return replace(made, schema=self.schema) if isinstance(made, Cloud) else made


def test_saying_what_was_computed_keeps_the_hash_and_continues_an_older_store(
    tmp_path: Path,
) -> None:
    ingest(Made(count=3), tmp_path / "old", fractions={"train": 1.0})
    ingest(Described(count=3), tmp_path / "new", fractions={"train": 1.0})
    old, new = open_store(tmp_path / "old"), open_store(tmp_path / "new")
    assert "computed" not in (tmp_path / "old" / "manifest.json").read_text()
    assert new.schema.features[0].computed == "normals"
    hashes = {data_hash(ingested) for ingested in (old, new)}
    report = ingest(Described(count=4), tmp_path / "old", fractions={"train": 1.0})
    assert report.written == ("s03",) and len(report.kept) == 3
    assert open_store(tmp_path / "old").schema.features[0].computed == "normals"
    assert len(hashes) == 1


def test_built_in_problems_say_what_was_computed() -> None:
    surface = builtin_schema("potential-flow-surface").computed("normals")
    volume = builtin_schema("potential-flow-volume").computed("distance")
    assert surface is not None and surface.computed == "normals"
    assert volume is not None and volume.computed == "distance"
    assert "computed" not in str(builtin_source("taylor-green", samples=1, points=64).options)
