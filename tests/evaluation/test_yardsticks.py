"""What a model must beat: the mean of the training set, and the nearest training sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.batches import make_normaliser
from slipstream.data.store import Cloud, Field, Schema, Store, ingest, open_store
from slipstream.evaluation import neighbours, yardsticks
from slipstream.evaluation.neighbours import nearest_samples
from slipstream.evaluation.yardsticks import closest_points, measure_yardsticks
from slipstream.runs.evaluation_file import Yardstick

SCHEMA = Schema(
    coords=(Field("position", "m", components=3),),
    features=(Field("speed", "m/s"),),
    targets=(Field("p", "Pa"), Field("tau", "Pa", components=3)),
)


@dataclass(frozen=True)
class Balls:
    """Points on ellipsoids of a given length in a stream of a given speed, by sample."""

    of: Mapping[str, tuple[float, float]]
    test: Sequence[str]
    rows: int = 600
    name: str = "balls"
    schema: Schema = SCHEMA
    options: Mapping[str, Any] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", {"rows": self.rows})

    def ids(self) -> Sequence[str]:
        return list(self.of)

    def splits(self) -> Mapping[str, Sequence[str]]:
        return {"train": [s for s in self.of if s not in self.test], "test": list(self.test)}

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        length, speed = self.of[sample]
        draw = np.random.default_rng(0)
        x = draw.normal(size=(self.rows, 3))
        x = x / np.linalg.norm(x, axis=1, keepdims=True) * [length, 1, 1]
        p = speed * (x[:, :1] - 0.3)
        tau = np.concatenate([p, 2 * p, 1 + 0 * p], 1)
        arrays = {"position": x, "speed": np.full((self.rows, 1), speed), "p": p, "tau": tau}
        return Cloud(SCHEMA, {name: a.astype(np.float32) for name, a in arrays.items()}, {})


def made(folder: Path, of: Mapping[str, tuple[float, float]], *test: str) -> Store:
    ingest(Balls(of, test), folder / "store")
    return open_store(folder / "store")


def measured(store: Store, split: str = "test") -> dict[str, Yardstick]:
    normaliser = make_normaliser(store.schema, store.statistics)
    return {one.kind: one for one in measure_yardsticks(store, normaliser, split)}


def test_the_mean_and_the_nearest_by_hand(tmp_path: Path) -> None:
    of = {"a": (1.0, 2.0), "b": (1.0, 9.0), "c": (3.0, 2.0), "t": (1.1, 2.2)}
    store = made(tmp_path, of, "t")
    found = measured(store)
    assert found["nearest"].neighbours == {"t": "a"} and found["mean"].neighbours == {}
    rows = {name: np.asarray(store.array(name), np.float64) for name in of}
    truth = rows["t"][:, 4:]
    mean = np.concatenate([rows[name] for name in "abc"])[:, 4:].mean(0)
    away = np.linalg.norm(rows["t"][:, None, :3] - rows["a"][None, :, :3], axis=-1)
    given = rows["a"][away.argmin(1), 4:]
    for kind, answer in (("mean", mean), ("nearest", given)):
        errors, difference = found[kind].errors, np.abs(answer - truth)
        p, tau = difference[:, 0].sum(), difference[:, 1:].sum()
        assert errors["L1 p"] == pytest.approx(p / np.abs(truth[:, 0]).sum(), rel=1e-5)
        assert errors["L1 tau"] == pytest.approx(tau / np.abs(truth[:, 1:]).sum(), rel=1e-5)
        square = (difference[:, 0] ** 2).sum() / (truth[:, 0] ** 2).sum()
        assert errors["L2 p"] == pytest.approx(square**0.5, rel=1e-5)
        assert found[kind].samples["t"] == errors
    assert "up to 4,096 points" in found["mean"].definition
    assert "of 3 training samples" in found["nearest"].definition


def test_the_mean_has_the_error_1_where_it_is_normalised(tmp_path: Path) -> None:
    """The normalised mean is 0, and |0 - truth| / |truth| is 1."""
    found = measured(made(tmp_path, {"a": (1, 2), "b": (1, 3), "t": (1, 2)}, "t"))
    assert found["mean"].errors["composite"] == pytest.approx(1, abs=1e-9)
    assert found["nearest"].errors["composite"] < 0.3


@pytest.mark.parametrize(
    ("own", "nearest"),
    [((1.02, 2.0), "a"), ((1.02, 9.0), "b"), ((3.0, 2.0), "c"), ((2.9, 8.5), "d")],
)
def test_shape_and_parameters_count_alike(
    tmp_path: Path, own: tuple[float, float], nearest: str
) -> None:
    of = {"a": (1.0, 2.0), "b": (1.0, 9.0), "c": (3.0, 2.0), "d": (3.0, 9.0), "t": own}
    assert nearest_samples(made(tmp_path, of, "t"), ["t"]) == {"t": nearest}


@pytest.mark.parametrize("points", [150, 600])
def test_equal_shapes_do_not_outvote_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    """Some points of one body differ by chance from others: without a bound on that, it decides."""
    monkeypatch.setattr(neighbours, "POINTS", points)
    of = {f"s{k}": (1.0, 2.0 + k) for k in range(24)} | {"t": (1.0, 17.1)}
    assert nearest_samples(made(tmp_path, of, "t"), ["t"]) == {"t": "s15"}


def test_a_training_sample_is_not_its_own_neighbour(tmp_path: Path) -> None:
    store = made(tmp_path, {"a": (1, 2), "b": (1.1, 2), "c": (3, 2), "t": (1, 2)}, "t")
    assert nearest_samples(store, ["a", "b", "c"]) == {"a": "b", "b": "a", "c": "b"}
    alone = made(tmp_path / "alone", {"a": (1, 2), "t": (1, 2)}, "t")
    assert list(measured(alone)) == ["mean", "nearest"]
    assert list(measured(alone, "train")) == ["mean"]


def test_shapes_that_differ_little_are_told_apart_where_all_points_are_read(tmp_path: Path) -> None:
    of = {"a": (1.0, 2), "b": (1.01, 2), "c": (1.02, 2), "t": (1.03, 2)}
    assert nearest_samples(made(tmp_path, of, "t"), ["t"]) == {"t": "c"}


def test_few_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_TRAINING", 2)
    monkeypatch.setattr(yardsticks, "MOST_TRAINING", 2)
    of = {"a": (1, 2), "b": (2, 2), "c": (3, 2), "t": (2, 2)}
    found = measured(made(tmp_path, of, "t"))["nearest"]
    assert found.neighbours["t"] in "ac" and "2 of 3 training samples" in found.definition


def test_the_closest_points_are_those_of_all_distances() -> None:
    draw = np.random.default_rng(0)
    source, at = (draw.normal(size=(n, 3)).astype(np.float32) + 100 for n in (300, 1500))
    expected = np.linalg.norm(at[:, None] - source[None], axis=-1).argmin(1)
    assert (closest_points(source, at) == expected).mean() > 0.999
