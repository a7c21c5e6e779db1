from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.bench import kills
from slipstream.bench.kills import kill_and_compare
from slipstream.runs.folder import RunFolder

from .small import small

LONG = {"steps": 120, "log_every": 1, "evaluate_every": 10, "checkpoint_every": 4}


def test_a_run_killed_twice_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Few times here: tests/interrupted kills commands at more moments, by more signals."""
    config = small(**LONG, keep=1, optim__learning_rate=0.01)
    report = kill_and_compare(config, tmp_path, kills=2, seed=1)
    assert report.different == () and report.kills == 2
    assert len(set(report.steps)) > 1, "kills at different moments"
    assert any(a > b for a, b in zip(report.steps, report.resumed_from, strict=True))
    assert not list((tmp_path / "broken").rglob("*.partial"))


def test_three_processes_that_share_a_sample_too(tmp_path: Path) -> None:
    """One is killed; the others end by themselves. The order of a sum of three depends on where it
    is added up, which must be the same in a process that goes on from a checkpoint."""
    config = small(steps=40, log_every=1, evaluate_every=10, checkpoint_every=4, keep=1,
                   data__points=16, mesh__points=3)  # fmt: skip
    report = kill_and_compare(config, tmp_path, kills=1, seed=5, processes=3, most=12)
    assert report.different == () and len(report.seconds) == 1 and report.resumed_from > (0,)
    (start, *_) = RunFolder(tmp_path / "broken").history("start")
    assert (start["processes"], start["mesh"]) == (3, {"data": 1, "points": 3})


def test_it_notices_a_run_that_is_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison itself, on two runs of different seeds."""
    configs = iter([small(steps=4), small(steps=4, seed=1)])
    finish = kills.finish_run
    monkeypatch.setattr(kills, "finish_run", lambda config, *rest: finish(next(configs), *rest))
    report = kill_and_compare(small(steps=4), tmp_path, kills=0, seed=0)
    assert "model.head.weight" in report.different and "head.weight" in report.different
    assert "the best validation" in report.different


def test_a_run_too_short_to_be_killed_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must outlast 1 kills"):
        kill_and_compare(small(steps=2), tmp_path, kills=1, seed=0, most=500)
