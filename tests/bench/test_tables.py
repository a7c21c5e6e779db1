"""Markdown from records made by hand."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from slipstream.bench import tables
from slipstream.bench.cases import BF16, LAYER, Case

COMMON = {
    "device": "NVIDIA H200", "commit": "abc1234", "time": "2026-11-15T09:35:06+00:00",
    "versions": {"torch": "2.11.0"}, "error": None, "peer": "0.3.0",
}  # fmt: skip
GATE = {"green": True, "worst": 1.0, "limit": 2.0, "tensor": "output", "deterministic": True}


def took(ms: float, gb: float) -> dict[str, float]:
    return {"ms": ms, "peak_gb": gb}


def measured(case: Case, gate: dict[str, Any] = GATE, **results: Any) -> dict[str, Any]:
    return {"name": case.name, "case": asdict(case), "gate": gate, "results": results, **COMMON}


def judged(name: str, **changes: Any) -> dict[str, Any]:
    case = {"dtype": "fp32", "precision": "ieee"}
    base = {
        "name": name, "family": "blocked", "case": case, "green": True, "deterministic": True,
        "tensor": "out", "worst": 0.5, "limit": 1.25,
    }  # fmt: skip
    return {**base, **COMMON, **changes}


def test_a_measurement_in_the_papers_form() -> None:
    record = measured(BF16, reference=took(3, 4), fused=took(2, 1), flashslice=took(2.5, 2))
    text = tables.measurements([record])
    assert text.startswith(
        "NVIDIA H200; torch 2.11.0, flashslice 0.3.0; commit abc1234; 2026-11-15.\n"
    )
    assert text.splitlines()[-1] == (
        f"| {BF16.name} | 3.00 (4.00) | 2.00 (1.00) | 2.50 (2.00) | 1.50x | 75 % | 1.25 | 0.50 |"
        " 1.00x of 2.00x |"
    )


def test_what_could_not_be_measured_is_said() -> None:
    row = tables.measurement(
        measured(BF16, reference={"out_of_memory": True}, fused=took(2, 1),
                 flashslice={"not_measured": "ValueError: no\n| such variant"})
    )  # fmt: skip
    assert row[1:6] == ["out of memory", "2.00 (1.00)", "ValueError: no / such variant", "", ""]
    red = {**GATE, "green": False, "worst": None}
    row = tables.measurement(measured(BF16, red, fused={"not_measured": "the gate is red"}))
    assert row[2] == "the gate is red" and row[-1] == "RED: output not finite, at most 2.00x"
    twice = {**GATE, "green": False, "deterministic": False}
    assert tables.measurement(measured(BF16, twice))[-1] == "RED: two runs differ"
    died = {**measured(BF16), "gate": None, "error": "its process died", "device": None}
    assert tables.measurement(died)[2] == "failed: its process died"
    assert len(tables.measurement(died)) == len(row)
    assert tables.measurements([died]).startswith("Unknown device;")


def test_flat_memory() -> None:
    def rows(case: Case, peaks: dict[int, float]) -> list[dict[str, Any]]:
        return [measured(replace(case, slices=g), fused=took(1, gb)) for g, gb in peaks.items()]

    model = rows(BF16, {16: 10.0, 32: 10.05, 128: 10.09})
    layer = rows(LAYER, {48: 2.0, 256: 2.1, 1024: 2.2})
    inference = rows(replace(LAYER, training=False), {48: 1.0, 256: 5.0, 1024: 9.0})
    flat, steep = tables.flatness([*model, *layer, *inference, *rows(BF16, {64: 10.0})[:0]])
    assert flat == (
        "Memory of a model in bf16/bf16, G = 16 to 128: largest over smallest 1.0090, at most 1.01:"
        " flat."
    )
    assert steep.endswith("G = 48 to 1024: largest over smallest 1.1000, at most 1.05: NOT FLAT.")
    assert flat in tables.measurements(model) and tables.flatness(model[:2]) == []


def test_parity_counts_by_what_was_checked() -> None:
    records = [
        judged("operator blocked G=8"),
        judged("operator blocked G=9", worst=1.0),
        judged("operator blocked G=10", green=False, worst=None),
        judged("operator blocked G=11", green=False, error="boom\nbang", tensor=None),
        judged("operator blocked G=12", green=False, worst=3.0, deterministic=False),
        judged(
            "special strided", family="special", worst=0.0, limit=0.0,
            case={"dtype": "fp32", "precision": "ieee", "check": "strided"},
        ),
    ]  # fmt: skip
    text = tables.parity(records)
    assert "3 of 6 green." in text
    assert (
        "| blocked | fp32 | ieee | 2 of 5 | 3 of 5 | not finite | 1.25 | blocked G=10: out |"
        in text
    )
    assert (
        "| special: strided | fp32 | ieee | 1 of 1 | 1 of 1 | 0 | 0 | special strided: out |"
        in text
    )
    assert "* operator blocked G=10: out is not finite\n" in text
    assert "* operator blocked G=11: boom bang\n" in text
    assert "* operator blocked G=12: out 3, at most 1.25; two runs differ\n" in text


def test_the_last_record_of_a_name_counts() -> None:
    old, new, other = judged("a", worst=1.0), judged("a", worst=2.0), judged("b")
    assert tables.latest([old, other, new]) == [new, other]
    assert tables.provenance([]) == "No records.\n"
