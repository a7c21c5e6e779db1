"""Source files that change between two runs: what was made from them is made again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.core import files
from slipstream.data.store import (
    Cloud,
    check_store,
    ingest,
    merge,
    open_store,
    source_files,
    unfinished,
)
from slipstream.data.store.point_store import sample_file

from ..cards.test_mesh_source import source_of
from ..mesh_folders import ball, save, with_fields
from ..samples import SCHEMA, Made, contents, make_rows

TABLE = "p.csv"


@dataclass(frozen=True)
class Files(Made):
    """Every sample has a file of its own, a number; all share a table, another number."""

    def files(self, sample: str) -> Mapping[str, Path]:
        assert self.folder is not None
        return {name: self.folder / name for name in (f"{sample}.raw", TABLE)}

    def read(self, sample: str) -> Cloud:
        own, shared = (float(path.read_text()) for path in self.files(sample).values())
        rows = own * make_rows(sample, self.rows) + shared
        arrays = {f.name: rows[:, SCHEMA.columns(f.name)] for f in SCHEMA.fields}
        return Cloud(SCHEMA, arrays, {})


@pytest.fixture
def source(tmp_path: Path) -> Files:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / TABLE).write_text("5")
    for i in range(4):
        (raw / f"s{i:02d}.raw").write_text(f"{i + 1}")
    return Files(4, folder=raw)


def fresh(source: Made, tmp_path: Path, **options: Any) -> dict[str, bytes]:
    ingest(source, tmp_path / "fresh", **options)
    return contents(tmp_path / "fresh")


def change(source: Files, name: str, text: str) -> None:
    """Another file takes its place, as old as the first one was."""
    assert source.folder is not None
    old, new = source.folder / name, source.folder / "new"
    new.write_text(text)
    os.utime(new, ns=(old.stat().st_mtime_ns, old.stat().st_mtime_ns))
    new.replace(old)


@pytest.mark.parametrize(("text", "parallel"), [("7", {"workers": 2}), ("7.25", {})])
def test_a_changed_file_is_read_again(
    source: Files, tmp_path: Path, text: str, parallel: dict[str, Any]
) -> None:
    store = tmp_path / "store"
    ingest(source, store)
    change(source, "s01.raw", text)
    change(source, "s02.raw", text)
    report = ingest(source, store, **parallel)
    assert report.written == ("s01", "s02") and report.kept == ("s00", "s03")
    assert contents(store) == fresh(source, tmp_path) and check_store(store) == []
    assert not ingest(source, store).written


def test_a_changed_mesh_and_a_changed_table(tmp_path: Path) -> None:
    raw, store = tmp_path / "raw", tmp_path / "store"
    for k in range(4):
        save(with_fields(ball(1 + k / 8)), raw / f"r{k}.vtp")
    (raw / TABLE).write_text("id,U\n" + "".join(f"r{k},{k}\n" for k in range(4)))
    speed = {"name": "U", "unit": "m/s"}
    card = {"parameters": [{"file": TABLE, "id": "id", "features": [speed]}]}
    ingest(source_of(raw, **card), store)
    mesh = with_fields(ball(1.125))
    mesh.point_data["p"] = np.asarray(mesh.point_data["p"]) * 2
    save(mesh, raw / "r1.vtp")
    assert ingest(source_of(raw, **card), store).written == ("r1",)
    (raw / TABLE).write_text("id,U\n" + "".join(f"r{k},{9 - k}\n" for k in range(4)))
    source = source_of(raw, **card)
    assert len(ingest(source, store).written) == 4
    ingest(source, tmp_path / "fresh")
    assert contents(store) == contents(tmp_path / "fresh")


def test_shards_of_different_files_do_not_merge(source: Files, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(source, store, shard=(0, 2))
    change(source, TABLE, "6")
    ingest(source, store, shard=(1, 2))
    with pytest.raises(
        ValueError, match=r"source file p.csv must be one file .* sha256 ef2d127\w+ of s00 and"
        r" e7f6c01\w+ of s01: it changed in between, so run shard-0-of-2 and shard-1-of-2 again",
    ):  # fmt: skip
        merge(store)
    assert ingest(source, store, shard=(0, 2)).written == ("s00", "s02")
    assert ingest(source, store, shard=(1, 2)).kept == ("s01", "s03")
    merge(store)
    assert contents(store) == fresh(source, tmp_path)


def test_shards_with_and_without_hashes_merge(source: Files, tmp_path: Path) -> None:
    for index in (0, 1):
        ingest(source, tmp_path / "store", shard=(index, 2), hash_files=bool(index))
    merge(tmp_path / "store")
    assert check_store(tmp_path / "store") == []


def test_an_interrupted_run_notices_too(
    source: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped when the new sample is in place and not yet recorded, with and without manifest."""
    for count in (1, 2):
        store, first = tmp_path / f"store-{count}", {"shard": (0, count)}
        change(source, "s00.raw", "1")
        ingest(source, store, **first)
        change(source, "s00.raw", "8")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(unfinished.Unfinished, "record", _interrupted)
            ingest(source, store, **first)
        if (store / "manifest.json").exists():
            with pytest.raises(ValueError, match="must be as its manifest says, got samples made"):
                open_store(store)
        assert "s00" in ingest(source, store).written
        assert check_store(store) == []
    assert contents(store) == fresh(source, tmp_path)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_stopped_before_every_rename(
    source: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a run over changed files has done, the next one ends in the same bytes."""
    real, left, stops = os.replace, 0, -1

    def replace(*names: Any) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise KeyboardInterrupt
        real(*names)

    monkeypatch.setattr(files.os, "replace", replace)
    monkeypatch.setattr(unfinished.Unfinished, "give_up", lambda self, work: None)
    through = False
    while not through:
        stops, store = stops + 1, tmp_path / f"store-{stops}"
        left = 10**6
        for i in range(3):
            change(source, f"s{i:02d}.raw", "1")
        ingest(source, store)
        for i in range(3):
            change(source, f"s{i:02d}.raw", "8")
        left = stops
        with suppress(KeyboardInterrupt):
            ingest(source, store)
            through = True
        left = 10**6
        ingest(source, store)
        assert contents(store) == fresh(source, tmp_path), f"stopped before rename {stops}"
    assert stops == 12  # origin, three for each changed sample, the manifest, the folder ingest


def test_without_hashes_sizes_are_compared(source: Files, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(source, store, hash_files=False)
    change(source, "s01.raw", "7")
    assert not ingest(source, store, hash_files=False).written
    change(source, "s01.raw", "7.5")
    assert ingest(source, store, hash_files=False).written == ("s01",)
    assert contents(store) == fresh(source, tmp_path, hash_files=False)


def test_without_hashes_none_is_compared(source: Files, tmp_path: Path) -> None:
    """Asked for by who has no time to read the files again."""
    ingest(source, tmp_path / "store")
    change(source, "s01.raw", "7")
    assert not ingest(source, tmp_path / "store", hash_files=False).written
    assert ingest(source, tmp_path / "store").written == ("s01",)


@dataclass(frozen=True)
class WithoutTable(Files):
    """The same samples; the table was always zero and is not read."""

    def files(self, sample: str) -> Mapping[str, Path]:
        return {name: path for name, path in super().files(sample).items() if name != TABLE}

    def read(self, sample: str) -> Cloud:
        (own,) = (float(path.read_text()) for path in self.files(sample).values())
        rows = own * make_rows(sample, self.rows)
        arrays = {f.name: rows[:, SCHEMA.columns(f.name)] for f in SCHEMA.fields}
        return Cloud(SCHEMA, arrays, {})


def test_a_sample_of_more_or_fewer_files_is_another(source: Files, tmp_path: Path) -> None:
    ingest(source, tmp_path / "store")
    other = WithoutTable(4, folder=source.folder)
    assert len(ingest(other, tmp_path / "store").written) == 4
    assert contents(tmp_path / "store") == fresh(other, tmp_path)
    assert len(ingest(source, tmp_path / "store").written) == 4


def test_what_has_not_changed_is_not_read(
    source: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    ingest(source, store)
    later = (source.folder or store).stat().st_mtime_ns + 10**12
    for sample in ("s00", "s01", "s02"):
        os.utime(sample_file(store, sample), ns=(later, later))
    (tmp_path / "raw/s03.raw").touch()
    hashed: list[Path] = []

    def watched(path: Path) -> str:
        hashed.append(path)
        return real(path)

    real = source_files.sha256_of
    monkeypatch.setattr(source_files, "sha256_of", watched)
    source_files.hash_of.cache_clear()
    before = contents(store)
    assert not ingest(source, store).written and contents(store) == before
    assert {path.name for path in hashed} <= {"s03.raw", TABLE} and "s03.raw" in str(hashed)
    hashed.clear()
    source_files.hash_of.cache_clear()
    assert not ingest(source, store).written and not hashed


def test_a_file_that_is_gone_changes_nothing(source: Files, tmp_path: Path) -> None:
    """Raw data may be put away once it is in the store."""
    ingest(source, tmp_path / "store")
    before = contents(tmp_path / "store")
    (tmp_path / "raw/s02.raw").unlink()
    assert len(ingest(source, tmp_path / "store").kept) == 4
    assert contents(tmp_path / "store") == before


def test_a_changed_file_that_is_bad_now(source: Files, tmp_path: Path) -> None:
    given = {"train": source.ids()}
    source = Files(4, folder=source.folder, given=given)
    ingest(source, tmp_path / "store")
    change(source, "s02.raw", "spoilt")
    report = ingest(source, tmp_path / "store")
    assert list(report.quarantined) == ["s02"] and len(report.kept) == 3
    assert contents(tmp_path / "store") == fresh(source, tmp_path)
    for i in range(4):
        change(source, f"s{i:02d}.raw", "no number")
    before = contents(tmp_path / "store")
    with pytest.raises(ValueError, match="must have at least one good sample, got 4 bad ones"):
        ingest(source, tmp_path / "store")
    assert contents(tmp_path / "store") == before
