"""Time and memory of a step on a CPU, beside other people's Transolvers: cases and their records.

Subjects take turns step by step (A B C A B C ...), each in a process of its own on the same cores,
so that whatever else the machine does slows all alike.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from slipstream.bench.cases import Case
from slipstream.bench.cpu_gate import judge_subject, shape_of
from slipstream.bench.cpu_process import Seconds, SubjectFailed, SubjectProcess, keep_to
from slipstream.bench.cpu_subjects import SUBJECTS, Subject, is_on_path
from slipstream.bench.gate import Verdict
from slipstream.bench.measure import quantile
from slipstream.bench.workers import Outcome, run_tasks
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, package_version

K32, K131 = 1 << 15, 1 << 17
LAYER = Case(what="layer", points=K32, dtype="fp32", precision="ieee", layers=1)
MODEL = Case(what="model", points=K32, dtype="fp32", precision="ieee")
Judged = tuple[str, Case]
"""The name of a subject, and the shape at which the gate checks it."""


def cpu_cases() -> list[Case]:
    """One layer with few and with many slots and the whole model; then the same compiled.

    All are in fp32 with C = 256 and H = 8. In a compiled case every subject is compiled.
    """
    eager = [
        replace(LAYER, points=points, slices=slices, training=training)
        for points in (K32, K131)
        for slices in (32, 256)
        for training in (False, True)
    ]
    eager += [replace(MODEL, training=training) for training in (False, True)]
    return eager + [replace(case, compiled=True) for case in eager if case.points == K32]


def first_cores(count: int) -> tuple[int, ...]:
    """The first cores that this process may run on. Raises ValueError if there are fewer."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    allowed = allowed or list(range(os.cpu_count() or 1))
    if count > len(allowed):
        raise ValueError(f"cores must be at most {len(allowed)}, all that there are, got {count}")
    return tuple(allowed[:count])


def run_cpu_cases(
    cases: Sequence[Case],
    subjects: Sequence[Subject],
    out: Path,
    *,
    cores: tuple[int, ...],
    repeats: int,
    command: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """Check every subject, time those that pass, and yield the record of each case when written."""
    verdicts = judge_all(cases, subjects, cores)
    peers = {s.name: package_version(s.package) for s in subjects if s.package is not None}
    common = {
        "device": f"{cpu_model()}, {len(cores)} threads", "cores": list(cores),
        "commit": commit(), "peers": peers, "command": command,
    }  # fmt: skip
    for case in cases:
        start = time.perf_counter()
        present = [subject for subject in subjects if is_on_path(subject, case)]
        fields = {
            "name": case.name, "case": asdict(case),
            "absent": [s.name for s in subjects if s not in present],
            **measure_case(case, present, verdicts, cores=cores, repeats=repeats),
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
        yield append_record(out, command, {**fields, **common})


def judge_all(
    cases: Sequence[Case], subjects: Sequence[Subject], cores: tuple[int, ...]
) -> dict[Judged, Outcome]:
    """The gate's verdict on every subject at every shape, or why there is none.

    A separate process computes them and ends before anything is timed.
    """
    wanted = {
        (s.name, shape_of(case)): None for case in cases for s in subjects if is_on_path(s, case)
    }
    return dict(run_tasks([list(wanted)], partial(_judge, cores=cores), workers=1))


def measure_case(
    case: Case,
    subjects: Sequence[Subject],
    verdicts: Mapping[Judged, Outcome],
    *,
    cores: tuple[int, ...],
    repeats: int,
) -> dict[str, Any]:
    """Time and memory of every subject whose gate is green, and how busy others kept the cores."""
    results: dict[str, dict[str, Any]] = {}
    running: dict[str, SubjectProcess] = {}
    try:
        for subject in subjects:
            verdict = verdicts[subject.name, shape_of(case)]
            result = results[subject.name] = _gate_fields(verdict)
            if constants := subject.constants():
                result["constants"] = constants
            if "not_measured" in result:
                continue
            try:
                process = running[subject.name] = SubjectProcess(subject, case, cores)
            except SubjectFailed as failure:
                result["not_measured"] = str(failure)
                continue
            peak = process.peak_bytes
            result["peak_gb"] = None if peak is None else peak / 1e9
        times, busy_elsewhere = _take_turns(running, cores, repeats)
    finally:
        for process in running.values():
            process.stop()
    for name, steps in times.items():
        results[name] |= {"not_measured": steps} if isinstance(steps, str) else _summary(steps)
    return {"results": results, "busy_elsewhere": busy_elsewhere}


def succeeded(record: dict[str, Any]) -> bool:
    """Whether every subject on the path passed the gate and was timed."""
    return all("cpu_s" in result for result in record["results"].values())


def cpu_model() -> str:
    """The name of the CPU by the operating system, or else its architecture."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return f"{platform.machine()} CPU"


def _judge(judged: Judged, *, cores: tuple[int, ...]) -> Verdict:
    keep_to(cores)
    name, shape = judged
    return judge_subject(SUBJECTS[name], shape)


def _gate_fields(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        return {"gate": None, "not_measured": outcome.error}
    red = {} if outcome.result.green else {"not_measured": "the gate is red"}
    return {"gate": outcome.result.as_json(), **red}


def _take_turns(
    running: Mapping[str, SubjectProcess], cores: tuple[int, ...], repeats: int
) -> tuple[dict[str, list[Seconds] | str], float | None]:
    """The steps of every subject, or why it has none, and the share of the cores' time that other
    programs had. A subject that fails takes no further turns."""
    times: dict[str, list[Seconds]] = {name: [] for name in running}
    failures: dict[str, str] = {}
    start, busy = time.perf_counter(), _busy_seconds(cores)
    for _ in range(repeats):
        for name, process in running.items():
            if name in failures:
                continue
            try:
                times[name].append(process.step())
            except SubjectFailed as failure:
                failures[name] = str(failure)
    wall, busy_after = time.perf_counter() - start, _busy_seconds(cores)
    share = None
    if busy is not None and busy_after is not None and not failures and running:
        ours = sum(step.cpu for steps in times.values() for step in steps)
        share = round(max(busy_after - busy - ours, 0.0) / (wall * len(cores)), 3)
    return {**times, **failures}, share


def _busy_seconds(cores: tuple[int, ...]) -> float | None:
    """Seconds that these cores were busy since the machine started; None if it is not Linux."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    ticks = 0
    for line in stat.read_text().splitlines():
        name, *counts = line.split()
        if name in {f"cpu{core}" for core in cores}:
            user, nice, system, _idle, _waiting, *interrupts_and_stolen = map(int, counts[:8])
            ticks += user + nice + system + sum(interrupts_and_stolen)
    return ticks / os.sysconf("SC_CLK_TCK")


def _summary(steps: list[Seconds]) -> dict[str, Any]:
    """Medians, the quantiles around them, and every step."""
    fields: dict[str, Any] = {"repeats": len(steps)}
    for name, values in (("cpu_s", [s.cpu for s in steps]), ("wall_s", [s.wall for s in steps])):
        fields |= {
            name: quantile(values, 0.5), f"{name}_20": quantile(values, 0.2),
            f"{name}_80": quantile(values, 0.8), f"{name}_all": [round(v, 4) for v in values],
        }  # fmt: skip
    return fields
