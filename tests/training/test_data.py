from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipstream.data.batches import endless
from slipstream.data.store import ingest
from slipstream.experiments import EXPERIMENTS
from slipstream.physics.builtin import builtin_source
from slipstream.runs.config import DataConfig, RunConfig
from slipstream.training.data import (
    first_epoch,
    open_data,
    problem_schema,
    training_loader,
    validation_loader,
)

from ..data.samples import Made
from .small import small


def test_built_in_data_are_made_once(tmp_path: Path) -> None:
    config = small().data
    store = open_data(config, tmp_path / "d")
    assert {split: len(ids) for split, ids in store.splits.items()} == {"train": 6, "val": 3}
    made = {path: path.stat().st_mtime_ns for path in store.path.rglob("*.npy")}
    open_data(config, tmp_path / "d")
    assert made == {path: path.stat().st_mtime_ns for path in store.path.rglob("*.npy")}


def poisson_store(path: Path, fractions: dict[str, float] | None = None) -> str:
    parts = fractions or {"train": 0.5, "val": 0.5}
    ingest(builtin_source("poisson", samples=4, points=20), path, fractions=parts)
    return str(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"problem": "drivaerml-surface", "builtin": None}, "must be those of drivaerml-surface"),
        ({"points": 21}, "points must be at most the 20 rows of sample"),
        ({"points": 1.5}, "points must be a number of rows or a fraction, got 1.5"),
        ({"store": None, "builtin": None}, "must name the point store of poisson, got"),
        ({"problem": "poison", "builtin": None}, "data.problem must be one of .*"),
    ],
)  # fmt: skip
def test_stores_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    given = {"problem": "poisson", "store": poisson_store(tmp_path / "s"), **changes}
    if "builtin" not in changes:
        given["builtin"] = small().data.builtin
    with pytest.raises(ValueError, match=sentence):
        open_data(DataConfig(**given), tmp_path / "d")


def test_a_store_without_validation_samples(tmp_path: Path) -> None:
    store = poisson_store(tmp_path / "s", {"train": 1.0})
    with pytest.raises(ValueError, match="in its split 'val', got none .`splits` in the card of"):
        open_data(DataConfig(problem=None, store=store), tmp_path / "d")
    ingest(Made(2, rows=20), tmp_path / "two")
    hint = "it has 2 samples, and to draw training, validation and test takes 3: ingest more, or"
    with pytest.raises(ValueError, match=hint):
        open_data(DataConfig(problem=None, store=str(tmp_path / "two")), tmp_path / "d")


def test_any_fields_fit_where_no_problem_is_named(tmp_path: Path) -> None:
    store = poisson_store(tmp_path / "s")
    assert open_data(DataConfig(problem=None, store=store), tmp_path).schema.target_dim == 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_schema(name: str) -> None:
    config = EXPERIMENTS[name]()
    assert isinstance(config, RunConfig)
    if config.data.problem is not None:
        assert problem_schema(config.data).target_dim >= 1


def test_each_epoch_draws_other_points_and_ranks_other_samples(tmp_path: Path) -> None:
    config = small(data__points=8, batch=1)
    store = open_data(config.data, tmp_path)
    loaders = [training_loader(store, config, rank, 2) for rank in range(2)]
    assert all(len(loader) == 3 for loader in loaders)
    epochs: list[dict[str, Any]] = [{}, {}]
    for loader in loaders:
        batches = endless(loader)
        for epoch in epochs:
            for _ in range(3):
                batch = next(batches)
                assert batch.samples[0] not in epoch, "ranks overlap"
                epoch[batch.samples[0]] = batch.rows
    assert len(epochs[0]) == len(epochs[1]) == 6
    assert all(not (epochs[0][name] == epochs[1][name]).all() for name in epochs[0])


def test_validation_is_the_same_each_time(tmp_path: Path) -> None:
    config = small(data__points=8, batch=2)
    store = open_data(config.data, tmp_path)
    loader = validation_loader(store, config)
    first, second = ([batch for batch in first_epoch(loader)] for _ in range(2))
    assert [len(batch.samples) for batch in first] == [2, 1]
    assert all((a.rows == b.rows).all() for a, b in zip(first, second, strict=True))
