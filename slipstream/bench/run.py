"""Runs measurements and writes records of them; only what passed the gate is timed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.bench.cases import Case
from slipstream.bench.measure import (
    allocated_gb,
    interleaved_ms,
    peak_gb,
    quantile,
    total_gb,
)
from slipstream.bench.modules import check
from slipstream.bench.subjects import Subject, make_step
from slipstream.bench.workers import describe_error, device_lost, run_tasks
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, device_name, package_version

WARMUP, FEWEST_REPEATS, BUDGET_S = 3, 5, 15.0
"""Long steps are repeated less often, so that a subject takes at most the budget in seconds."""
MEMORY_SHARE = 0.8
"""Subjects take turns if the sum of their peaks fits into this share of the memory.

The allocator's cache keeps the memory that each once had. If it did not fit, every turn would begin
with freeing the memory of the previous one.
"""


def run_cases(
    cases: Sequence[Case], subjects: tuple[Subject, ...], out: Path, *, command: str, repeats: int
) -> Iterator[dict[str, Any]]:
    """Measure every case, and yield its record when it is written.

    A separate process does the work, and is replaced if it dies.
    """
    common = {"commit": commit(), "peer": package_version("flashslice"), "command": command}
    work = partial(measure_case, subjects=subjects, repeats=repeats)
    for case, outcome in run_tasks([cases], work, workers=1, limit_s=600):
        fields = {
            "name": case.name, "case": asdict(case), "gate": None, "results": {}, "device": None,
            "error": outcome.error, "seconds": round(outcome.seconds, 1),
        }  # fmt: skip
        yield append_record(out, "bench", {**fields, **(outcome.result or {}), **common})


def succeeded(record: dict[str, Any]) -> bool:
    """Whether our kernels were timed, or ran out of memory, which the largest cases may."""
    ours = record["results"].get("fused", {})
    return "ms" in ours or bool(ours.get("out_of_memory"))


def measure_case(
    case: Case, *, subjects: tuple[Subject, ...], repeats: int, device: str = "cuda"
) -> dict[str, Any]:
    """The gate's verdict, and time and memory of every subject; ours only if the gate is green."""
    torch._dynamo.reset()  # only here: what is compiled from now on is timed below
    verdict = check(case, device)
    results: dict[str, dict[str, Any]] = {}
    steps: dict[str, Callable[[], Tensor]] = {}
    for subject in subjects:
        if subject == "fused" and not verdict.green:
            results[subject] = {"not_measured": "the gate is red"}
            continue
        results[subject], step = _prepare(case, subject, device)
        if step is not None:
            steps[subject] = step
        _free()
    _time(steps, results, repeats, device)
    return {
        "gate": verdict.as_json(), "results": results, "device": device_name(torch.device(device))
    }  # fmt: skip


def _prepare(
    case: Case, subject: Subject, device: str
) -> tuple[dict[str, Any], Callable[[], Tensor] | None]:
    """Build a subject, run it and measure its memory; its result and step, or why there is none.

    The memory is what it adds to that of the others, as if it were alone: one runs at a time.
    """
    before = allocated_gb(device)
    try:
        step = make_step(case, subject, device)
        for _ in range(2):
            step()
        memory = peak_gb(step, before, device)
        start = time.perf_counter()
        step()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        return {"out_of_memory": True}, None
    except Exception as raised:  # if one subject fails, the others are measured nevertheless
        if device_lost():
            raise
        return {"not_measured": describe_error(raised)}, None
    return {"peak_gb": memory, "step_s": time.perf_counter() - start}, step


def _time(
    steps: dict[str, Callable[[], Tensor]],
    results: dict[str, dict[str, Any]],
    repeats: int,
    device: str,
) -> None:
    """Add the times to the results; subjects take turns, or run one after the other."""
    peaks = sum(results[subject]["peak_gb"] for subject in steps)
    together = peaks <= MEMORY_SHARE * total_gb(device)
    for group in [dict(steps)] if together else [{s: step} for s, step in steps.items()]:
        slowest = max((results[subject]["step_s"] for subject in group), default=0.0)
        count = int(min(repeats, max(FEWEST_REPEATS, BUDGET_S / max(slowest, 1e-9))))
        times = interleaved_ms(dict(group), warmup=WARMUP, repeats=count, device=device)
        for subject, own in times.items():
            results[subject] |= {
                "ms": quantile(own, 0.5), "ms_20": quantile(own, 0.2),
                "ms_80": quantile(own, 0.8), "repeats": count,
                "in_turns_with": [other for other in group if other != subject],
            }  # fmt: skip
        _free()
    for subject in steps:
        del results[subject]["step_s"]


def _free() -> None:
    """Give unused memory back to the device, also after a subject ran out of it."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
