"""Records of `bench streaming` as markdown."""

from __future__ import annotations

from typing import Any

from slipstream.bench.tables import one_line, provenance, table

Record = dict[str, Any]
HEAD = [
    "case", "chunk", "parked, GB", "peak above the model, GB", "CPU s", "wall s",
    "points per CPU s", "points per s", "gate", "one pass",
]  # fmt: skip


def measurements(records: list[Record]) -> str:
    """A row for each case."""
    return "\n".join([provenance(records), table(HEAD, [cells(record) for record in records])])


def cells(record: Record) -> list[str]:
    """The cells of one row."""
    result = record["result"]
    if result is None:
        return [record["name"], f"failed: {one_line(record['error'])}", *[""] * (len(HEAD) - 2)]
    peak = result["peak_gb"]
    return [
        record["name"],
        f"{result['chunk']:,}",
        f"{result['parked_gb']:.2f}" if result["place"] != "recompute" else "0",
        "not known" if peak is None else f"{peak:.3f}",
        f"{result['cpu_s']:.1f}",
        f"{result['wall_s']:.1f}",
        f"{result['points_per_cpu_second']:,.0f}",
        f"{result['points_per_second']:,.0f}",
        f"fp64 {record['gate']['ratios']['fp64']:.1e}",
        _one_pass(result.get("one_pass")),
    ]


def _one_pass(one: Record | None) -> str:
    if one is None:
        return ""
    return f"{one['wall_s']:.1f} s, {one['peak_gb']:.2f} GB, distance {one['distance']:.1e}"
