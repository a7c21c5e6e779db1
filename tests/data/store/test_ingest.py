from __future__ import annotations

import errno
import json
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.data.store import (
    Cloud,
    IngestProgress,
    RowBlocks,
    check_store,
    draw_splits,
    ingest,
    merge,
    open_store,
    source_files,
    unfinished,
)
from slipstream.data.store.manifest import Origin
from slipstream.data.store.statistics import statistics_of

from ..samples import Made, contents, make_rows

ROOT = Path(__file__).parents[3]


def test_what_comes_out_is_what_went_in(tmp_path: Path) -> None:
    source = Made(given={"train": ["s01", "s04", "s00"], "val": ["s02"], "test": ["s03", "s05"]})
    events: list[IngestProgress] = []
    report = ingest(source, tmp_path / "store", progress=events.append)
    assert report.written == tuple(source.ids()) and not report.kept and not report.quarantined
    assert [event.done for event in events] == [1, 2, 3, 4, 5, 6]
    store = open_store(tmp_path / "store")
    assert store.splits == {name: tuple(ids) for name, ids in (source.given or {}).items()}
    for sample in source.ids():
        rows = np.array(store.array(sample))
        assert np.array_equal(rows[np.argsort(rows[:, 0])], make_rows(sample, store.rows(sample)))
    train = [np.array(store.array(sample)) for sample in store.ids("train")]
    exact = np.concatenate(train).astype(np.float64)
    np.testing.assert_allclose(store.statistics.mean, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(store.statistics.std, exact.std(0), rtol=1e-12)
    assert not store.statistics.differing(statistics_of(train))
    assert set(contents(tmp_path / "store")) == {"manifest.json"} | {
        f"samples/{sample}.npy" for sample in source.ids()
    }


@pytest.mark.parametrize("parallel", [{"workers": 2}, {"threads": 2}, {"workers": 2, "threads": 2}])
def test_workers_and_threads_change_nothing(
    tmp_path: Path, whole: dict[str, bytes], parallel: dict[str, Any]
) -> None:
    report = ingest(Made(8, bad={"s03": "nan"}), tmp_path / "store", **parallel)
    assert list(report.quarantined) == ["s03"] and len(report.written) == 7
    assert contents(tmp_path / "store") == whole


@dataclass(frozen=True)
class Together(Made):
    """No sample is read unless a second one is read at the same time."""

    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def read(self, sample: str) -> Cloud | RowBlocks:
        self.meeting.wait(timeout=20)
        return super().read(sample)


def test_threads_work_at_the_same_time(tmp_path: Path) -> None:
    assert ingest(Together(4), tmp_path / "store", threads=2).written == (
        "s00",
        "s01",
        "s02",
        "s03",
    )


def test_bad_samples_are_left_out_with_the_reason(tmp_path: Path) -> None:
    for sample in ("s00", "s01", "s02", "s03", "s05"):
        (tmp_path / f"{sample}.raw").write_bytes(b"abc")
    bad = {"s01": "nan", "s02": "raises", "s03": "short"}
    events: list[IngestProgress] = []
    source = Made(bad=bad, folder=tmp_path, given={"train": ["s00", "s01", "s05"],
                                                  "test": ["s02", "s03", "s04"]})  # fmt: skip
    report = ingest(source, tmp_path / "store", progress=events.append)
    reasons = {
        "s01": "field 'pressure' must be finite in float32, got 2 NaN and 0 infinite values at"
        " rows 3, 7",
        "s02": "KeyError: 'pMeanTrim'",
        "s03": "the blocks must hold 504 rows in all, got 503",
        "s04": "source file raw/s04.raw must exist, got none",
    }
    assert report.quarantined == reasons
    assert {event.sample: event.reason for event in events if event.reason} == reasons
    store = open_store(tmp_path / "store")
    assert store.manifest.quarantined == reasons and check_store(tmp_path / "store") == []
    assert store.splits == {"train": ("s00", "s05"), "test": ()}
    files = store.manifest.samples["s00"].files
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files == {"raw/s00.raw": {"bytes": 3, "sha256": digest}}
    (tmp_path / "s04.raw").touch()
    again = ingest(source, tmp_path / "store", hash_files=False)
    assert again.written == ("s04",) and again.kept == ("s00", "s05")
    assert open_store(tmp_path / "store").ids("test") == ("s04",)


def test_a_source_that_has_grown(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Made(3, given={"train": ["s00", "s01", "s02"]}), store)
    grown = Made(4, given={"train": ["s00", "s01", "s02"], "test": ["s03"]})
    report = ingest(grown, store)
    assert report.written == ("s03",) and check_store(store) == []
    fresh = tmp_path / "fresh"
    ingest(grown, fresh)
    assert contents(store) == contents(fresh)


def test_a_lost_sample_is_made_again(tmp_path: Path, whole: dict[str, bytes]) -> None:
    store = tmp_path / "store"
    ingest(Made(8, bad={"s03": "nan"}), store)
    (store / "samples/s01.npy").unlink()
    (store / "samples/s05.npy").write_bytes(b"short")
    report = ingest(Made(8, bad={"s03": "nan"}), store)
    assert report.written == ("s01", "s05") and contents(store) == whole


def test_a_damaged_sample_whose_source_is_bad_now_goes(tmp_path: Path) -> None:
    given = {"train": [f"s{i:02d}" for i in range(8)]}
    ingest(Made(8, given=given), tmp_path / "store")
    (tmp_path / "store/samples/s03.npy").write_bytes(b"short")
    for store in (tmp_path / "store", tmp_path / "fresh"):
        assert list(ingest(Made(8, bad={"s03": "nan"}, given=given), store).quarantined) == ["s03"]
    assert contents(tmp_path / "store") == contents(tmp_path / "fresh")
    assert check_store(tmp_path / "store") == []


def test_an_unfinished_store_whose_source_has_lost_a_sample(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Made(6), store, shard=(1, 2))
    for lost in ("recorded", "written only"):
        before = contents(store)
        with pytest.raises(ValueError, match="the source must still have sample 's05' of .*, got"):
            ingest(Made(5), store)
        assert contents(store) == before, lost
        (store / "ingest/done/s05.json").unlink(missing_ok=True)
    ingest(Made(6), store)
    assert check_store(store) == []


def test_a_failing_shard_leaves_the_others_alone(tmp_path: Path) -> None:
    running = tmp_path / "ingest" / "work-1-of-2-running"
    running.mkdir(parents=True)

    def stop(event: IngestProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(Made(2, bad={"s00": "nan"}), tmp_path, shard=(0, 2), progress=stop)
    assert running.is_dir()


def test_shards_clear_what_their_own_killed_runs_left(tmp_path: Path) -> None:
    for name in ("work-0-of-2-old", "work-1-of-2-running"):
        (tmp_path / "ingest" / name).mkdir(parents=True)
        (tmp_path / "ingest" / name / "s00.partial").touch()
    ingest(Made(), tmp_path, shard=(0, 2))
    assert [path.name for path in tmp_path.glob("ingest/work-*")] == ["work-1-of-2-running"]


def test_shards_merge_into_the_same_store(tmp_path: Path, whole: dict[str, bytes]) -> None:
    source, store = Made(8, bad={"s03": "nan"}), tmp_path / "store"
    with pytest.raises(ValueError, match="must hold shards to merge, got none"):
        merge(store)
    for index in (2, 0):
        ingest(source, store, shard=(index, 3))
    with pytest.raises(ValueError, match="must hold 3 shards to merge, got no shard-1-of-3.json"):
        merge(store)
    with pytest.raises(ValueError, match="must be a store with .* ingest is unfinished, run it"):
        open_store(store)
    ingest(source, store, shard=(1, 3))
    merge(store)
    assert contents(store) == whole
    merge(store)
    assert contents(store) == whole


def test_shards_whose_samples_are_not_all_here(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """As when folders are copied together: nothing is published, and what is known stays."""
    source, store = Made(8, bad={"s03": "nan"}), tmp_path / "store"
    for index in (0, 1):
        ingest(source, store, shard=(index, 2))
    file = store / "samples" / "s05.npy"
    raw = file.read_bytes()
    file.write_bytes(raw[:99])
    with pytest.raises(ValueError, match=f"s05.npy must have the {len(raw)} bytes .* got 99: copy"):
        merge(store)
    file.unlink()
    with pytest.raises(ValueError, match="s05.npy must .* that shard-1-of-2.json says, got none"):
        merge(store)
    assert ingest(source, store, shard=(1, 2)).written == ("s05",)
    merge(store)
    assert contents(store) == whole


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Made(4), store, shard=(0, 2))
    ingest(Made(4, given={"train": ["s00", "s01", "s02", "s03"]}), store, shard=(1, 2))
    with pytest.raises(
        ValueError, match="shard-1-of-2.json must have the fields, options, seed and"
    ):
        merge(store)
    ingest(Made(4), store, shard=(0, 3))
    with pytest.raises(ValueError, match="must hold 2 shards to merge, got also shard-0-of-3.json"):
        merge(store)


def test_a_copy_beside_a_shard_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Made(4), store, shard=(0, 2))
    shard = store / "ingest" / "shard-0-of-2.json"
    copy = shard.with_name("shard-0-of-2 (1).json")
    shutil.copy(shard, copy)
    with pytest.raises(ValueError, match="must hold 2 shards to merge, got no shard-1-of-2.json"):
        merge(store)
    ingest(Made(4), store, shard=(1, 2))
    with pytest.raises(ValueError, match=r"2 shards to merge, got also shard-0-of-2 \(1\).json"):
        merge(store)
    for name in ("shard-0-of-2.json", "shard-1-of-2.json"):
        (store / "ingest" / name).unlink()
    with pytest.raises(ValueError, match=r"must hold shards to merge, got shard-0-of-2 \(1\)"):
        merge(store)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": 1}, "seed must be what .* was begun with, 0, got 1"),
        ({"source": Made(rows=400)}, "options must be what .* was begun with, rows 500, got 400$"),
        ({"source": Made(5)}, "the source must still have sample 's05' of"),
        ({"source": Made(0)}, "a source must have at least one sample, got none"),
        ({"source": Made(extra={"f": np.nan})}, "options must be JSON, got"),
        (
            {"source": Made(given={"train": ["s00"]})},
            "hold every .* got none of 5: s01, s02, s03, s",
        ),
        (
            {"source": Made(1, given={"a": ["s00", "s07"]})},
            "samples of the source only, got also 1: s07",
        ),
        (
            {"source": Made(1, given={"a": ["s00"], "b": ["s00"]})},
            "splits must not overlap, got s00 in a and b",
        ),
        ({"fractions": {"train": 0.5}}, "split fractions must be positive and sum to 1, got"),
        ({"shard": (2, 2)}, "shard index must be below 2, got 2"),
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
        ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_refused_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    store = tmp_path / "store"
    ingest(Made(), store)
    before = contents(store)
    with pytest.raises(ValueError, match=message):
        ingest(arguments.pop("source", Made()), store, **arguments)
    assert contents(store) == before
    assert ingest(Made(), store).kept == tuple(Made().ids())
    assert contents(store) == before


def test_of_other_options_those_that_differ_are_named(tmp_path: Path) -> None:
    same: dict[str, Any] = {"long": ["x" * 50] * 9, "box": {"low": [0, 0], "high": [1, 1]}}
    made = {**same, "targets": [{"name": "p", "unit": "Pa"}, {"name": "U"}], "gone": {"a": 1}}
    ingest(Made(extra=made), tmp_path)
    now = {**same, "targets": [{"name": "p", "unit": "kPa"}], "box": {"low": [0, 2], "at": None}}
    with pytest.raises(ValueError) as caught:
        ingest(Made(extra=now), tmp_path)
    assert str(caught.value) == (
        f"options must be what {tmp_path} was begun with, box.low [0, 0], got [0, 2];"
        " box.high [1, 1], got none; box.at none, got None; targets.0.unit 'Pa', got 'kPa';"
        " targets.1 {'name': 'U'}, got none; and 1 more"
    )
    with pytest.raises(ValueError) as caught:
        ingest(Made(extra={**made, "long": "x"}), tmp_path)
    assert len(str(caught.value)) < len(str(tmp_path)) + 160


@dataclass(frozen=True)
class Greedy(Made):
    """Sample s01 needs more memory than there is."""

    error: Exception = field(default_factory=MemoryError)

    def read(self, sample: str) -> Cloud | RowBlocks:
        if sample != "s01":
            return super().read(sample)
        if isinstance(self.error, AssertionError):
            torch.empty(10**15)
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
        AssertionError("the real error of the CPU comes first"),
    ],
)
def test_want_of_memory_is_no_fault_of_a_sample(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(OSError, match="sample s01 must fit into memory, got .* fewer workers"):
        ingest(Greedy(4, error=error), tmp_path)
    assert ingest(Made(4), tmp_path).kept == ("s00",)


def test_other_errors_of_torch_are_the_samples(tmp_path: Path) -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    report = ingest(Greedy(4, error=error), tmp_path)
    assert report.quarantined == {"s01": f"RuntimeError: {error}"}


def test_folders_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="must be a store or an empty folder, got other files"):
        ingest(Made(), tmp_path)
    assert list(contents(tmp_path)) == ["thesis.tex"]


def test_no_good_sample_is_no_store(tmp_path: Path) -> None:
    bad = {f"s{i:02d}": "raises" for i in range(6)}
    with pytest.raises(ValueError, match="a store must have at least one good sample, got 6 bad one"
                       "s, the first s00: KeyError: 'pMeanTrim'"):  # fmt: skip
        ingest(Made(bad=bad), tmp_path / "store")
    with pytest.raises(ValueError, match="the split 'train' must have at least one good sample"):
        given = {"train": ["s00"], "test": ["s01"]}
        ingest(Made(2, bad={"s00": "nan"}, given=given), tmp_path / "other")
    assert not (tmp_path / "store").exists()


def test_a_store_without_training_samples_has_no_statistics(tmp_path: Path) -> None:
    ingest(Made(2, given={"test": ["s00", "s01"]}), tmp_path / "store")
    assert check_store(tmp_path / "store") == []
    with pytest.raises(ValueError, match="must have a split 'train' to have statistics, got none"):
        _ = open_store(tmp_path / "store").statistics


def test_drawn_splits() -> None:
    ids = [f"run_{i}" for i in range(500)]
    splits = draw_splits(ids, {"train": 0.8, "val": 0.1, "test": 0.1}, seed=1)
    assert [len(part) for part in splits.values()] == [400, 50, 50]
    assert sorted(sample for part in splits.values() for sample in part) == sorted(ids)
    assert splits == draw_splits(ids[::-1], {"train": 0.8, "val": 0.1, "test": 0.1}, seed=1)
    assert splits != draw_splits(ids, {"train": 0.8, "val": 0.1, "test": 0.1}, seed=2)


def test_the_manifest_is_readable_json(whole: dict[str, bytes]) -> None:
    manifest = json.loads(whole["manifest.json"])
    assert manifest["schema"] == 2 and len(manifest["sha256"]) == 64
    assert manifest["provenance"] == {"source": "made", "options": {"rows": 500}, "seed": 0}
    assert manifest["fields"]["targets"][0] == {
        "name": "pressure", "unit": "Pa", "group": "pressure", "components": 1
    }  # fmt: skip
    assert list(manifest["quarantined"]) == ["s03"]
    assert len(whole["manifest.json"].splitlines()) < 40


def test_a_spoilt_record_is_none(tmp_path: Path) -> None:
    source, whole, store = Made(), tmp_path / "whole", tmp_path / "store"
    ingest(source, whole)
    begun = unfinished.Unfinished(store)
    begun.begin(Origin(source.schema, source.name, dict(source.options), 0), source.ids(), None)
    for text in ("", "{", "{}"):
        (begun.path / "done" / "s00.json").write_text(text)
        shutil.copytree(whole / "samples", store / "samples", dirs_exist_ok=True)
        assert begun.finished(source.ids(), None) == {}
    assert len(ingest(source, store).written) == 6
    assert (store / "manifest.json").read_bytes() == (whole / "manifest.json").read_bytes()


def test_a_file_of_many_samples_is_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tmp_path / "all.raw"
    one.write_bytes(b"many samples")
    hashed: list[Path] = []
    digest = source_files.sha256_of
    monkeypatch.setattr(source_files, "sha256_of", lambda path: hashed.append(path) or digest(path))
    monkeypatch.setattr(Made, "files", lambda self, sample: {"all.raw": one})
    ingest(Made(), tmp_path / "store")
    assert hashed == [one]
    samples = open_store(tmp_path / "store").manifest.samples.values()
    assert {entry.files["all.raw"]["sha256"] for entry in samples} == {digest(one)}
