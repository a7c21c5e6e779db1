from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream import Size, Transolver
from slipstream.builtin import builtin_source
from slipstream.core.records import read_records
from slipstream.data.check import check_store
from slipstream.data.normalize import make_normaliser
from slipstream.demo import VARIANTS, DemoConfig, Result, conclude, make_store, run_demo
from slipstream.metrics import relative_error
from slipstream.training.trainer import TrainConfig, fit, training_batches

TINY = DemoConfig(
    training_samples=4,
    validation_samples=2,
    points=16,
    size=Size(layers=1, width=8, heads=2, slices=3),
    train=TrainConfig(steps=3, batch=2),
)


def results(**errors: float) -> list[Result]:
    given = {
        "baseline": 0.4,
        "no_token_attention": 0.4,
        "mlp_only": 0.8,
        "slice_once": 0.6,
    } | errors
    return [Result(name.replace("_", "-"), 1, error, {}, 0.0) for name, error in given.items()]


def quiet(name: str, steps: int) -> Callable[[float], None]:
    return lambda loss: None


def test_two_runs_give_identical_numbers_and_append_records(tmp_path: Path) -> None:
    told: list[str] = []

    def watch(name: str, steps: int):  # noqa: ANN202
        told.append(f"{name} {steps}")
        return lambda loss: None

    runs = [run_demo(TINY, tmp_path, watch) for _ in range(2)]
    first, second = ([replace(r, seconds=0.0) for r in run] for run in runs)
    assert first == second and [r.variant for r in first] == list(VARIANTS)
    assert told == [f"{name} 3" for name in VARIANTS] * 2
    rows = read_records(tmp_path / "records.jsonl", "demo")
    assert [row["error"] for row in rows] == [r.error for r in first + second]
    assert rows[0]["config"]["train"]["steps"] == 3 and "reference" in rows[0]["kernels"]
    assert rows[2]["kernels"] == "none: this variant has no coupling"


def test_errors_are_those_on_samples_it_was_not_trained_on(tmp_path: Path) -> None:
    (found,) = (r for r in run_demo(TINY, tmp_path, quiet) if r.variant == "mlp-only")
    store, cpu = make_store(TINY, tmp_path), torch.device("cpu")
    groups = store.schema.target_groups
    model = Transolver(3, 1, 4, variant="mlp-only", size=TINY.size)
    fit(model, training_batches(store, TINY.train, cpu), groups, TINY.train)
    rows = torch.from_numpy(np.stack([store.array(sample) for sample in store.ids("val")]))
    unseen = make_normaliser(store.schema, store.statistics).rows.forward(rows)
    prediction = model(unseen[..., :3], unseen[..., 3:4]).detach()
    assert float(relative_error(prediction, unseen[..., 4:], groups)) == pytest.approx(found.error)


def test_the_data_are_a_store_of_the_builtin_problem(tmp_path: Path) -> None:
    store = make_store(TINY, tmp_path)
    assert check_store(store.path) == []
    assert {split: len(ids) for split, ids in store.splits.items()} == {"train": 4, "val": 2}
    assert not set(store.ids("train")) & set(store.ids("val"))
    source = builtin_source("poisson", samples=6, points=16, config=TINY.charges)
    for sample in source.ids():
        (rows,) = source.read(sample).blocks()
        assert sorted(store.array(sample).tolist()) == sorted(rows.tolist())


def test_what_is_made_is_kept_and_each_seed_has_its_own(tmp_path: Path) -> None:
    first = make_store(TINY, tmp_path)
    made = {path: path.stat().st_mtime_ns for path in first.path.rglob("*.npy")}
    lost = first.file("000002")
    whole = lost.read_bytes()
    lost.unlink()
    again = make_store(TINY, tmp_path)
    assert again.manifest == first.manifest and lost.read_bytes() == whole
    kept = {path: when for path, when in made.items() if path != lost}
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in made}.items()
    other = make_store(replace(TINY, seed=1), tmp_path)
    assert other.path != first.path and check_store(first.path) == []


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
