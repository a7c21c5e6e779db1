"""The tables of `slipstream plan` are what the records give, and its predictions hold on them."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slipstream.planning import Device, Workload, device_named, predict, streamed_bytes
from slipstream.planning.devices import TABLES
from slipstream.planning.predict import VALIDATION

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks/records"
SCRIPT = ROOT / "benchmarks/plan.py"
MEMORY, TIME = 0.10, 0.25

pytestmark = pytest.mark.skipif(
    not SCRIPT.is_file(), reason="the records are not installed with the package"
)


@cache
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def records(name: str) -> list[dict[str, Any]]:
    lines = (RECORDS / f"h200/{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def of(name: str) -> tuple[Device, list[Any], str]:
    """The device of a table, its rows, its kind."""
    kind, rows = script()["DEVICES"][name]
    device = device_named(name)
    return device, rows(), kind


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_the_tables_are_made_from_the_records(name: str) -> None:
    _, rows, kind = of(name)
    made = tomllib.loads(script()["table"](rows, kind))
    kept = tomllib.loads((TABLES / f"{name}.toml").read_text("utf-8"))
    assert kept["records"] == made["records"]
    assert kept["workspace"] == pytest.approx(made["workspace"], rel=5e-3)
    for part in ("transients", "rates"):
        assert kept[part] == pytest.approx(made[part], rel=5e-3, abs=1e-3)


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_every_row_is_met(name: str) -> None:
    """Memory within 10 % and time within 25 %, of all rows with a figure."""
    device, rows, _ = of(name)
    missed = []
    for row in rows:
        prediction = predict(row.work, device)
        missed += [row.name] if abs(prediction.bytes / row.bytes - 1) > MEMORY else []
        if row.seconds is not None:
            assert prediction.seconds is not None
            taken = prediction.seconds * device.cores  # rows of a CPU are seconds of its cores
            missed += [row.name] if abs(taken / row.seconds - 1) > TIME else []
    assert not missed
    assert len(rows) == (90 if name == "h200" else 10)


def test_a_step_that_was_out_of_memory_does_not_fit() -> None:
    full = [row for row in records("model") if "out_of_memory" in row["results"]["fused"]]
    cases = [(row["case"]["points"], row["case"]["compiled"]) for row in full]
    assert sorted(cases) == [(3 << 20, False), (3 << 20, True), (1 << 22, False), (1 << 22, True)]
    device = device_named("h200")
    for points, compiled in cases:
        work = Workload(points=points, compiled=compiled, trainer=False)
        assert predict(work, device).bytes > device.memory


def test_predictions_hold_without_the_row_that_is_asked_for() -> None:
    """The figures of the page are those of a fit without each row, and of groups of rows."""
    lines = script()["carried"](of("h200")[1])
    for name in ("h200", "cpu"):
        _, rows, kind = of(name)
        found = script()["judged"](rows, kind)
        lines += script()["summary"](found)
        assert max(abs(each.time_alone or 0) for each in found) < TIME
    told = (ROOT / "docs/plan.md").read_text("utf-8").splitlines()
    told_by = {line.split("|")[1]: line for line in told if line.startswith("|")}
    for line in lines:
        figures, on_the_page = (
            [float(number) for number in re.findall(r"[-+]?\d+\.\d", each)]
            for each in (line, told_by[line.split("|")[1]])
        )
        # digits of the last place differ between processors
        assert on_the_page == pytest.approx(figures, abs=0.15), "run python benchmarks/plan.py"


def test_the_trainer_takes_what_is_predicted() -> None:
    """Memory of all its rows, and time of those that were recorded; the others had a slow host."""
    device = device_named("h200")
    for row in records("trainer"):
        recorded = row.get("launches") == "CUDA graph"
        work = Workload(points=row["points"], compiled=row["compiled"], recorded=recorded)
        prediction = predict(work, device)
        peak = prediction.bytes - prediction.parts[VALIDATION]  # its step alone
        assert peak == pytest.approx(1e9 * row["peak_gb"], rel=MEMORY)
        assert prediction.seconds is not None
        if recorded:
            assert 1e3 * prediction.seconds == pytest.approx(row["trainer_ms"], rel=TIME)


def test_streams_take_what_is_predicted() -> None:
    device = device_named("h200")
    for row in records("streaming"):
        case, result = row["case"], row["result"]
        work = Workload(points=case["points"], training=False, trainer=False)
        peak = streamed_bytes(work, device, parked=case["place"] == "device")
        assert peak == pytest.approx(1e9 * result["peak_gb"], rel=MEMORY)
        if "one_pass" in result:
            one = predict(work, device).bytes
            assert one == pytest.approx(1e9 * result["one_pass"]["peak_gb"], rel=MEMORY)
