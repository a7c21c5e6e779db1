from __future__ import annotations

import pytest

from slipstream.data.benchmarks import BENCHMARKS
from slipstream.experiments import EXPERIMENTS, SMALL, SMALL_DATA, experiment, small
from slipstream.models.variants import PAPER
from slipstream.physics.builtin import TaylorGreenSource, builtin_config, builtin_source
from slipstream.runs.config import OptimConfig

PUBLISHED = {
    "taylor-green": (250_000, None, None),
    "shift-wing-surface": (250_000, None, 0.1),
    "shift-wing-volume": (140_000, 250_000, 0.046),
    "drivaernet-surface": (184_000, None, 0.5),
    "drivaernet-volume": (180_000, None, 0.02),
    "shift-suv-surface": (50_000, None, 0.092),
    "shift-suv-volume": (50_000, None, 0.0059),
    "drivaerml-surface": (50_000, None, 0.03),
    "drivaerml-volume": (19_000, None, 0.002),
}
"""Steps, steps of the cosine where others, subsampling: the paper's table of benchmarks."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_runs_are_the_papers(name: str) -> None:
    config = experiment(name)
    assert (config.steps, config.schedule, config.data.points) == PUBLISHED[name]
    assert config.model.size == PAPER and config.model.variant == "baseline"
    assert config.optim == OptimConfig(
        learning_rate=1e-3, warmup=0.01, weight_decay=5e-5, clip=5.0, loss="relative-l1"
    )
    assert 1 <= config.batch <= 5 and config.seed == 42
    assert config.steps % config.evaluate_every == 0


def test_every_benchmark_is_there_and_each_name_is_its_functions() -> None:
    assert set(BENCHMARKS) <= set(EXPERIMENTS)
    for name, function in EXPERIMENTS.items():
        assert function().experiment == name and function.__doc__
    with pytest.raises(ValueError, match="did you mean 'poisson'"):
        experiment("poison")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_preset_small_changes_what_is_the_papers_and_nothing_else(name: str) -> None:
    usual = experiment(name)
    made = small(usual, 300)
    if usual.model.size != PAPER:
        assert made == usual, "small already"
        return
    assert made.model.size == SMALL and made.precision == "fp32" and made.data.points == 300
    assert made.steps % made.evaluate_every == 0 and made.steps <= usual.steps
    if name in SMALL_DATA:
        assert made.data.builtin == SMALL_DATA[name], "its own data take a CPU hours"
    else:
        assert made.data.builtin == usual.data.builtin
    assert (made.experiment, made.seed, made.data.problem, made.model.variant) == (
        usual.experiment, usual.seed, usual.data.problem, usual.model.variant,
    )  # fmt: skip


def test_taylor_green_is_the_papers_where_that_is_stated() -> None:
    """26 states 0.08 s apart, all points of 32^3, hundreds of trajectories, pairs of 1 to 6."""
    data = experiment("builtin-taylor-green").data
    assert data.builtin is not None and data.points is None
    total = sum(data.builtin.samples.values())
    source = builtin_source("taylor-green", samples=total, points=data.builtin.points)
    assert isinstance(source, TaylorGreenSource) and total >= 300
    assert (source.config.stored, source.config.states, source.config.interval) == (32, 26, 0.08)
    assert source.pairs.lags == (1, 2, 3, 4, 5, 6)
    assert [one.name for one in source.pairs.parameters] == ["viscosity"]


def test_the_small_data_are_built_as_stated() -> None:
    for name, data in SMALL_DATA.items():
        problem = experiment(name).data.problem
        assert problem is not None
        config = builtin_config(problem, data.settings)
        assert builtin_source(problem, samples=1, points=data.points, config=config).ids()
