"""The estimate of a step's time leaves the training as it is. Its value is a time: not tested."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slipstream.runs.config import RunConfig
from slipstream.training import probe

from .small import trainer


def test_the_estimate_changes_no_random_number_and_no_weight(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    state = torch.get_rng_state()
    assert probe.step_seconds(made.config, made.store.schema, 64.0) > 0
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[name]) for name, p in made.model.named_parameters())


def test_a_long_step_is_estimated_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that takes a millisecond for each point stops the growth at 512 points."""
    made, now = trainer(tmp_path), [0.0]
    monkeypatch.setattr(probe.time, "perf_counter", lambda: now[0])
    draw = probe._random

    def slow(count: int, width: int, config: RunConfig) -> torch.Tensor:
        now[0] += count / 1000 / 2  # coords and features
        return draw(count, width, config)

    monkeypatch.setattr(probe, "_random", slow)
    assert made.store.schema.features
    assert probe.step_seconds(made.config, made.store.schema, 5120.0) == pytest.approx(5.12)


@pytest.mark.parametrize(("precision", "measured"), [("fp32", False), ("bf16", True)])
def test_fp32_is_tried_where_the_config_is_in_bf16(
    tmp_path: Path, precision: str, measured: bool
) -> None:
    made = trainer(tmp_path, precision=precision)
    seconds = probe.fp32_seconds(made.config, made.store.schema, 64.0)
    assert (seconds is not None) == measured
