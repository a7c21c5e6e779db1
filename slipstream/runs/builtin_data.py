"""The built-in data that a run makes, from its config."""

from __future__ import annotations

from slipstream.data.store import Source
from slipstream.physics.builtin import builtin_config, builtin_source
from slipstream.runs.config import DataConfig


def source_of(data: DataConfig) -> Source:
    """What makes or made the samples; the config must be of built-in data."""
    builtin, problem = data.builtin, data.problem
    assert builtin is not None and problem is not None
    return builtin_source(
        problem,
        samples=sum(builtin.samples.values()),
        points=builtin.points,
        seed=builtin.seed,
        config=builtin_config(problem, builtin.settings),
    )
