"""Built-in problems as sources: pure functions of their arguments, whose config is remembered."""

from __future__ import annotations

import pickle
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.store import Source, check_store, ingest, open_store
from slipstream.physics.builtin import (
    LAGS,
    NAMES,
    PROBLEMS,
    ProblemConfig,
    builtin_config,
    builtin_source,
)
from slipstream.physics.poisson import Charges
from slipstream.physics.potential_flow import PotentialFlow
from slipstream.physics.stokes_flow import Stokes
from slipstream.physics.taylor_green import TaylorGreen

VORTICES = TaylorGreen(grid=8, stored=4, states=4, modes=2)
FLOWS = PotentialFlow(panels=320)
SLOW = Stokes(panels=180)
CONFIGS: dict[str, ProblemConfig | None] = {
    "poisson": None,
    "potential-flow-surface": FLOWS,
    "potential-flow-volume": FLOWS,
    "stokes-surface": SLOW,
    "stokes-volume": SLOW,
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_is_a_pure_function_of_its_sample(problem: str) -> None:
    config = CONFIGS[problem]
    few, many = (builtin_source(problem, samples=n, points=30, config=config) for n in (2, 5))
    one, same = few.read("000001"), pickle.loads(pickle.dumps(many)).read("000001")
    other = many.read("000002")
    for name in one.arrays:
        np.testing.assert_array_equal(one.arrays[name], same.arrays[name])
    assert any((one.arrays[n] != other.arrays[n]).any() for n in one.arrays)
    assert one.rows == 30 and one.schema.width == sum(a.shape[1] for a in one.arrays.values())


@pytest.mark.parametrize(
    ("problem", "config", "other"),
    [
        ("poisson", Charges(), Charges(number=(1, 1))),
        ("potential-flow-surface", FLOWS, replace(FLOWS, inflow="varying")),
        ("stokes-volume", SLOW, replace(SLOW, viscosity=2.0)),
        ("taylor-green", VORTICES, replace(VORTICES, perturbation=0.3)),
    ],
)
def test_a_config_changes_the_samples_and_is_among_the_options(
    problem: str, config: ProblemConfig, other: ProblemConfig
) -> None:
    sources = [
        builtin_source(problem, samples=1, points=64, config=given) for given in (config, other)
    ]
    first, second = (source.read("000000") for source in sources)
    assert any((first.arrays[name] != second.arrays[name]).any() for name in first.arrays)
    decided_by_points = {"points", "stored"}
    for source, given in zip(sources, (config, other), strict=True):
        for name in asdict(given).keys() - decided_by_points:
            assert source.options[name] == getattr(given, name)


@pytest.mark.parametrize("problem", NAMES)
def test_a_config_of_another_problem(problem: str) -> None:
    wrong = TaylorGreen() if problem == "poisson" else Charges()
    with pytest.raises(ValueError, match=f"config of {problem} must be a .*, got {wrong!s:.7}"):
        builtin_source(problem, samples=1, points=64, config=wrong)


def test_trajectories_of_taylor_green(tmp_path: Path) -> None:
    source = builtin_source("taylor-green", samples=10, points=64, config=VORTICES)
    assert isinstance(source, Source) and len(source.ids()) == 10 and LAGS >= 3
    ingest(source, tmp_path / "s")
    assert check_store(tmp_path / "s") == []
    store = open_store(tmp_path / "s")
    of_split = [{name[:6] for name in members} for members in store.splits.values()]
    assert sum(map(len, of_split)) == 10 and sum(map(len, store.splits.values())) == 10 * 6
    first, second = store.array("000001-00-02"), store.array("000001-02-01")
    at = store.schema.columns
    assert first.shape == (64, 3 + 3 + 1 + 1 + 3)
    np.testing.assert_array_equal(first[:, at("later_velocity")], second[:, at("velocity")])
    assert (first[:, at("lead_time")] == np.float32(2 * VORTICES.interval)).all()
    assert first[:, at("position")].max() == 0.75 * VORTICES.length
    of_trajectory = {
        name: store.array(f"{name}-00-01")[:, at("viscosity")] for name in ("000001", "000002")
    }
    assert all(len(np.unique(values)) == 1 for values in of_trajectory.values())
    low, high = VORTICES.viscosity
    one, other = (values[0, 0] for values in of_trajectory.values())
    assert one != other and low <= min(one, other) and max(one, other) <= high


@pytest.mark.parametrize("points", [63, 125, 8, 66**3])
def test_points_of_taylor_green_are_those_of_a_grid(points: int) -> None:
    with pytest.raises(
        ValueError, match=f"even number from 4 to the grid's 64, as 32768, got {points}"
    ):
        builtin_source("taylor-green", samples=1, points=points)
    coarse = builtin_config("taylor-green", {"grid": 16})
    with pytest.raises(ValueError, match="the grid's 16, as 4096, got 32768"):
        builtin_source("taylor-green", samples=1, points=32768, config=coarse)
    source = builtin_source("taylor-green", samples=1, points=512, config=coarse)
    assert (source.options["grid"], source.options["stored"]) == (16, 8)
    assert builtin_source("taylor-green", samples=1, points=512).options["stored"] == 8


def test_settings_change_the_usual_config() -> None:
    config = builtin_config("potential-flow-volume", {"inflow": "varying", "bodies": [1, 1]})
    assert config == PotentialFlow(inflow="varying", bodies=(1, 1))
    for settings, sentence in (
        ({"inflo": 1}, "a field of Charges must be one of number"),
        ({"number": 3}, "number must be a list, got 3"),
        ({"number": [2, "many"]}, r"number\[1\] must be a whole number, got 'many'"),
        ({"width": [True, 1]}, r"width\[0\] must be a number, got True"),
    ):
        with pytest.raises(ValueError, match=sentence):
            builtin_config("poisson", settings)
    with pytest.raises(ValueError, match="inflow must be"):
        builtin_config("potential-flow-surface", {"inflow": "sideways"})
