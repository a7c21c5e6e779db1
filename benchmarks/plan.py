"""The tables of `slipstream plan`, fitted to the records; and how good the predictions are.

    python benchmarks/plan.py          print the errors of every row, and the table of docs/plan.md
    python benchmarks/plan.py write    write slipstream/planning/tables/h200.toml and cpu.toml

A step's time is a sum of counted amounts over rates, or the host's where that is longer; its peak
is what is counted, and a fitted number of bytes of a point and channel. Coefficients are those that
make the relative errors of all rows least, drawn to first guesses where few rows tell: rates by
Gauss-Newton on their logarithms, bytes by linear least squares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.models.variants import Size
from slipstream.planning.outside import way_of
from slipstream.planning.predict import (
    amounts,
    counted_memory,
    transient_name,
    transient_unit,
)
from slipstream.planning.workload import Kind, Workload

Array = NDArray[np.float64]
RECORDS = Path(__file__).parent / "records"
TABLES = Path(__file__).parents[1] / "slipstream/planning/tables"
NOISE, SPREAD = 0.05, 0.7
"""Relative error of a row, and of the logarithm of a first guess where nothing better is known."""
GUESSES: dict[Kind, dict[str, tuple[float, float]]] = {
    "cuda": {
        "linear bf16": (650e12, 0.15), "linear fp32": (52e12, 0.3),
        "slices bf16": (150e12, SPREAD), "slices bf16v": (80e12, SPREAD),
        "slices tf32": (60e12, SPREAD), "slices ieee": (40e12, SPREAD),
        "slices tf32x3": (40e12, SPREAD),
        "bytes eager": (4.4e12, 0.3), "bytes compiled": (4.4e12, 0.3),
        "calls": (125e3, SPREAD), "host calls": (17e3, SPREAD),
    },
    "cpu": {
        "linear": (60e9, 0.5), "slices": (70e9, 0.5), "bytes": (8e9, 0.5), "calls": (50e3, 0.5),
    },
}  # fmt: skip
"""Amounts a second, and how far off the logarithm of the guess may be: a GPU's products and
bandwidth are no faster than its data sheet says."""
TRANSIENT, WORKSPACE = (8.0, 6.0), (50e6, 50e6)
"""First guesses of bytes of a point and channel, and of bytes, with how far off they may be."""


@dataclass(frozen=True)
class Row:
    """A record: what was measured of which step."""

    kind: str
    name: str
    work: Workload
    bytes: float | None
    seconds: float | None


def h200_rows() -> list[Row]:
    """Full models and layers. The rows of memory-beside.jsonl have no times."""
    rows = []
    for file in ("model", "memory", "memory-beside", "kernels"):
        for record in _read(RECORDS / f"h200/{file}.jsonl"):
            result, beside = record["results"]["fused"], file == "memory-beside"
            if "peak_gb" in result:
                rows.append(_row(file, record, result["peak_gb"], result["ms"] / 1e3, beside))
    return rows


def cpu_rows() -> list[Row]:
    """Models and layers; seconds of CPU, all cores together."""
    return [
        _row(
            "cpu", record, record["results"]["ours"]["peak_gb"], record["results"]["ours"]["cpu_s"]
        )
        for record in _read(RECORDS / "cpu/cpu.jsonl")
    ]


def _row(
    file: str, record: dict[str, Any], peak_gb: float, seconds: float, untimed: bool = False
) -> Row:
    case = record["case"]
    work = Workload(
        points=case["points"],
        size=Size(layers=case["layers"], slices=case["slices"], heads=case["heads"]),
        variant=case["variant"],
        precision=case["dtype"],
        dots=case["precision"],
        memory="recompute" if case["checkpointed"] else "lean" if case.get("lean") else "normal",
        compiled=case["compiled"],
        training=case["training"],
        trainer=False,
        layer_only=case["what"] == "layer",
    )
    when = None if untimed else seconds
    return Row(file, record["name"], work, 1e9 * peak_gb, when)


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]


# --- fitting -----------------------------------------------------------------------------------


def fit_rates(rows: list[Row], kind: Kind) -> dict[str, float]:
    """Amounts a second."""
    timed = [row for row in rows if row.seconds is not None]
    names = list(GUESSES[kind])
    device, host = (
        np.array([[part(row)[name] for name in names] for row in timed])
        for part in (_amounts(kind, names, 0), _amounts(kind, names, 1))
    )
    measured = np.log([row.seconds for row in timed])
    guess = np.array([-np.log(GUESSES[kind][name][0]) for name in names])
    spread = np.array([GUESSES[kind][name][1] for name in names])

    def errors(logs: Array) -> Array:
        taken = np.maximum(device @ np.exp(logs), host @ np.exp(logs))
        return np.concatenate([(np.log(taken) - measured) / NOISE, (logs - guess) / spread])

    logs = _least(errors, guess)
    return {name: float(np.exp(-log)) for name, log in zip(names, logs, strict=True)}


def _amounts(kind: Kind, names: list[str], which: int) -> Any:
    def of(row: Row) -> dict[str, float]:
        return dict.fromkeys(names, 0.0) | _counted(row.work, kind)[which]

    return of


_counted, _counted_memory = cache(amounts), cache(counted_memory)


def _least(errors: Any, start: Array) -> Array:
    """Where the sum of squares is least: Gauss-Newton with damping (Levenberg and Marquardt)."""
    logs, damping, step = start.copy(), 1e-3, 1e-5
    now = errors(logs)
    for _ in range(60):
        columns = [(errors(logs + step * axis) - now) / step for axis in np.eye(len(logs))]
        slope = np.stack(columns, 1)
        square = slope.T @ slope
        square[np.diag_indices_from(square)] *= 1 + damping
        tried = logs - np.linalg.solve(square, slope.T @ now)
        new = errors(tried)
        if new @ new >= now @ now:
            damping *= 4
            continue
        gained = 1 - (new @ new) / (now @ now)
        logs, now, damping = tried, new, damping / 3
        if gained < 1e-10:
            break
    return logs


def fit_memory(rows: list[Row], kind: Kind, names: list[str]) -> tuple[dict[str, float], float]:
    """Bytes of a point and channel by the name of the way, and bytes of the workspace."""
    weights = np.array([1 / (NOISE * (row.bytes or 1)) for row in rows])
    columns = np.zeros((len(rows), len(names) + 1))
    for index, row in enumerate(rows):
        columns[index, names.index(transient_name(row.work, kind))] = transient_unit(row.work, kind)
    columns[:, -1] = 1
    rest = np.array([(row.bytes or 0) - _counted_memory(row.work, kind) for row in rows])
    guess = np.array([TRANSIENT[0]] * len(names) + [WORKSPACE[0]])
    spread = np.array([TRANSIENT[1]] * len(names) + [WORKSPACE[1]])
    left = np.concatenate([columns * weights[:, None], np.diag(1 / spread)])
    right = np.concatenate([rest * weights, guess / spread])
    found = np.linalg.lstsq(left, right, rcond=None)[0]
    return dict(zip(names, map(float, found), strict=False)), float(found[-1])


def names_of(rows: list[Row], kind: Kind) -> list[str]:
    return sorted({transient_name(row.work, kind) for row in rows})


# --- what the predictions are worth ------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """Relative errors of a row: of the table, and of one that was fitted without the row."""

    row: Row
    memory: float
    memory_alone: float
    time: float | None
    time_alone: float | None


def judged(rows: list[Row], kind: Kind) -> list[Judged]:
    names = names_of(rows, kind)
    all_of_it = fit_rates(rows, kind), fit_memory(rows, kind, names)
    found = []
    for row in rows:
        others = [other for other in rows if other is not row]
        without = fit_rates(others, kind), fit_memory(others, kind, names)
        (memory, time), (memory_alone, time_alone) = (
            _errors(row, kind, *fitted) for fitted in (all_of_it, without)
        )
        found.append(Judged(row, memory, memory_alone, time, time_alone))
    return found


def _errors(
    row: Row, kind: Kind, rates: dict[str, float], memory: tuple[dict[str, float], float]
) -> tuple[float, float | None]:
    transients, workspace = memory
    peak = counted_memory(row.work, kind) + workspace
    peak += transients[transient_name(row.work, kind)] * transient_unit(row.work, kind)
    of_bytes = peak / (row.bytes or 1) - 1
    if row.seconds is None:
        return of_bytes, None
    parts = amounts(row.work, kind)
    taken = max(sum(amount / rates[name] for name, amount in part.items()) for part in parts)
    return of_bytes, taken / row.seconds - 1


APART: dict[str, Callable[[Row], bool]] = {
    "1M points and more, from 262k": lambda row: row.work.rows > 300_000,
    "32 and 48 layers, from 8 and 1": lambda row: row.work.size.layers > 8,
    "512 and 1024 slices, from 256 and fewer": lambda row: row.work.size.slices >= 512,
    "all other variants, from the baseline": lambda row: row.work.variant != "baseline",
    "compiled, from eager": lambda row: row.work.compiled,
    "full models, from single layers": lambda row: not row.work.layer_only,
}
"""Rows of the H200 that are predicted from all the others: how far the model carries."""


def carried(rows: list[Row]) -> list[str]:
    """The second table of docs/plan.md: rows that are left out together."""
    lines = ["| predicted | rows | memory: worst, median | time: worst, median |"]
    lines.append("|---|---:|---:|---:|")
    names = names_of(rows, "cuda")
    for title, is_apart in APART.items():
        known, asked = [r for r in rows if not is_apart(r)], [r for r in rows if is_apart(r)]
        fitted = fit_rates(known, "cuda"), fit_memory(known, "cuda", names)
        errors = [_errors(row, "cuda", *fitted) for row in asked]
        of_memory, of_time = (worst([each[column] for each in errors]) for column in (0, 1))
        lines.append(f"| {title} | {len(asked)} | {of_memory} | {of_time} |")
    return lines


def summary(found: list[Judged]) -> list[str]:
    """The table of docs/plan.md: of each file the worst row and the median, in per cent."""
    lines = [
        "| rows of | | memory: worst, median | without the row | time: worst, median | without the"
        " row |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind in dict.fromkeys(each.row.kind for each in found):
        own = [each for each in found if each.row.kind == kind]
        cells = [f"{kind}.jsonl", str(len(own))]
        cells += [worst([e.memory for e in own]), worst([e.memory_alone for e in own])]
        cells += [worst([e.time for e in own]), worst([e.time_alone for e in own])]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def worst(errors: Sequence[float | None]) -> str:
    """The largest of them with its sign, and the median of their sizes."""
    known = [error for error in errors if error is not None]
    if not known:
        return "not timed"
    return f"{100 * max(known, key=abs):+.1f}, {100 * float(np.median(np.abs(known))):.1f}"


# --- tables ------------------------------------------------------------------------------------


def table(rows: list[Row], kind: Kind) -> str:
    """The TOML of a device."""
    names = names_of(rows, kind)
    transients, workspace = fit_memory(rows, kind, names)
    lines = [
        "# Fitted to benchmarks/records by `python benchmarks/plan.py write`.",
        "# workspace: bytes; transients: bytes of a point and channel; rates: amounts a second",
        "# (operations, bytes, kernels), of a CPU those of one core.",
        "",
        f"workspace = {workspace:.4g}",
        "",
        "[transients]",
        *(f'"{name}" = {value:.4g}' for name, value in transients.items()),
        "",
        "[rates]",
        *(f'"{name}" = {value:.4g}' for name, value in fit_rates(rows, kind).items()),
        "",
        "[records]",
        *(f'"{name}" = {json.dumps(value)}' for name, value in seen(rows).items()),
    ]
    return "\n".join(lines) + "\n"


def seen(rows: list[Row]) -> dict[str, Any]:
    """Ranges of the records, and the ways in which they were computed."""
    models = [row.work for row in rows if not row.work.layer_only]
    everything = [row.work for row in rows]

    def bounds(values: list[int]) -> list[int]:
        return [min(values), max(values)]

    return {
        "rows": len(rows),
        "training points": bounds([work.rows for work in models if work.training]),
        "inference points": bounds([work.rows for work in models if not work.training]),
        "layers": bounds([work.size.layers for work in models]),
        "slices": bounds([work.slots for work in everything]),
        "width": bounds([work.size.width for work in everything]),
        "heads": bounds([work.size.heads for work in everything]),
        "variants": list(dict.fromkeys(work.variant for work in models)),
        "ways": sorted({way_of(work) for work in models}),
    }


DEVICES: dict[str, tuple[Kind, Any]] = {"h200": ("cuda", h200_rows), "cpu": ("cpu", cpu_rows)}


def main(arguments: list[str]) -> None:
    if arguments == ["write"]:
        for name, (kind, rows) in DEVICES.items():
            (TABLES / f"{name}.toml").write_text(table(rows(), kind), encoding="utf-8")
        return
    for kind, rows in DEVICES.values():
        found = judged(rows(), kind)
        for each in found:
            errors = [each.memory, each.memory_alone, each.time, each.time_alone]
            cells = [f"{100 * e:7.1f}" if e is not None else "      -" for e in errors]
            print(f"{each.row.kind:14} {each.row.name:76} {' '.join(cells)}")
        print("\n".join(["", *summary(found), ""]))
    print("\n".join(carried(h200_rows())))


if __name__ == "__main__":
    main(sys.argv[1:])
