from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slipstream.core.records import append_record
from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.system_tables import read_bench, system_points, system_tables

RECORDS = Path(__file__).parents[3] / "benchmarks/records/h200"


def row(name: str, ms: float, theirs: float | None, green: bool = True, **case: Any) -> Any:
    usual = {
        "what": "layer", "points": 100, "slices": 32, "layers": 1, "training": False,
        "dtype": "bf16", "precision": "tf32",
    }  # fmt: skip
    results: dict[str, Any] = {"fused": {"ms": ms, "peak_gb": 1.0}}
    if theirs is not None:
        results["flashslice"] = {"ms": theirs, "peak_gb": 2.0}
    return {
        "name": name, "case": usual | case, "gate": {"green": green}, "results": results,
        "device": "a GPU",
    }  # fmt: skip


def test_ratios_are_theirs_over_ours() -> None:
    (table,) = system_tables([row("a", 2.0, 3.0), row("b", 2.0, None)])
    assert [[cell_text(cell) for cell in line] for line in table.rows] == [
        ["a", "2.00", "3.00", "1.50×", "not measured", "not measured", "1.00", "2.00"],
        ["b", "2.00", *["not measured"] * 4, "1.00", "not measured"],
    ]
    assert "a GPU" in table.caption and table.name == "systems-layer"


def test_eager_is_what_is_not_compiled_and_no_name_of_a_column() -> None:
    (table,) = system_tables([row("layer 262k inference eager", 2.0, 3.0)])
    assert not any("eager" in column for column in table.columns)
    assert "without kernels, ms" in table.columns
    assert "`eager` in the name of a case is not compiled" in table.caption
    eager = {"reference": {"ms": 4.0, "peak_gb": 8.0}}
    rows = [row(str(g), 1.0, 2.0, slices=g) for g in (16, 32)]
    rows = [{**each, "results": {**each["results"], **eager}} for each in rows]
    series = {point.series for point in system_points(rows)}
    assert series == {"slipstream", "flashslice", "without kernels"}


def test_only_what_passed_its_gate_counts_and_of_a_name_the_last(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    for made in (row("a", 1.0, 1.0), row("b", 1.0, 1.0, green=False), row("a", 3.0, 1.0)):
        append_record(file, "bench", made)
    append_record(file, "bench", {**row("c", 1, 1), "results": {}})
    append_record(file, "parity", {"name": "p"})
    (only,) = read_bench([file])
    assert only["name"] == "a" and only["results"]["fused"]["ms"] == 3.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 3}, "r.jsonl: name must be text, got 3"),
        ({"device": None}, "r.jsonl: device must be text, got None"),
        ({"case": {"what": "layer"}}, "r.jsonl, a: case must have the field points, got none"),
        ({"results": []}, "results must be a mapping, got []"),
        ({"results": {"fused": 3}}, "r.jsonl: results.fused must be a mapping, got 3"),
        ({"results": {"fused": {"ms": "x"}}}, "a: results.fused.ms must be a number"),
        ({"gate": "green"}, "gate must be a mapping, got 'green'"),
    ],
)
def test_a_damaged_record_is_named(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    append_record(tmp_path / "r.jsonl", "bench", {**row("a", 1.0, 2.0), **change})
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_bench([tmp_path / "r.jsonl"])


def test_a_file_without_timings_is_refused(tmp_path: Path) -> None:
    append_record(tmp_path / "r.jsonl", "parity", {"name": "p"})
    with pytest.raises(ValueError, match="must hold records of `slipstream bench model`, .* none"):
        read_bench([tmp_path / "r.jsonl"])


def test_points_where_cases_differ_in_one_thing() -> None:
    rows = [row(f"{g}", g / 10, g / 5, slices=g) for g in (16, 32)]
    rows.append(row("other", 9, 9, slices=64, points=7))
    found = [(p.series, p.at, p.value) for p in system_points(rows) if p.quantity == "time"]
    assert found == [
        ("slipstream", 16, 1.6), ("flashslice", 16, 3.2),
        ("slipstream", 32, 3.2), ("flashslice", 32, 6.4),
    ]  # fmt: skip
    (axis,) = {p.axis for p in system_points(rows)}
    assert axis == "slices G\none layer, inference, bf16/tf32, N = 100"


def test_every_axis_names_the_case_that_it_is_of() -> None:
    sized: dict[str, Any] = {"what": "model", "training": True, "slices": 64, "layers": 8}
    rows = [row(f"{n}", 1.0, 2.0, **sized, points=n) for n in (1000, 2000)]
    rows.append(row("deep", 1.0, 2.0, **{**sized, "layers": 16, "points": 1000}))
    assert [*dict.fromkeys(p.axis for p in system_points(rows))] == [
        "layers L\nmodel, training, bf16/tf32, G = 64, N = 1,000",
        "points N\nmodel, training, bf16/tf32, G = 64, L = 8",
    ]
    odd = {"compiled": True, "checkpointed": True, "heads": 1, "variant": "untied"}
    rows = [row(f"{n}", 1.0, 2.0, points=n, **odd) for n in (1000, 2000)]
    (axis,) = {p.axis for p in system_points(rows)}
    assert axis.split("\n")[1:] == [
        "one layer, inference, bf16/tf32, checkpointed,", "compiled, untied, G = 32, H = 1",
    ]  # fmt: skip


@pytest.mark.skipif(not RECORDS.is_dir(), reason="the records are not installed with the package")
def test_the_committed_records_can_be_read() -> None:
    rows = read_bench([RECORDS / "kernels.jsonl", RECORDS / "model.jsonl"])
    assert {table.name for table in system_tables(rows)} == {"systems-layer", "systems-model"}
    axes = {p.axis.split("\n")[0] for p in system_points(rows)}
    assert axes >= {"slices G", "points N"}
