from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream.core.runtime import generator
from slipstream.data.store import ingest, open_store
from slipstream.evaluation import locality as here
from slipstream.evaluation.locality import find_locality, inclination_errors, poisson_limit
from slipstream.physics.bodies import FAMILIES
from slipstream.physics.builtin import builtin_config, builtin_source
from slipstream.physics.poisson import Charges, draw_charges, solution
from slipstream.physics.taylor_green import TaylorGreen


def test_weighted_median() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    weights = torch.tensor([[1.0, 1.0, 1.0], [5.0, 1.0, 1.0], [1.0, 5.0, 1.0]])
    assert here.weighted_median(values, weights).tolist() == [2.0, 3.0, 1.0]


def test_no_other_answer_is_better_than_the_median() -> None:
    draw = np.random.default_rng(0)
    values = torch.from_numpy(draw.normal(size=99))
    weights = torch.from_numpy(draw.random(99))
    best = here.weighted_median(values[None], weights[None])
    cost = [((values - a).abs() * weights).sum() for a in (*torch.linspace(-2, 2, 50), best[0])]
    assert min(cost) == cost[-1]


def test_one_charge_of_known_place_and_width_leaves_nothing_to_learn() -> None:
    """The density at a point then tells its charge: the answer is pointwise, and the limit 0."""
    alone = Charges(number=(1, 1), width=(0.2, 0.2), box=(0.5, 0.5))
    found = poisson_limit(alone)
    assert found["potential"] < 0.03 and found["field"] < 0.03


def test_many_charges_leave_a_gap() -> None:
    found = poisson_limit(Charges(number=(2, 5)))
    assert 0.3 < found["potential"] < 1 and 0.3 < found["field"] < 1
    again = poisson_limit(Charges(number=(2, 5)))
    assert again == found, "a pure function of the charges"


def test_the_limit_hardly_follows_from_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their number, it is neither that of fitted draws (lower) nor of others (higher)."""
    for name, value in {"PLACES": 32, "DRAWS": 2_000, "TRIALS": 2_000}.items():
        monkeypatch.setattr(here, name, value)
    found = []
    for neighbours, seed in ((21, 0), (101, 0), (51, 1)):
        monkeypatch.setattr(here, "NEIGHBOURS", neighbours)
        found.append(poisson_limit(Charges(number=(3, 8), width=(0.05, 0.2)), seed))
    for limit in found:
        assert limit["potential"] == pytest.approx(0.839, abs=0.02)
        assert limit["field"] == pytest.approx(0.892, abs=0.02)


def test_all_draws_are_solved_as_one_by_one() -> None:
    charges = Charges(number=(1, 4))
    places = torch.rand(5, 3, dtype=torch.float64)
    density, target = here._solved(places, charges, generator(0, "test"))
    draw = generator(0, "test")
    for row in range(here.DRAWS + here.TRIALS):
        alone = solution(places, *draw_charges(charges, draw))
        torch.testing.assert_close((density[row], target[row]), alone)


def flow(tmp_path: Path, problem: str, **settings: object) -> Path:
    config = builtin_config(problem, {"panels": 320, "bodies": [1, 1], **settings})
    source = builtin_source(problem, samples=6, points=256, config=config)
    ingest(source, tmp_path / problem, fractions={"train": 0.5, "test": 0.5})
    return tmp_path / problem


def test_on_spheres_local_theory_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the velocity is 3/2 of the tangential stream, and the pressure 1 - 9/4 sin^2."""
    monkeypatch.setitem(FAMILIES, "sphere", ((0.5, 0.5),) * 3)
    store = open_store(flow(tmp_path, "potential-flow-surface", families=["sphere"], amplitude=0.0))
    found = inclination_errors(store)
    assert found["surface_velocity"] < 0.03 and found["pressure_coefficient"] < 0.08


def test_on_spheres_in_slow_flow_too_at_every_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pressure is -3/2 of the normal stream over the radius, the shear 3/2 of the tangential
    one; both are proportional to the speed."""
    monkeypatch.setitem(FAMILIES, "sphere", ((0.5, 0.5),) * 3)
    settings = {"families": ["sphere"], "amplitude": 0.0, "inflow": "varying", "speed": [1.0, 3.0]}
    store = open_store(flow(tmp_path, "stokes-surface", **settings))
    found = find_locality(store)
    assert found is not None and found.kind == "theory"
    assert found.errors["wall_shear"] < 0.02 and found.errors["pressure"] < 0.04


@pytest.mark.parametrize("where", ["surface", "volume"])
def test_other_bodies_are_not_local(tmp_path: Path, where: str) -> None:
    found = find_locality(open_store(flow(tmp_path, f"potential-flow-{where}")))
    assert found is not None and found.kind == "theory"
    velocity = {"surface": "surface_velocity", "volume": "velocity"}[where]
    assert found.errors["pressure_coefficient"] > found.errors[velocity] > 0.03


def test_only_where_the_physics_tells(made_study: Path, tmp_path: Path) -> None:
    found = find_locality(open_store(made_study / "data/poisson"))
    assert found is not None and found.kind == "limit" and set(found.errors) == {
        "potential", "field",
    }  # fmt: skip
    config = TaylorGreen(grid=8, stored=4, states=2, modes=2)
    source = builtin_source("taylor-green", samples=2, points=64, config=config)
    ingest(source, tmp_path / "tg")
    assert find_locality(open_store(tmp_path / "tg")) is None
