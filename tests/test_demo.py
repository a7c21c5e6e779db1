from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream import Size
from slipstream.core.records import read_records
from slipstream.demo import VARIANTS, DemoConfig, Result, conclude, make_data, run_demo
from slipstream.training.trainer import TrainConfig

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


def test_data_are_scaled_by_the_training_set() -> None:
    training, validation = make_data(replace(TINY, training_samples=64))
    for part in (training.features, training.targets):
        assert part.mean((0, 1)).abs().max() < 1e-4
        assert (part.std((0, 1)) - 1).abs().max() < 1e-4
    assert validation.targets.mean((0, 1)).abs().max() > 1e-3
    assert training.coords.min() >= -1 and training.coords.max() > 0.9


def test_no_validation_sample_was_trained_on() -> None:
    training, validation = make_data(TINY)
    clouds = [*training.coords, *validation.coords]
    assert len({tuple(cloud.flatten().tolist()) for cloud in clouds}) == 6


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
