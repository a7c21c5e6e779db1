"""Persistence, the best constant and local inclination, on data whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.data.batches import make_normaliser
from slipstream.data.store import (
    PAIRS_OPTION,
    YARDSTICKS_NAME,
    Cloud,
    Field,
    Pairs,
    Schema,
    Store,
    check_store,
    ingest,
    open_store,
)
from slipstream.evaluation import yardsticks
from slipstream.evaluation.inclination import fit_inclination
from slipstream.evaluation.later_states import fit_scaling, state_columns
from slipstream.evaluation.yardsticks import measure_yardsticks
from slipstream.runs.evaluation_file import Yardstick

POSITION = (Field("position", "m", components=3),)
PAIRS = Pairs((Field("u", "m/s", components=2), Field("t", "K")), 4, (1, 2), 0.5, "s")
WALL = Field("normal", components=3, computed="normals")
STREAM = Field("freestream", "m/s", components=3)
TARGETS = (Field("p", "Pa"), Field("tau", "Pa", components=3))
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Made:
    """Samples made by a function from a generator of random numbers."""

    schema: Schema
    make: Callable[[np.random.Generator], Arrays]
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = "made"

    def ids(self) -> Sequence[str]:
        return list("abcdef")

    def splits(self) -> Mapping[str, Sequence[str]]:
        return {"train": list("abcd"), "val": ["e"], "test": ["f"]}

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        return Cloud(self.schema, self.make(np.random.default_rng(ord(sample))))


def made(folder: Path, source: Made) -> Store:
    ingest(source, folder / "store")
    return open_store(folder / "store")


def measured(store: Store, split: str = "test") -> dict[str, Yardstick]:
    normaliser = make_normaliser(store.schema, store.statistics)
    return {one.kind: one for one in measure_yardsticks(store, normaliser, split)}


def decaying(noise: float) -> Made:
    """u falls to 0.8 of itself from state to state, and t to a half."""

    def make(draw: np.random.Generator) -> Arrays:
        u, t = draw.normal(size=(300, 2)), draw.normal(size=(300, 1))
        arrays = {"position": draw.normal(size=(300, 3))}
        for k in range(PAIRS.states):
            arrays[f"u@{k}"] = 0.8**k * u + noise * draw.standard_cauchy((300, 2))
            arrays[f"t@{k}"] = 0.5**k * t
        return arrays

    return Made(PAIRS.stored(POSITION), make, {PAIRS_OPTION: PAIRS.to_json()})


def test_persistence_and_the_best_constant_on_a_decay(tmp_path: Path) -> None:
    found = measured(made(tmp_path, decaying(0.0)))
    assert list(found) == ["mean", "persistence", "scaling", "nearest"]
    assert max(found["scaling"].errors.values()) < 1e-6
    # Three pairs of a trajectory are one state apart and two are two apart.
    u, t = ((3 * (1 / c - 1) + 2 * (1 / c**2 - 1)) / 5 for c in (0.8, 0.5))
    assert found["persistence"].errors["L1 later_u"] == pytest.approx(u, rel=1e-5)
    assert found["persistence"].errors["L1 later_t"] == pytest.approx(t, rel=1e-5)


def test_no_other_constant_has_a_smaller_error_in_training(tmp_path: Path) -> None:
    """Errors with outliers, where least squares would give another constant."""
    store = made(tmp_path, decaying(0.1))
    scaling = fit_scaling(store, state_columns(store.schema))
    assert list(scaling.factors) == [0.5, 1.0]
    own = store.schema.columns
    for lag, (factor, _) in zip((1, 2), scaling.factors.values(), strict=True):
        pairs = [store.array(i) for i in store.ids("train") if i.endswith(f"{lag:02d}")]
        states = [[p[:, own(n)].astype(np.float64) for n in ("u", "later_u")] for p in pairs]

        def error(c: float, states: Sequence[list[NDArray[Any]]] = states) -> float:
            return float(np.mean([np.abs(c * x - y).sum() / np.abs(y).sum() for x, y in states]))

        assert error(factor) <= min(map(error, factor + np.linspace(-0.3, 0.3, 301))) + 1e-12


def test_targets_that_are_no_later_state_have_neither(tmp_path: Path) -> None:
    wave, later = Field("u"), Field("later_u")
    for targets in ((later, Field("p")), (Field("later_u", components=2),), (Field("p"),)):
        assert state_columns(Schema(POSITION, (wave,), targets)) == ()
    assert state_columns(Schema(POSITION, (wave,), (later,))) == ((slice(4, 5), slice(3, 4)),)


def on_walls(speeds: tuple[float, float], features: tuple[Field, ...] = (WALL, STREAM)) -> Made:
    """Newtonian pressure and a shear along the wall, both in any stream."""

    def make(draw: np.random.Generator) -> Arrays:
        normal, stream = draw.normal(size=(400, 3)), draw.normal(size=3)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        stream *= draw.uniform(*speeds) / np.linalg.norm(stream)
        across = normal @ stream
        speed = np.linalg.norm(stream)
        shear = (1 + across / speed)[:, None] * (stream - across[:, None] * normal)
        arrays = {"position": 3 * normal, "normal": normal, "p": across[:, None] ** 2, "tau": shear}
        arrays |= {"freestream": np.tile(stream, (400, 1))}
        arrays |= {f"stream_{axis}": arrays["freestream"][:, [k]] for k, axis in enumerate("xyz")}
        return {f.name: arrays[f.name] for f in (*POSITION, *features, *TARGETS)}

    return Made(Schema(POSITION, features, TARGETS), make)


@pytest.mark.parametrize("speeds", [(2.0, 2.0), (1.0, 3.0)])
@pytest.mark.parametrize(
    "stream", [(STREAM,), tuple(Field(f"stream_{axis}", "m/s") for axis in "xyz")]
)
def test_newtonian_pressure_and_a_shear_along_the_wall_are_found(
    tmp_path: Path, speeds: tuple[float, float], stream: tuple[Field, ...]
) -> None:
    """In streams of other directions, and of other speeds, than those of the training set."""
    found = measured(made(tmp_path, on_walls(speeds, (WALL, *stream))))
    assert max(found["inclination"].errors.values()) < 1e-5
    assert ("degree 2 in the speed" in found["inclination"].definition) == (speeds[0] < speeds[1])


def test_without_a_stream_the_normal_alone_is_looked_at(tmp_path: Path) -> None:
    def make(draw: np.random.Generator) -> Arrays:
        normal = draw.normal(size=(400, 3))
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        x, y, z = normal.T[:, :, None]
        tau = np.concatenate([x * y, 1 - z, y**3], 1)
        return {"position": normal, "normal": normal, "p": x**4 - z, "tau": tau}

    store = made(tmp_path, Made(Schema(POSITION, (WALL,), TARGETS), make))
    found = measured(store)["inclination"]
    assert max(found.errors.values()) < 1e-5 and "components of the normal" in found.definition
    first = fit_inclination(store)
    again = fit_inclination(store)
    rows = store.array("f")
    assert first is not None and again is not None
    np.testing.assert_array_equal(first("f", rows), again("f", rows))


def test_they_are_measured_once_for_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made(tmp_path, on_walls((1.0, 1.0)))
    first = measured(store)
    file = store.path / YARDSTICKS_NAME
    assert check_store(store.path) == [] and file.is_file()
    with monkeypatch.context() as without:
        without.setattr(yardsticks, "_measure", lambda *_: pytest.fail("measured again"))
        assert measured(open_store(store.path)) == first
        with pytest.raises(pytest.fail.Exception):
            measured(store, "val")
    kept = file.read_bytes()
    assert measured(store, "val") != first and measured(store) == first
    for damaged in (b"", b"[]", kept.replace(b'"kind"', b'"sort"'), kept.replace(b": 1", b": 0")):
        file.write_bytes(damaged)
        assert measured(store) == first
    file.unlink()
    file.mkdir()  # which no file can replace
    assert measured(store) == first
