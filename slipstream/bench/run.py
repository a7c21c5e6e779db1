"""Runs cases and writes records: correctness first, speed only behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from slipstream.bench.cases import Case
from slipstream.bench.gate import Verdict, check
from slipstream.bench.measure import peak_gb, times_ms
from slipstream.bench.subjects import Subject, make_step
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, device_name, package_version


def run_cases(
    cases: Iterable[Case], subjects: tuple[Subject, ...], out: Path
) -> Iterator[dict[str, Any]]:
    """Measure every case for every subject in turn; one record a case, yielded as it is written."""
    verdicts: dict[tuple[str, str, int], Verdict] = {}
    for case in cases:
        key = (case.dtype, case.precision, case.slices)
        if key not in verdicts:
            verdicts[key] = check(case)
        verdict = verdicts[key]
        found: dict[str, Any] = {}
        for subject in subjects:
            if subject == "fused" and not verdict.green:
                continue
            found[subject] = measure(case, subject)
        fields = {
            "case": asdict(case), "name": case.name, "gate": asdict(verdict), "results": found,
            "device": device_name(torch.device("cuda")), "commit": commit(),
            "peer": package_version("flashslice"),
        }  # fmt: skip
        yield append_record(out, "bench", fields)


def measure(case: Case, subject: Subject, repeats: int = 10) -> dict[str, Any]:
    """Median and quantiles in ms and peak memory in GB, or {"out_of_memory": true}."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    try:
        step = make_step(case, subject)
        step()
        times = sorted(times_ms(step, repeats=repeats))
        memory = peak_gb(step)
    except torch.OutOfMemoryError:
        return {"out_of_memory": True}
    fifth = repeats // 5
    return {
        "ms": times[repeats // 2], "ms_20": times[fifth], "ms_80": times[-1 - fifth],
        "peak_gb": memory,
    }  # fmt: skip


def as_markdown(records: list[dict[str, Any]]) -> str:
    """The table of a set of records: time and memory of each subject, ratios of the peer to us."""
    subjects = list(records[0]["results"]) if records else []
    head = ["case", *(f"{s} ms (GB)" for s in subjects), "gate"]
    if "flashslice" in subjects:
        head += ["flashslice / fused, time", "fused / flashslice, memory"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for record in records:
        results, gate = record["results"], record["gate"]
        cells = [record["name"], *(_cell(results.get(s)) for s in subjects)]
        cells.append(f"{gate['worst']:.2f}x" + ("" if gate["passed"] else " FAILED"))
        ours, peer = results.get("fused"), results.get("flashslice")
        if ours and peer and "ms" in ours and "ms" in peer:
            cells.append(f"{peer['ms'] / ours['ms']:.2f}")
            cells.append(f"{ours['peak_gb'] / peer['peak_gb']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return "not measured"
    if "ms" not in result:
        return "out of memory"
    return f"{result['ms']:.2f} ({result['peak_gb']:.2f})"
