"""Trainings on nested subsets of a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstream.audit.run_audit import audit_run
from slipstream.core.schemas import parsed
from slipstream.data.store import Store, split_hash, with_training_samples
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.runs.config import RunConfig, with_store
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.training.data import open_data
from slipstream.training.forecast import (
    errors_of,
    gather,
    in_order,
    own_errors_of,
    subset_cells,
    subset_sizes,
)
from slipstream.training.session import train

from .small import small


@pytest.fixture
def store(tmp_path: Path) -> Store:
    config = small(data__builtin={"samples": {"train": 16, "val": 4}, "points": 32})
    return open_data(config.data, tmp_path / "store")


def test_subsets_are_nested_and_the_same_every_time(tmp_path: Path, store: Store) -> None:
    assert subset_sizes(160) == (40, 80, 160) and subset_sizes(163, 4) == (20, 40, 81, 163)
    names = store.ids("train")
    orders = [in_order(names, order) for order in range(20)]
    assert in_order(tuple(reversed(names)), 3) == orders[3], "of the set of names"
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len({order[0] for order in orders}) > 8, "orders differ"
    config = with_store(small(), store.path)
    cells = subset_cells(config, names, tmp_path, sizes=(4, 8, 16), orders=2)
    assert len({cell.folder.path for cell in cells}) == 6
    for seed in (0, 1):
        own = [set(c.config.data.train or ()) for c in cells if c.config.seed == seed]
        assert [len(one) for one in own] == [4, 8, 16] and own[0] < own[1] < own[2]
    assert cells[0].config.data.train != cells[3].config.data.train


def test_a_store_with_fewer_training_samples(store: Store) -> None:
    names = store.ids("train")
    some = with_training_samples(store, [names[5], names[2]])
    assert some.ids("train") == (names[2], names[5]) and some.ids("val") == store.ids("val")
    rows = np.concatenate([store.array(name) for name in some.ids("train")]).astype(np.float64)
    assert some.statistics.mean == pytest.approx(rows.mean(0))
    assert some.statistics.std == pytest.approx(rows.std(0))
    assert with_training_samples(store, names).statistics == store.statistics
    assert with_training_samples(store, None) is store
    assert split_hash(some) != split_hash(store)
    for bad, message in (
        ([store.ids("val")[0]], "must name samples of the training split"),
        ([names[0], names[0]], "each once"),
        ([], "each once"),
    ):
        with pytest.raises(ValueError, match=message):
            with_training_samples(store, bad)


def test_a_training_on_a_subset_is_of_it_everywhere(tmp_path: Path, store: Store) -> None:
    """The draws, the normaliser, the audit, and whoever opens its data later."""
    config = with_store(small(log_every=1), store.path)
    cell = subset_cells(config, store.ids("train"), tmp_path, sizes=(4,), orders=1)[0]
    train(cell.config, cell.folder.path, device="cpu")
    trained = load_model(cell.folder.path)
    mine = with_training_samples(store, cell.config.data.train)
    assert trained.normaliser.coords.shift != pytest.approx(store.statistics.mean[:3])
    assert open_data_of(trained, None, cell.folder).ids("train") == mine.ids("train")
    assert trained.recipe is not None and trained.recipe.data.samples == 4
    data = {one.check: one for one in audit_run(cell.folder.path).findings}["data"]
    assert data.holds, data
    saved = json.loads(cell.folder.config_file.read_text())["config"]
    assert saved["data"].pop("train") == list(mine.ids("train"))
    assert parsed(RunConfig, saved).data.train is None, "an older file has no such field"


def test_errors_are_gathered_by_training_sample_and_group(tmp_path: Path, store: Store) -> None:
    config = with_store(small(steps=2, evaluate_every=1), store.path)
    cells = subset_cells(config, store.ids("train"), tmp_path, sizes=(4, 8, 16), orders=1)
    for cell in cells:
        train(cell.config, cell.folder.path, device="cpu")
    found = gather(cells, store, device="cpu")
    assert found.sizes.tolist() == [4, 8, 16] and found.errors.shape == (3, 4, 2)
    whole = cells[-1]
    metric = load_model(whole.folder.path).metric
    assert found.means()[-1] == pytest.approx(metric["error"], rel=1e-5), "as in training"
    one = gather(cells, store, field="potential", device="cpu")
    assert one.means()[-1] == pytest.approx(metric["by_group"]["potential"], rel=1e-5)
    own = own_errors_of(cells[0], store, device="cpu")
    assert tuple(own.samples) == cells[0].config.data.train
    elsewhere = with_training_samples(store, sorted(set(store.ids("train")) - set(own.samples)))
    assert errors_of(cells[0], elsewhere, device="cpu").samples.keys() == set(store.ids("val"))
    other = replace(whole, folder=RunFolder(tmp_path / "none"))
    with pytest.raises((ValueError, OSError)):
        gather([other], store, device="cpu")


def test_too_few_samples_for_three_sizes() -> None:
    with pytest.raises(ValueError, match=r"at least 16 samples for 3 subsets, .* got 15"):
        subset_sizes(15)
    with pytest.raises(ValueError, match="sizes must be a whole number of at least 3, got 2"):
        subset_sizes(100, 2)
