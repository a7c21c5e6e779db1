"""Records of `bench cpu` as markdown."""

from __future__ import annotations

from typing import Any

from slipstream.bench.tables import one_line, provenance, table

Record = dict[str, Any]
OURS = "ours"
LEGEND = (
    "A cell holds seconds of CPU of one step, all threads together (seconds by the clock; peak GB"
    " above parameters and inputs), medians. The ratios of time are by seconds of CPU, and by the"
    " clock in brackets: above 1, ours is faster. The ratios of memory are below 1 where ours takes"
    " less. In compiled rows all subjects are compiled.\n"
)


def cpu_measurements(records: list[Record]) -> str:
    """A row for each case: seconds and memory of every subject, ratios to ours, and the gate."""
    others = other_subjects(records)
    head = ["case", OURS, *others]
    head += [f"time: {name} / ours" for name in others]
    head += [f"memory: ours / {name}" for name in others]
    rows = [cpu_measurement(record, others) for record in records]
    parts = [provenance(records), table([*head, "gate"], rows), LEGEND]
    return "\n".join([*parts, *(f"{line}\n" for line in _remarks(records))])


def other_subjects(records: list[Record]) -> list[str]:
    """All subjects but ours that occur in the records, in their order."""
    names = {name: None for record in records for name in record["results"]}
    return [name for name in names if name != OURS]


def cpu_measurement(record: Record, others: list[str]) -> list[str]:
    """The cells of one row."""
    results = record["results"]
    ours, theirs = results[OURS], [results.get(name, {}) for name in others]
    return [
        record["name"],
        *(_cell(result) for result in (ours, *theirs)),
        *(_time_ratio(result, ours) for result in theirs),
        *(_memory_ratio(ours, result) for result in theirs),
        _gate_cell(results),
    ]


def _cell(result: Record) -> str:
    if "cpu_s" not in result:
        return one_line(result.get("not_measured", ""))
    memory = "" if result["peak_gb"] is None else f"; {result['peak_gb']:.2f}"
    return f"{result['cpu_s']:.2f} ({result['wall_s']:.2f}{memory})"


def _time_ratio(theirs: Record, ours: Record) -> str:
    if "cpu_s" not in theirs or "cpu_s" not in ours:
        return ""
    cpu, wall = (theirs[field] / ours[field] for field in ("cpu_s", "wall_s"))
    return f"{cpu:.2f} ({wall:.2f})"


def _memory_ratio(ours: Record, theirs: Record) -> str:
    if "cpu_s" not in theirs or "cpu_s" not in ours:
        return ""
    if ours["peak_gb"] is None or not theirs["peak_gb"]:
        return ""
    return f"{ours['peak_gb'] / theirs['peak_gb']:.2f}"


def _gate_cell(results: dict[str, Record]) -> str:
    """For each subject its worst error over our reference's, and the largest that passes."""
    gates = {name: result["gate"] for name, result in results.items() if result["gate"]}
    return ", ".join(f"{name} {_gate_text(gate)}" for name, gate in gates.items())


def _gate_text(gate: Record) -> str:
    worst = "not finite" if gate["worst"] is None else f"{gate['worst']:.2f}x"
    if gate["green"]:
        return f"{worst} of {gate['limit']:.2f}x"
    if gate["passed"]:
        return "RED: two runs differ"
    return f"RED: {gate['tensor']} {worst}, at most {gate['limit']:.2f}x"


def _remarks(records: list[Record]) -> list[str]:
    """Sentences on versions and constants of peers, our kernels, and other busy programs."""
    lines = []
    versions = {name: version for record in records for name, version in record["peers"].items()}
    if versions:
        lines.append(
            "Peers: " + ", ".join(f"{n} {v or 'unknown'}" for n, v in versions.items()) + "."
        )
    plans = {r["results"][OURS]["gate"]["plan"] for r in records if r["results"][OURS]["gate"]}
    lines += [f"Ours runs the family {plan}." for plan in sorted(plans)]
    constants = {
        name: result["constants"]
        for record in records
        for name, result in record["results"].items()
        if "constants" in result
    }
    for name, differing in constants.items():
        values = ", ".join(f"{constant} {value}" for constant, value in differing.items())
        lines.append(f"{name} computes with {values}; it is compared with ours computed so.")
    busy = [r["busy_elsewhere"] for r in records if r["busy_elsewhere"] is not None]
    if busy:
        lines.append(f"Other programs had up to {max(busy):.1%} of the cores' time.")
    return lines
