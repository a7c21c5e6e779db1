"""Steps of other people's Transolvers before and after `slipstream.accelerate`, on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstream.bench.cases import Case
from slipstream.bench.cpu import LAYER, MODEL, run_cpu_cases
from slipstream.bench.cpu_subjects import ACCELERATED, PEERS, Subject, is_on_path
from slipstream.bench.tables import one_line, provenance, table

COMMAND = "accelerate"
Record = dict[str, Any]


def accelerate_cases(points: int, layers: int) -> list[Case]:
    """A training step of one layer and of a model with few and with many slices, in fp32."""
    return [
        replace(case, points=points, slices=slices, layers=layers if case.what == "model" else 1)
        for case in (LAYER, MODEL)
        for slices in (32, 256)
    ]


def pairs() -> list[Subject]:
    """Every peer that is on the path, and after it the same accelerated.

    Raises ValueError where there is none.
    """
    found = [
        subject
        for both in zip(PEERS, ACCELERATED, strict=True)
        for subject in both
        if is_on_path(subject, LAYER) or is_on_path(subject, MODEL)
    ]
    if not found:
        names = ", ".join(peer.name for peer in PEERS)
        raise ValueError(f"bench accelerate needs {names} on the path: docs/kernels.md says how")
    return found


def run_accelerate(
    cases: Sequence[Case], out: Path, *, cores: tuple[int, ...], repeats: int
) -> Iterator[Record]:
    """Check and time all pairs, and yield the record of each case when it is written."""
    return run_cpu_cases(cases, pairs(), out, cores=cores, repeats=repeats, command=COMMAND)


def accelerate_table(records: list[Record]) -> str:
    """A row for each case and peer: seconds and memory before and after, and their ratios."""
    rows = [
        [record["name"], peer.name, *_cells(results[peer.name], results[after.name])]
        for record in records
        for peer, after in zip(PEERS, ACCELERATED, strict=True)
        if {peer.name, after.name} <= (results := record["results"]).keys()
    ]
    head = ["case", "peer", "before: CPU s (GB)", "after: CPU s (GB)", "time before / after"]
    return "\n".join([provenance(records), table([*head, "memory after / before"], rows)])


def _cells(before: Record, after: Record) -> list[str]:
    cells = [_cell(before), _cell(after)]
    if "cpu_s" not in before or "cpu_s" not in after:
        return [*cells, "", ""]
    memory = ""
    if before["peak_gb"] and after["peak_gb"]:
        memory = f"{after['peak_gb'] / before['peak_gb']:.2f}"
    return [*cells, f"{before['cpu_s'] / after['cpu_s']:.2f}", memory]


def _cell(result: Record) -> str:
    if "cpu_s" not in result:
        return one_line(result.get("not_measured", ""))
    memory = "" if result["peak_gb"] is None else f" ({result['peak_gb']:.2f})"
    return f"{result['cpu_s']:.2f}{memory}"
