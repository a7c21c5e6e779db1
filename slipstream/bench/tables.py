"""Records as markdown, in the form of the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slipstream.bench.cases import Case

Record = dict[str, Any]
FLATNESS_LIMITS = {"model": 1.01, "layer": 1.05}
"""Limits on the largest over the smallest peak memory among slice counts."""


def latest(records: Iterable[Record]) -> list[Record]:
    """The last record of every name, in the order in which the names first came."""
    return list({record["name"]: record for record in records}.values())


def measurements(records: list[Record]) -> str:
    """A row for each case: eager reference, ours, peer, and the ratios between them."""
    head = [
        "case", "eager ms (GB)", "ours ms (GB)", "flashslice ms (GB)", "speed-up over eager",
        "memory saved over eager", "time: flashslice / ours", "memory: ours / flashslice", "gate",
    ]  # fmt: skip
    rows = [measurement(record) for record in records]
    parts = [provenance(records), table(head, rows)]
    return "\n".join([*parts, *(f"{line}\n" for line in flatness(records))])


def measurement(record: Record) -> list[str]:
    """The cells of one row."""
    results = record["results"]
    eager, ours, peer = (results.get(s) or {} for s in ("reference", "fused", "flashslice"))
    if record["error"]:
        return [record["name"], "", f"failed: {one_line(record['error'])}", *[""] * 6]
    saved = _ratio(ours, eager, "peak_gb")
    return [
        record["name"], _cell(eager), _cell(ours), _cell(peer),
        _number(_ratio(eager, ours, "ms"), "x"),
        "" if saved is None else f"{100 * (1 - saved):.0f} %",
        _number(_ratio(peer, ours, "ms")), _number(_ratio(ours, peer, "peak_gb")),
        _gate_cell(record["gate"]),
    ]  # fmt: skip


def _cell(result: Record) -> str:
    if "ms" in result:
        return f"{result['ms']:.2f} ({result['peak_gb']:.2f})"
    if result.get("out_of_memory"):
        return "out of memory"
    return one_line(result.get("not_measured", ""))


def _gate_cell(gate: Record) -> str:
    worst = "not finite" if gate["worst"] is None else f"{gate['worst']:.2f}x"
    if gate["green"]:
        return f"{worst} of {gate['limit']:.2f}x"
    if not gate["deterministic"]:
        return "RED: two runs differ"
    return f"RED: {gate['tensor']} {worst}, at most {gate['limit']:.2f}x"


def _ratio(top: Record, bottom: Record, field: str) -> float | None:
    if "ms" not in top or "ms" not in bottom or not bottom[field]:
        return None
    return float(top[field] / bottom[field])


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.2f}{unit}"


def flatness(records: list[Record]) -> list[str]:
    """A sentence for each group of training steps that differ in the slice count only.

    It says whether our memory is the same in all of them.
    """
    groups: dict[tuple[object, ...], list[tuple[Case, float]]] = {}
    for record in records:
        case, ours = Case.of(record), record["results"].get("fused") or {}
        if "ms" in ours and case.training:
            groups.setdefault(case.apart_from("slices"), []).append((case, ours["peak_gb"]))
    lines = []
    for group in groups.values():
        slices, peaks = sorted(case.slices for case, _ in group), [peak for _, peak in group]
        if len(set(slices)) < 3 or not min(peaks):
            continue
        case, ratio = group[0][0], max(peaks) / min(peaks)
        limit = FLATNESS_LIMITS[case.what]
        verdict = "flat" if ratio <= limit else "NOT FLAT"
        lines.append(
            f"Memory of a {case.what} in {case.dtype}/{case.precision}, G = {slices[0]} to"
            f" {slices[-1]}: largest over smallest {ratio:.4f}, at most {limit:.2f}: {verdict}."
        )
    return lines


def parity(records: list[Record]) -> str:
    """Counts and the worst ratio of every family, dtype and precision, then a list of failures."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        case = record["case"]
        kind = record["family"]
        kind = f"special: {case['check']}" if kind == "special" else kind
        groups.setdefault((kind, case["dtype"], case["precision"]), []).append(record)
    rows = [_parity_row(key, group) for key, group in sorted(groups.items())]
    head = ["what", "dtype", "precision", "green", "bitwise twice", "worst", "limit", "where"]
    green = sum(record["green"] for record in records)
    parts = [provenance(records), f"{green} of {len(records)} green.\n", table(head, rows)]
    failures = [failure(record) for record in records if not record["green"]]
    if failures:
        parts += ["Not green:\n", "\n".join(f"* {line}" for line in failures) + "\n"]
    return "\n".join(parts)


def _parity_row(key: tuple[str, str, str], records: list[Record]) -> list[str]:
    judged = [record for record in records if not record["error"]]
    green = sum(record["green"] for record in records)
    same = sum(record["deterministic"] for record in judged)
    counts = [f"{green} of {len(records)}", f"{same} of {len(records)}"]
    if not judged:
        return [*key, *counts, "", "", ""]
    worst = max(judged, key=_excess)
    value = "not finite" if worst["worst"] is None else f"{worst['worst']:.3g}"
    where = f"{worst['name'].removeprefix('operator ')}: {worst['tensor']}"
    return [*key, *counts, value, f"{worst['limit']:.3g}", where]


def _excess(record: Record) -> float:
    if record["worst"] is None:
        return float("inf")
    limit = record["limit"]
    return record["worst"] / limit if limit else float("inf") if record["worst"] else 0.0


def failure(record: Record) -> str:
    """A line that says why a parity case is not green."""
    if record["error"]:
        return f"{record['name']}: {one_line(record['error'])}"
    if record["worst"] is None:
        return f"{record['name']}: {record['tensor']} is not finite"
    excess = f"{record['tensor']} {record['worst']:.3g}, at most {record['limit']:.3g}"
    twice = "" if record["deterministic"] else "; two runs differ"
    return f"{record['name']}: {excess}{twice}"


def provenance(records: list[Record]) -> str:
    """A sentence with the device, versions, commits and dates of records."""
    if not records:
        return "No records.\n"
    commits = ", ".join(sorted({record["commit"] or "unknown" for record in records}))
    devices = ", ".join(sorted({record["device"] for record in records if record["device"]}))
    dates = sorted(record["time"][:10] for record in records)
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    packages = dict(records[-1]["versions"])
    if records[-1].get("peer"):
        packages["flashslice"] = records[-1]["peer"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return f"{devices or 'Unknown device'}; {versions}; commit {commits}; {days}.\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def one_line(text: str, length: int = 160) -> str:
    """A text for a cell of a table, without line breaks and bars, shortened to `length`."""
    flat = " ".join(text.split()).replace("|", "/")
    return flat if len(flat) <= length else flat[: length - 3] + "..."


def data(record: dict[str, Any]) -> str:
    """The record of `bench data` as markdown: draws from a store, and the ingest of a mesh."""
    window, exact, whole = (record[f"{way}_ms"] for way in ("window", "exact", "whole"))
    sizes = f"{record['points']:,} of {record['rows']:,} rows ({record['bytes'] / 1e9:.1f} GB)"
    lines = [
        f"{record['device']}; commit {record['commit']}; {str(record['time'])[:10]}.",
        "",
        f"One draw of {sizes}, from warm cache:",
        "",
        "| way | ms | times window |",
        "| --- | --- | --- |",
        *(
            f"| {way} | {ms:.1f} | {ms / window:.1f} |"
            for way, ms in (("window", window), ("exact", exact), ("the whole sample", whole))
        ),
        "",
        "| loader, workers | draws a second |",
        "| --- | --- |",
        *(f"| {row['workers']} | {row['draws_per_second']:.0f} |" for row in record["loaders"]),
        "",
        f"Written at {record['ingest_rows_per_second'] / 1e6:.2f} million rows a second.",
        "",
        *_mesh(record["mesh"]),
    ]
    return "\n".join(lines) + "\n"


def _mesh(mesh: dict[str, Any]) -> list[str]:
    """Lines about the ingest of a mesh."""
    size, read, peak, start = (
        mesh[f"{what}_bytes"] / 1e9 for what in ("uncompressed", "read", "peak", "start")
    )
    return [
        f"A volume mesh of {mesh['points']:,} points and {mesh['cells']:,} cells, {size:.2f} GB"
        f" uncompressed, {read:.2f} of them read:",
        "",
        "| ingest | |",
        "| --- | --- |",
        f"| million points a second | {mesh['points_per_second'] / 1e6:.2f} |",
        f"| peak memory, GB | {peak:.2f} ({start:.2f} before it began) |",
        f"| peak over uncompressed size | {peak / size:.2f} |",
    ]
