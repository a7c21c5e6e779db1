"""`slipstream data` as a user meets it: real processes, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.data.store import open_store

from ..conftest import Command


def slipstream(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slipstream", "data", *map(str, arguments)],
        capture_output=True, text=True,
    )  # fmt: skip


def contents(store: Path) -> dict[str, bytes]:
    files = (path for path in store.rglob("*") if path.is_file())
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


def test_make_and_check(command: Command, tmp_path: Path) -> None:
    store = tmp_path / "s"
    options = ("--samples", 12, "--points", 50, "--out", store)
    made = command("data", "make", "poisson", *options)
    assert made.code == 0 and "12 written, 0 kept" in made.out, made.err
    again = command("data", "make", "poisson", *options, "--json")
    assert json.loads(again.out)["kept"] == [f"{k:06d}" for k in range(12)]
    checked = command("data", "check", store)
    assert checked.code == 0 and "is good: 12 samples (10 train, 1 val" in checked.out
    file = store / "samples" / "000003.npy"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    checked = command("data", "check", store, "--json")
    assert checked.code == 1
    assert [finding["sample"] for finding in json.loads(checked.out)][0] == "000003"


def test_shards_make_the_same_store(command: Command, tmp_path: Path) -> None:
    options = ("--samples", 5, "--points", 20)
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    assert command("data", "make", "poisson", *options, "--out", whole).code == 0
    for shard in ("1/2", "0/2"):
        done = command("data", "make", "poisson", *options, "--out", sharded, "--shard", shard)
        assert done.code == 0 and "merge when all 2 shards are done" in done.out
    assert command("data", "merge", sharded).code == 0
    assert contents(sharded) == contents(whole)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("make", "poison", "--out", "s"), "problem must be one of"),
        (("make", "poisson", "--samples", "0", "--out", "s"), "samples must be a whole number"),
        (("make", "poisson", "--shard", "2", "--out", "s"), "shard must be i/n"),
        (("make", "poisson", "--shard", "2/2", "--out", "s"), "shard index must be below 2, got 2"),
        (("make", "taylor-green", "--points", "9", "--out", "s"), "must be the cube of an even"),
        (("merge", "nowhere"), "must hold shards to merge"),
    ],
)
def test_bad_input_is_one_sentence(
    command: Command,
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("data", *arguments)
    assert done.code == 2 and sentence in done.err, done.err
    assert "Traceback" not in done.err and not list(tmp_path.iterdir())


def test_a_store_of_another_problem_is_left_alone(command: Command, tmp_path: Path) -> None:
    store = tmp_path / "s"
    assert (
        command("data", "make", "poisson", "--samples", 3, "--points", 9, "--out", store).code == 0
    )
    before = contents(store)
    done = command("data", "make", "poisson", "--samples", 3, "--points", 8, "--out", store)
    assert done.code == 2 and "options must be what" in done.err
    assert contents(store) == before and open_store(store).rows("000000") == 9
