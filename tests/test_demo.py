from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.core.configs import overlay
from slipstream.core.records import read_records
from slipstream.data.check import check_store
from slipstream.demo import VARIANTS, Result, conclude, demo_config, run_demo
from slipstream.experiments import poisson
from slipstream.runs.folder import RunFolder
from slipstream.training.sinks import Listener

TINY = overlay(
    demo_config(steps=3),
    {
        "data.builtin.samples": {"train": 4, "val": 2}, "data.builtin.points": 16, "batch": 2,
        "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
    },
)  # fmt: skip


def results(**errors: float) -> list[Result]:
    given = {
        "baseline": 0.4,
        "no_token_attention": 0.4,
        "mlp_only": 0.8,
        "slice_once": 0.6,
    } | errors
    return [Result(name.replace("_", "-"), 1, error, {}, 0.0) for name, error in given.items()]


def test_runs_are_made_once_and_told_of_again(tmp_path: Path) -> None:
    told: list[str] = []

    def watch(name: str, steps: int) -> Listener:
        told.append(f"{name} {steps}")
        return lambda kind, row: None

    runs = [run_demo(TINY, tmp_path / out, watch) for out in ("a", "a", "b")]
    first, kept, other = ([replace(r, seconds=0.0) for r in run] for run in runs)
    assert first == kept == other and [r.variant for r in first] == list(VARIANTS)
    assert told == [f"{name} 3" for name in VARIANTS] * 3
    rows = read_records(tmp_path / "a" / "records.jsonl", "demo")
    assert [row["error"] for row in rows] == [r.error for r in first + kept]
    assert rows[0]["config"]["steps"] == 3 and "reference" in rows[0]["kernels"]
    assert rows[2]["kernels"] == "none: this variant has no coupling"
    seconds = [row["seconds"] for row in rows]
    assert seconds[0] > seconds[4], "nothing is trained a second time"


def test_errors_are_those_of_the_runs_and_all_share_one_store(tmp_path: Path) -> None:
    found = run_demo(TINY, tmp_path, lambda name, steps: lambda kind, row: None)
    place = tmp_path / "poisson-seed-0"
    assert check_store(place / "data") == []
    hashes = set()
    for result in found:
        folder = RunFolder(place / result.variant)
        best = min(row["error"] for row in folder.history("validation"))
        assert result.error == best and folder.read_config().model.variant == result.variant
        hashes |= {row["data_hash"] for row in folder.history("start")}
    assert len(hashes) == 1


def test_another_seed_has_other_data(tmp_path: Path) -> None:
    assert demo_config(1).seed == 1 and demo_config(1).data.builtin.seed == 1
    assert demo_config().data.builtin == poisson().data.builtin


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ({}, "The attention is removable here: without token attention the error is 1.00 times"),
        ({"no_token_attention": 0.43}, "Removing the attention costs something here: without token"
                                       " attention the error is 1.07 times"),
        ({}, "The coupling is not: mlp-only has 2.00 times the error of no-token-attention."),
        ({"mlp_only": 0.5}, "does not show that the coupling is needed: mlp-only has 1.25 times"),
        ({}, "Slicing once is not enough here: slice-once has 1.50 times"),
        ({"slice_once": 0.4}, "does not separate slicing once from slicing in every layer"),
    ],
)  # fmt: skip
def test_the_sentence_follows_from_the_numbers(errors: dict[str, float], sentence: str) -> None:
    assert sentence in conclude(results(**errors))
