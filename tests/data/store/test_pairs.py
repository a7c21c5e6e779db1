from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data import Loader, PointDataset, Share, make_normaliser
from slipstream.data.store import (
    PAIRS_OPTION,
    Cloud,
    Field,
    Pairs,
    Schema,
    Store,
    ingest,
    open_store,
)
from slipstream.data.store.statistics import statistics_of

POSITION = (Field("position", "m", components=2),)
PAIRS = Pairs((Field("u", "m/s", components=2), Field("p", group=None)), 5, (1, 3), 0.5, "s")


@dataclass(frozen=True)
class Waves:
    name: str = "waves"

    @property
    def schema(self) -> Schema:
        return PAIRS.stored(POSITION)

    @property
    def options(self) -> Mapping[str, Any]:
        return {PAIRS_OPTION: PAIRS.to_json()}

    def ids(self) -> Sequence[str]:
        return ["a", "b-c", "d"]

    def splits(self) -> Mapping[str, Sequence[str]]:
        return {"train": ["a", "b-c"], "val": ["d"]}

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        draw = np.random.default_rng(len(sample))
        arrays = {f.name: draw.normal(2, 3, (40, f.components)) for f in self.schema.fields}
        return Cloud(self.schema, arrays)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("pairs") / "store"
    ingest(Waves(), path)
    return open_store(path)


def test_a_pair_is_two_states_of_one_trajectory(store: Store) -> None:
    places = [(0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (3, 1)]
    assert PAIRS.places == places
    assert store.ids("val") == tuple(f"d-{first:02d}-{lag:02d}" for first, lag in places)
    assert len(store.ids("train")) == 2 * len(places)
    assert store.schema.channels == (
        "position[0]", "position[1]", "u[0]", "u[1]", "p", "lead_time",
        "later_u[0]", "later_u[1]", "later_p",
    )  # fmt: skip
    assert store.schema.target_groups == {"u": (0, 1)}
    stored, on_disk = PAIRS.stored(POSITION), np.load(store.file("b-c-01-03"))
    found = store.array("b-c-01-03")
    assert store.rows("b-c-01-03") == 40 == len(found)
    for name, column in {"position": "position", "u": "u@1", "p": "p@1", "later_u": "u@4"}.items():
        np.testing.assert_array_equal(
            found[:, store.schema.columns(name)], on_disk[:, stored.columns(column)]
        )
    assert (found[:, store.schema.columns("lead_time")] == 1.5).all()
    out = np.empty((6, store.schema.width), np.float32)
    pickle.loads(pickle.dumps(store)).read_spans("b-c-01-03", [(38, 40), (0, 4)], out)
    np.testing.assert_array_equal(out, np.roll(found, 2, 0)[:6])


def test_statistics_are_those_of_all_pairs(store: Store) -> None:
    drawn = statistics_of(store.array(sample) for sample in store.ids("train"))
    assert store.statistics.differing(drawn) == []


def test_batches_of_pairs(store: Store) -> None:
    dataset = PointDataset(store, "train", points=16, sampling="exact")
    normaliser = make_normaliser(store.schema, store.statistics)
    batches = [batch.normalise(normaliser) for batch in Loader(dataset, Share(batch_size=4))]
    assert sum(len(batch.samples) for batch in batches) == 12
    assert batches[0].features.shape == (4, 16, 4) and batches[0].targets.shape == (4, 16, 3)


@pytest.mark.parametrize("sample", ["a", "a-01", "a-04-01", "a-00-02", "e-00-01", "a-x-01"])
def test_pairs_that_are_not_there(store: Store, sample: str) -> None:
    with pytest.raises(ValueError, match="sample must be"):
        store.rows(sample)


@pytest.mark.parametrize(
    ("states", "lags", "sentence"),
    [(1, (1,), "states"), (4, (), "lags must be"), (4, (4,), "largest lag"), (4, (0,), "largest")],
)
def test_bad_pairs(states: int, lags: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Pairs(PAIRS.state, states, lags, 1.0, "s")


@dataclass(frozen=True)
class Damped(Waves):
    """Waves with two parameters, which no state changes."""

    name: str = "damped"
    pairs = replace(PAIRS, parameters=(Field("damping", "1/s"), Field("wind", components=2)))

    @property
    def schema(self) -> Schema:
        return self.pairs.stored(POSITION)

    @property
    def options(self) -> Mapping[str, Any]:
        return {PAIRS_OPTION: self.pairs.to_json()}


def test_parameters_of_a_trajectory_are_features_of_its_pairs(tmp_path: Path) -> None:
    ingest(Damped(), tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert store.schema.channels[2:9] == (
        "u[0]", "u[1]", "p", "lead_time", "damping", "wind[0]", "wind[1]",
    )  # fmt: skip
    pair, on_disk = store.array("a-02-01"), np.load(store.file("a-02-01"))
    columns = {"u": "u@2", "p": "p@2", "damping": "damping", "wind": "wind", "later_u": "u@3"}
    for name, column in columns.items():
        np.testing.assert_array_equal(
            pair[:, store.schema.columns(name)], on_disk[:, Damped().schema.columns(column)]
        )
    assert (pair[:, store.schema.columns("lead_time")] == 0.5).all()
    rows = np.concatenate([store.array(name) for name in store.ids("train")])
    assert statistics_of([rows]).differing(store.statistics) == []


def test_stores_without_parameters_are_read_and_written_as_before() -> None:
    """What an older manifest holds, letter by letter: its hash and its data stay the same."""
    state = {"name": "u", "unit": "m/s", "group": "u", "components": 3}
    older = {"state": [state], "states": 11, "lags": [1, 2], "step": 0.5, "unit": "s"}
    pairs = Pairs.from_json(older)
    assert pairs.parameters == () and json.loads(json.dumps(pairs.to_json())) == older
