"""`slipstream bench forecast`: who trains on what, and the counts on known curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.bench import forecast as bench
from slipstream.core.records import read_records

from ..conftest import Command


def test_the_truth_has_the_samples_of_the_forecast_and_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SPLITS", {"train": 64, "val": 4, "test": 4})
    monkeypatch.setattr(bench, "SIZES", (4, 8, 16))
    first, second = bench.make_trials("charge", 2, tmp_path)
    seen = [set(trial.store.ids("train")) for trial in (first, second)]
    assert [len(one) for one in seen] == [16, 16] and not seen[0] & seen[1]
    for own, trial in zip(seen, (first, second), strict=True):
        assert len(trial.cells) == 3 * bench.ORDERS
        assert all(set(cell.config.data.train or ()) <= own for cell in trial.cells)
        assert sorted(trial.truth) == [32, 64]
        for samples, cells in trial.truth.items():
            for cell in cells:
                names = set(cell.config.data.train or ())
                assert own < names and len(names) == samples
                assert not names & {*trial.store.ids("val"), *trial.store.ids("test")}
    cells = bench.cells_of([first, second])
    assert len(cells) == 2 * 3 * bench.ORDERS + 2 + 2, "the truth of all samples is shared"
    assert len({cell.name for cell in cells}) == len(cells)
    with pytest.raises(ValueError, match="trials must be at most the 4 quarters"):
        bench.make_trials("charge", 5, tmp_path)


def test_known_curves(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.bench.forecast_curves.RESAMPLES", 2)
    out = tmp_path / "r.jsonl"
    said = command("bench", "forecast", "--known", 2, "--out", out)
    assert said.code == 0, said.err
    rows = read_records(out, "forecast-known")
    assert len(rows) == 7 * 2 * 2 and all(0 <= row["inside"] <= 2 for row in rows)
    assert sum(row["inside"] for row in rows) > 0.6 * sum(row["forecasts"] for row in rows)
    assert command("bench", "forecast", "--case", "flows").code == 2
