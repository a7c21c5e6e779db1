from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from slipstream.bench.overhead import Overhead, measure_overhead
from slipstream.cli import bench_training as training_commands
from slipstream.cli.bench import app
from slipstream.cli.bench_training import STEP_POINTS
from slipstream.core.records import read_records
from slipstream.models.variants import Size

from ..conftest import Command

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_the_overhead_of_the_trainer(tmp_path: Path) -> None:
    wanted = Overhead(
        points=64, dtype="fp32", dots="ieee", workers=0, impl="reference",
        size=Size(layers=1, width=8, heads=2, slices=3),
    )  # fmt: skip
    found = measure_overhead(wanted, tmp_path, device="cpu", block=10, blocks=2)
    assert len(found["times"]["trainer"]) == len(found["times"]["bare"]) == 2
    assert found["ratio"] == pytest.approx(found["trainer_ms"] / found["bare_ms"])
    assert found["records"] == 3 and "reference" in found["kernels"]


def test_bench_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "slipstream.cli.bench_training.PAPER", Size(layers=1, width=8, heads=2, slices=3)
    )
    out = tmp_path / "r.jsonl"
    given = ["resume", "--kills", "1", "--steps", "60", "--points", "32", "--out", str(out)]
    done = CliRunner().invoke(app, [*given, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    (record,) = read_records(out, "resume")
    assert record["equal"] and record["kills"] == 1 and len(record["steps"]) == 1
    assert record["config"]["precision"] == "bf16" and [p.name for p in tmp_path.iterdir()] == [
        out.name
    ]


@pytest.mark.parametrize(
    ("arguments", "points"), [((), STEP_POINTS[DEVICE]), (("--points", "77"), 77)]
)
def test_a_step_is_no_larger_than_the_machine_takes(
    arguments: tuple[str, ...], points: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    command: Command,
) -> None:  # fmt: skip
    asked: list[Overhead] = []

    def measure(wanted: Overhead, folder: Path, *, device: str) -> dict[str, float]:
        asked.append(wanted)
        return {"trainer_ms": 1.0, "bare_ms": 1.0, "ratio": 1.0}

    monkeypatch.setattr(training_commands, "measure_overhead", measure)
    assert command("bench", "trainer", "--out", str(tmp_path / "t.jsonl"), *arguments).code == 0
    assert [one.points for one in asked] == [points] and STEP_POINTS["cpu"] == 4096
