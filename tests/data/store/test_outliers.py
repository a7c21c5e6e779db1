"""Samples unlike the others are named, with a factor and a likely cause; others are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.data.store import (
    Field,
    Manifest,
    Schema,
    find_outliers,
    ingest,
    open_store,
    read_manifest,
)
from slipstream.data.store.manifest import Origin, SampleEntry
from slipstream.data.store.statistics import statistics_of
from slipstream.physics.builtin import builtin_config, builtin_source

Rows = NDArray[np.float64]
SCHEMA = Schema(
    (Field("position", "m", components=3),),
    (Field("speed", "m/s"),),
    (Field("pressure", "Pa"), Field("velocity", "m/s", components=3)),
)
X, SPEED, P, U = slice(0, 3), 3, 4, slice(5, 8)


def flow(draw: np.random.Generator, *, speed: float = 30, size: float = 1) -> Rows:
    """A made-up flow round a body: pressures go as the square of the speed."""
    rows = np.empty((100, 8))
    rows[:, X] = size * draw.uniform(-1, 1, (100, 3)) * (1, 0.4, 0.3)
    rows[:, SPEED] = speed
    rows[:, P] = 0.6 * speed**2 * draw.normal(-0.2, 0.4, 100) * draw.lognormal(0, 0.2)
    rows[:, U] = speed * draw.normal((1, 0, 0), 0.4, (100, 3))
    return rows


def made_of(rows: list[Rows], schema: Schema = SCHEMA, **more: Any) -> Manifest:
    entries = {
        f"run_{i}": SampleEntry(len(one), 1, 0, statistics_of([one.astype(np.float32)]))
        for i, one in enumerate(rows)
    }
    return Manifest(Origin(schema, "made", more, 0), {}, entries, {}, None)


def some(count: int, seed: int = 0, **options: Any) -> list[Rows]:
    draw = np.random.default_rng(seed)
    return [flow(draw, **{k: draw_one(draw) for k, draw_one in options.items()})
            for _ in range(count)]  # fmt: skip


def in_mm(rows: Rows) -> None:
    rows[:, X] *= 1000


def absolute(rows: Rows) -> None:
    rows[:, P] += 101325


def spike(rows: Rows) -> None:
    rows[7, P] = -130 * 0.6 * 30**2


def one_stray_point(rows: Rows) -> None:
    rows[7, 1] = 200


def faster_somewhere(rows: Rows) -> None:
    rows[3, 6] = 9000


@pytest.mark.parametrize("count", [4, 5, 12, 50])
@pytest.mark.parametrize(
    ("wrong", "field", "component", "factor", "sentence"),
    [
        (in_mm, "position", None, 1000, "run_2: position extends over 19"),
        (absolute, "pressure", None, None, "101"),
        (
            spike,
            "pressure",
            None,
            100,
            "run_2: pressure reaches -7.02e+04 Pa: its largest value is",
        ),
        (faster_somewhere, "velocity", "velocity[1]", 150, "run_2: velocity[1] reaches 9000 m/s: "),
    ],
)
def test_wrong_samples_are_named(
    count: int,
    wrong: Callable[[Rows], None],
    field: str,
    component: str | None,
    factor: float | None,
    sentence: str,
) -> None:
    rows = some(count)
    wrong(rows[2])
    (outlier,) = find_outliers(made_of(rows))
    assert (outlier.sample, outlier.field, outlier.component) == ("run_2", field, component)
    assert sentence in str(outlier), outlier
    if factor is not None:
        assert factor / 1.7 < outlier.factor < factor * 1.7
    else:
        assert str(outlier).endswith("while its spread is like theirs: absolute pressure?")
    assert wrong is not in_mm or str(outlier).endswith(": in mm?")


def test_more_than_one_cause_and_sample() -> None:
    rows = some(12)
    in_mm(rows[1])
    absolute(rows[1])
    absolute(rows[7])
    one_stray_point(rows[9])
    outliers = find_outliers(made_of(rows))
    assert [(one.sample, one.field) for one in outliers] == [
        ("run_1", "position"), ("run_1", "pressure"), ("run_7", "pressure"), ("run_9", "position")
    ]  # fmt: skip
    assert outliers[3].component == "position[1]" and "in " not in outliers[3].message[-6:]
    many = some(12)
    for one in many[:5]:  # not quite half, but the cause is known
        in_mm(one)
    assert [one.sample for one in find_outliers(made_of(many))] == [f"run_{i}" for i in range(5)]


def test_other_shifts() -> None:
    rows = some(8)
    for one in rows:
        one[:, P] += 101325
    rows[4][:, P] -= 101325
    (outlier,) = find_outliers(made_of(rows))
    assert str(outlier).startswith("run_4: pressure has the mean ")
    assert str(outlier).endswith(": gauge pressure among absolute ones?")
    heat = Schema(SCHEMA.coords, SCHEMA.features, (Field("T", "K"), SCHEMA.targets[1]))
    for one in rows:
        one[:, P] = np.linspace(290, 310, 100)
    rows[6][:, P] -= 273.15
    (outlier,) = find_outliers(made_of(rows, heat))
    assert outlier.sample == "run_6" and str(outlier).endswith(": in degrees Celsius?")
    rows[6][:, P] += 2 * 273.15  # a hot run
    assert find_outliers(made_of(rows, heat)) == []
    rows[6][:, P] += 20_000
    (outlier,) = find_outliers(made_of(rows, heat))
    assert str(outlier).endswith("while its spread is like theirs")


def uniform(low: float, high: float) -> Callable[[np.random.Generator], float]:
    return lambda draw: draw.uniform(low, high)


@pytest.mark.parametrize("count", [4, 6, 12, 40])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"speed": uniform(10, 30)},
        {"speed": uniform(0.01, 30)},
        {"speed": lambda draw: 10 ** draw.uniform(0, 2)},
        {"speed": lambda draw: draw.choice([10, 100], p=[0.8, 0.2])},
        {"size": lambda draw: draw.choice([1, 10], p=[0.8, 0.2])},
        {"size": uniform(0.1, 10), "speed": uniform(10, 90)},
    ],
)
def test_varied_parameters_are_no_outliers(
    count: int, options: Mapping[str, Callable[[np.random.Generator], float]]
) -> None:
    for seed in range(10):
        rows = some(count, seed, **options)
        assert find_outliers(made_of(rows)) == []
        # The speed may be among the parameters instead of the features.
        schema = Schema(SCHEMA.coords, (), SCHEMA.targets)
        manifest = made_of([np.delete(one, SPEED, 1) for one in rows], schema)
        entries = {
            name: replace(entry, parameters={"U": float(one[0, SPEED]), "run": int(name[4:])})
            for (name, entry), one in zip(manifest.samples.items(), rows, strict=True)
        }
        assert find_outliers(replace(manifest, samples=entries)) == []


def test_little_is_said_of_few_samples_and_of_two_populations() -> None:
    three = some(3)
    in_mm(three[0])
    assert find_outliers(made_of(three)) == []
    halves = some(8)
    for one in halves[::2]:
        in_mm(one)
        spike(one)
    assert find_outliers(made_of(halves)) == []


def test_small_spreads_zeros_and_huge_values_raise_no_alarm() -> None:
    rows = some(12)
    for index, one in enumerate(rows):
        one[:, U] = 1e-7 * index  # constant within a sample, and tiny
        one[:, P] = 0 if index < 7 else 5
        one[:, 2] = 0  # a plane
    rows[3][:, 2] = np.linspace(0, 1e-6, 100)
    assert find_outliers(made_of(rows)) == []
    isothermal = some(12)
    for index, one in enumerate(isothermal):
        one[:, P] = 300 + (index == 4) * np.linspace(0, 40, 100) + np.linspace(0, 1e-3, 100)
    assert find_outliers(made_of(isothermal)) == []
    huge = some(8)
    huge[2][:, P] = np.linspace(-3e38, 3e38, 100)
    assert [one.sample for one in find_outliers(made_of(huge))] == ["run_2"]


BUILTIN = {
    "poisson": {},
    "potential-flow-surface": {"panels": 320, "inflow": "varying", "cone": 60.0},
    "potential-flow-volume": {"panels": 320},
    "stokes-surface": {"panels": 180, "inflow": "varying", "cone": 60.0},
    "stokes-volume": {"panels": 180},
    "taylor-green": {"grid": 16, "states": 4},
}


@pytest.mark.parametrize("problem", BUILTIN)
def test_builtin_data_raise_no_alarm(problem: str, tmp_path: Path) -> None:
    config = builtin_config(problem, BUILTIN[problem])
    points = 64 if problem == "taylor-green" else 200
    ingest(builtin_source(problem, samples=12, points=points, config=config), tmp_path / "s")
    manifest = read_manifest(tmp_path / "s/manifest.json")
    assert find_outliers(manifest) == []
    for count in (4, 5, 8):
        few = dict(list(manifest.samples.items())[-count:])
        assert find_outliers(replace(manifest, samples=few)) == []


def test_states_of_a_trajectory_are_one_quantity(tmp_path: Path) -> None:
    config = builtin_config("taylor-green", BUILTIN["taylor-green"])
    source = builtin_source("taylor-green", samples=8, points=64, config=config)
    ingest(source, tmp_path / "s")
    manifest = open_store(tmp_path / "s").manifest
    name, entry = next(iter(manifest.samples.items()))
    statistics = entry.statistics
    first = 3 + 3 * 2  # velocity@2
    high = [value * (100 if i >= first else 1) for i, value in enumerate(statistics.high)]
    entry = replace(entry, statistics=replace(statistics, high=tuple(high)))
    (outlier,) = find_outliers(replace(manifest, samples={**manifest.samples, name: entry}))
    assert outlier.field == "velocity" and outlier.sample == name


def turned(count: int, part: int, seed: int = 0) -> list[Rows]:
    """Flows of which some have the velocity with the other sign, as wall shear may have it."""
    rows = some(count, seed)
    for one in rows[:part]:
        one[:, U] *= -1
    return rows


@pytest.mark.parametrize(("count", "part"), [(4, 1), (12, 3), (12, 6), (50, 25), (50, 49)])
def test_a_vector_with_the_other_sign_is_named(count: int, part: int) -> None:
    outliers = find_outliers(made_of(turned(count, part)))
    wrong = range(part) if 2 * part < count else range(part, count)
    assert [outlier.sample for outlier in outliers] == [f"run_{i}" for i in wrong]
    assert {outlier.field for outlier in outliers} == {"velocity"}
    message = str(outliers[0])
    assert f"against its direction in {count - len(wrong)} of {count} samples" in message
    assert message.endswith(": with the other sign?")


def test_of_two_halves_the_one_without_the_first_sample_is_named() -> None:
    for rows in (turned(12, 6), turned(12, 6)[::-1], [-one for one in turned(12, 6)]):
        for one in rows:
            one[:, SPEED] = 30
        outliers = find_outliers(made_of(rows))
        assert [outlier.sample for outlier in outliers] == [f"run_{i}" for i in range(6, 12)]


def with_inflow(rows: list[Rows], directions: NDArray[np.float64]) -> Manifest:
    """The flows turned, each with the velocity of its stream as an input."""
    made = []
    for one, direction in zip(rows, directions, strict=True):
        own = np.concatenate([one[:, :3], np.tile(30 * direction, (100, 1)), one[:, 4:]], 1)
        own[:, 7:] = 30 * (direction + np.random.default_rng(1).normal(0, 0.4, (100, 3)))
        made.append(own)
    inflow = Field("inflow", "m/s", components=3)
    return made_of(made, replace(SCHEMA, features=(inflow,)))


def test_a_vector_that_turns_with_an_input_is_right() -> None:
    """A stream from all sides; and one sample that is wrong among them."""
    draw = np.random.default_rng(0)
    directions = draw.normal(size=(12, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    assert find_outliers(with_inflow(some(12), directions)) == []
    to_and_fro = np.outer((-1.0) ** np.arange(12), (1, 0, 0))
    assert find_outliers(with_inflow(some(12), to_and_fro)) == []
    manifest = with_inflow(some(12), np.where(np.arange(12)[:, None] == 4, -1, 1) * directions)
    entry = manifest.samples["run_4"]
    mean = (*entry.statistics.mean[:3], *-np.array(entry.statistics.mean[3:6]),
            *entry.statistics.mean[6:])  # fmt: skip
    low, high = (tuple(x[:3]) + tuple(mean[3:6]) + tuple(x[6:])
                 for x in (entry.statistics.low, entry.statistics.high))  # fmt: skip
    entry = replace(entry, statistics=replace(entry.statistics, mean=mean, low=low, high=high))
    manifest = replace(manifest, samples={**manifest.samples, "run_4": entry})
    (outlier,) = find_outliers(manifest)
    assert outlier.sample == "run_4" and outlier.field == "velocity"


def test_a_vector_that_changes_its_sign_with_a_number_is_right() -> None:
    """As displacements under loads from either side."""
    rows = turned(12, 6)
    for one in rows[:6]:
        one[:, SPEED] *= -1
    assert find_outliers(made_of(rows)) == []
    rows[3][:, U] *= -1
    assert [outlier.sample for outlier in find_outliers(made_of(rows))] == ["run_3"]


def test_means_that_say_nothing_of_a_direction_raise_no_alarm() -> None:
    rows = some(12)
    for index, one in enumerate(rows):
        one[:, U] -= one[:, U].mean(0) * (1 - 0.1 * (-1) ** index)
    assert find_outliers(made_of(rows)) == []
    side = some(12)
    for index, one in enumerate(side[:6]):  # across the line of the others, to either side
        one[:, U] = np.roll(one[:, U], 1, axis=1) * (-1) ** index
    assert find_outliers(made_of(side)) == []
