"""Draws from a store are measured, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from slipstream.cli.bench import app
from slipstream.core.records import read_records


def test_bench_data(tmp_path: Path) -> None:
    out = tmp_path / "o" / "data.jsonl"
    arguments = ["data", "--rows", "5000", "--points", "100", "--repeats", "2", "--out", str(out)]
    done = CliRunner().invoke(app, [*arguments, "--mesh-points", "9000"])
    assert done.exit_code == 0, done.output
    (record,) = read_records(out)
    assert record["rows"] == 5000 and record["bytes"] > 40 * 5000
    assert min(record[f"{way}_ms"] for way in ("window", "exact", "whole")) > 0
    assert [row["workers"] for row in record["loaders"]] == [0, 1, 2]
    mesh = record["mesh"]
    assert mesh["points"] == 21**3 and mesh["cells"] == 20**3
    assert mesh["read_bytes"] == 21**3 * 7 * 4 < mesh["uncompressed_bytes"]
    assert 1e7 < mesh["start_bytes"] < mesh["peak_bytes"] and mesh["points_per_second"] > 0
    text = out.with_suffix(".md").read_text()
    assert "One draw of 100 of 5,000 rows" in text and "9,261 points and 8,000 cells" in text
    assert sorted(path.name for path in out.parent.iterdir()) == ["data.jsonl", "data.md"]


def test_more_points_than_rows(tmp_path: Path) -> None:
    arguments = ["data", "--rows", "5", "--points", "6", "--out", str(tmp_path / "d.jsonl")]
    with pytest.raises(ValueError, match="points must be at most the 5 rows of sample 0, got 6"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not list(tmp_path.iterdir())
