"""Tables and chart points of speed and memory, from the records of `slipstream bench`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.files import naming_file
from slipstream.core.records import read_records
from slipstream.core.schemas import YOUNGER, Positive, parsed
from slipstream.models.variants import BASELINE
from slipstream.reports.content import Cell, Measurement, Table

KIND = "bench"
OURS, PEER, PLAIN = "fused", "flashslice", "reference"
_HEADS, _LINE = 8, 50
"""The usual number of heads, which labels leave out, and letters in a line below a panel."""
_TITLES = {"model": "Speed and memory of the whole model", "layer": "Speed and memory of one layer"}


def read_bench(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The timed cases that passed their gate; of several with the same name, the last.

    Raises ValueError for a file without records of timings, and for a record whose fields are
    missing or of the wrong type, which it names.
    """
    cases: dict[str, dict[str, Any]] = {}
    for path in paths:
        rows = read_records(path, KIND)
        if not rows:
            raise ValueError(
                f"{path} must hold records of `slipstream bench model`, `kernels` or `memory`,"
                " got none"
            )
        for row in rows:
            _check(row, str(path))
            if row["results"].get(OURS) and (row["gate"] or {}).get("green"):
                cases[row["name"]] = row
    return list(cases.values())


@dataclass(frozen=True)
class _Row:
    """The fields that the tables need of a record of timings; each part may have others."""

    name: str
    device: str
    case: dict[str, Any]
    results: dict[str, dict[str, Any] | None]
    gate: dict[str, Any] | None


@dataclass(frozen=True)
class _Case:
    what: str
    points: Positive
    slices: Positive
    layers: Positive


@dataclass(frozen=True)
class _Result:
    ms: float | None = field(default=None, metadata=YOUNGER)
    peak_gb: float | None = field(default=None, metadata=YOUNGER)


def _check(row: Mapping[str, Any], path: str) -> None:
    with naming_file(path):
        checked = parsed(_Row, row, open=True)
    with naming_file(f"{path}, {checked.name}"):
        parsed(_Case, checked.case, place="case", open=True)
        for who in (OURS, PEER, PLAIN):
            if checked.results.get(who) is not None:
                parsed(_Result, checked.results[who], place=f"results.{who}", open=True)


def system_tables(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table of whole models and one of single layers, for those that were measured."""
    tables = []
    for what in dict.fromkeys(row["case"]["what"] for row in rows):
        own = [row for row in rows if row["case"]["what"] == what]
        devices = ", ".join(dict.fromkeys(row["device"] for row in own))
        caption = (
            f"Median milliseconds and peak gigabytes on {devices}, measured in turns in one"
            " process, behind the gate of exactness; ratios are theirs over ours, above 1 where"
            " ours is faster. Without kernels is the same model by plain PyTorch; `eager` in the"
            " name of a case is not compiled."
        )
        columns = (
            "case", "ours, ms", "flashslice, ms", "ratio", "without kernels, ms", "ratio",
            "ours, GB", "flashslice, GB",
        )  # fmt: skip
        title = _TITLES.get(what, f"Speed and memory, {what}")
        tables.append(Table(f"systems-{what}", title, caption, columns, tuple(map(_row, own))))
    return tables


def _row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    results = row["results"]
    ours = results[OURS]

    def time(who: str) -> Cell:
        return _cell((results.get(who) or {}).get("ms"))

    def ratio(who: str) -> Cell:
        theirs = (results.get(who) or {}).get("ms")
        return _cell(theirs / ours["ms"] if theirs and ours.get("ms") else None, "ratio")

    name = Cell(text=row["name"], kind="text")
    memory = [_cell((results.get(who) or {}).get("peak_gb")) for who in (OURS, PEER)]
    return (name, time(OURS), time(PEER), ratio(PEER), time(PLAIN), ratio(PLAIN), *memory)


def _cell(value: float | None, kind: Any = "error") -> Cell:
    return Cell(text="not measured", kind="text") if value is None else Cell(value, kind=kind)


def system_points(rows: Sequence[Mapping[str, Any]]) -> list[Measurement]:
    """Memory and time against G, L and N, wherever at least two cases differ in that alone.

    The label of each axis has a second line with what the cases have in common. Of several families
    of cases that differ in an axis alone, the one with the most values is drawn: at G = 32 with
    three values of N and at G = 256 with two, the three.
    """
    points = []
    for axis, label in (("slices", "slices G"), ("layers", "layers L"), ("points", "points N")):
        families: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            rest = {k: v for k, v in row["case"].items() if k != axis}
            families.setdefault(str(sorted(rest.items())), []).append(row)
        best = max(families.values(), key=lambda own: len({r["case"][axis] for r in own}))
        if len({row["case"][axis] for row in best}) > 1:
            below = f"{label}\n{_in_common(best[0]['case'], axis)}"
            points += [m for row in best for m in _measurements(row, axis, below)]
    return points


def _in_common(case: Mapping[str, Any], axis: str) -> str:
    """What cases have in common, as "model, training, bf16/bf16, G = 32, L = 8".

    The quantity along the axis is left out.
    """
    what, variant, heads = case["what"], case.get("variant", BASELINE), case.get("heads", _HEADS)
    parts = ["one layer" if what == "layer" else what]
    parts.append("training" if case.get("training") else "inference")
    parts.append("/".join(case[name] for name in ("dtype", "precision") if case.get(name)))
    parts += [name for name in ("checkpointed", "compiled") if case.get(name)]
    parts += [variant] if variant != BASELINE else []
    parts += [f"G = {case['slices']}"] if axis != "slices" else []
    parts += [f"L = {case['layers']}"] if axis != "layers" and what != "layer" else []
    parts += [f"H = {heads}"] if heads != _HEADS else []
    parts += [f"N = {case['points']:,}"] if axis != "points" else []
    return textwrap.fill(", ".join(filter(None, parts)), _LINE, break_on_hyphens=False)


_SERIES = {OURS: "slipstream", PEER: "flashslice", PLAIN: "without kernels"}


def _measurements(row: Mapping[str, Any], axis: str, label: str) -> list[Measurement]:
    measurements = []
    for who, name in _SERIES.items():
        result = row["results"].get(who) or {}
        for key, quantity, unit in (("ms", "time", "ms"), ("peak_gb", "peak memory", "GB")):
            if result.get(key) is not None:
                at = float(row["case"][axis])
                measurements.append(Measurement(name, label, at, quantity, unit, result[key]))
    return measurements
