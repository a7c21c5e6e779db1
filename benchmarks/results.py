"""The tables of RESULTS.md, made from the records; and newer records put in place of older ones.

    python benchmarks/results.py                     print the tables
    python benchmarks/results.py add FILE.jsonl ...  take records of `slipstream bench` over

`add` puts the rows of FILE.jsonl, or of FILE-reference.jsonl, into records/h200/FILE.jsonl, and
those in which our reference was timed into records/h200/reference.jsonl too, so that a newer row
without it does not take their ratio away. Of the rows of one name the newest stays that passed its
gate; the older ones are in the history of this repository. A parity.jsonl takes the place of the
one before, compressed.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

Record = dict[str, Any]
H200 = Path(__file__).parent / "records/h200"
CPU = Path(__file__).parent / "records/cpu"
HANDICAPS = {
    "baseline": "weights formed twice",
    "no-token-attention": "weights formed twice",
    "frozen-slice": "weights formed twice",
    "frozen-slice-no-token-attention": "weights formed twice",
    "slice-once": "weights formed twice",
    "untied-ln": "logits of the slice formed twice",
}
"""What our eager reference did too often before it was repaired; other variants: nothing."""
REPAIRED = "2026-11-18"
SINCE = "sums in fp32 without tensor cores"
"""What it does slowly since, under autocast, in variants that have sums over the points."""


def main(arguments: list[str]) -> None:
    if arguments and arguments[0] == "add":
        try:
            for file in map(Path, arguments[1:]):
                add(file)
        except (ValueError, OSError) as error:
            sys.exit(f"results.py: {error}")
        return
    for title, lines in tables().items():
        print(f"{title}\n\n" + "\n".join(lines) + "\n")


def read(file: Path) -> list[Record]:
    lines = file.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def add(file: Path) -> None:
    """Take over the records of a file; ValueError where they are not of `slipstream bench`."""
    if file.name == "parity.jsonl":
        kept = H200 / "parity.jsonl.xz"
        kept.write_bytes(lzma.compress(file.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        return
    records, kind = read(file), "streaming" if file.name == "streaming.jsonl" else "bench"
    for record in records:
        if record["kind"] != kind:
            raise ValueError(f"{file} must hold records of kind {kind!r}, got {record['kind']!r}")
    put(records, H200 / f"{file.stem.removesuffix('-reference')}.jsonl")
    if kind == "bench":
        put([row for row in records if "reference" in row["results"]], H200 / "reference.jsonl")


def put(records: list[Record], kept: Path) -> None:
    """Add records to a file, of which the newest of a name stay."""
    rows = newest((read(kept) if kept.exists() else []) + records)
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def newest(records: list[Record]) -> list[Record]:
    """Of every name the newest record that passed its gate."""
    passed = [record for record in records if record["gate"] and record["gate"]["green"]]
    by_name = {record["name"]: record for record in sorted(passed, key=lambda row: row["time"])}
    return list(by_name.values())


def tables() -> dict[str, list[str]]:
    """Each table by its title, as lines of markdown."""
    model, layer, memory = (read(H200 / f"{name}.jsonl") for name in ("model", "kernels", "memory"))
    baseline = [record for record in model if record["case"]["variant"] == "baseline"]
    others = [record for record in model if record not in baseline]
    names = {record["name"] for record in memory}
    beside = [row for row in read(H200 / "memory-beside.jsonl") if row["name"] not in names]
    return {
        "The full model": beside_flashslice(baseline),
        "Fewer passes around the coupling": beside_flashslice(read(H200 / "passes.jsonl")),
        "Variants of the full model": beside_flashslice(others),
        "One layer": beside_flashslice(layer),
        "Depths and slice counts": beside_flashslice(memory),
        "Memory alone": beside_flashslice(beside, times=False),
        "Against our own eager reference": beside_reference(read(H200 / "reference.jsonl")),
        "On a CPU": beside_peers_on_a_cpu(read(CPU / "cpu.jsonl")),
        "Streaming on a GPU": streamed_on_a_gpu(read(H200 / "streaming.jsonl")),
        "Streaming on a CPU": streamed(read(CPU / "streaming.jsonl")),
        "Kept bytes": kept(read(CPU / "kept.jsonl")),
        "Steps by memory": stepped(read(CPU / "kept.jsonl")),
    }


def beside_flashslice(records: list[Record], *, times: bool = True) -> list[str]:
    """Our rows and flashslice's. Without times: of rows whose times say nothing."""
    lines = [
        "| case | slipstream, ms (GB) | flashslice, ms (GB) | time | memory | commit |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for record in sorted(records, key=lambda record: sorting_key(record["case"])):
        ours, theirs = (record["results"].get(who, {}) for who in ("fused", "flashslice"))
        cells = [cell(ours, times), cell(theirs, times)]
        cells.append(quotient(theirs, ours, "ms") if times else "")
        cells.append(quotient(ours, theirs, "peak_gb"))
        lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def beside_reference(records: list[Record]) -> list[str]:
    lines = [
        "| case | slipstream, ms (GB) | reference, ms (GB) | times faster | less memory"
        " | handicap of the reference | commit |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for record in sorted(records, key=lambda record: sorting_key(record["case"])):
        ours, eager = (record["results"][who] for who in ("fused", "reference"))
        share = quotient(ours, eager, "peak_gb")
        less = f"{100 * (1 - ours['peak_gb'] / eager['peak_gb']):.0f} %" if share else ""
        cells = [cell(ours), cell(eager), quotient(eager, ours, "ms"), less]
        cells.append(handicap(record))
        lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def handicap(record: Record) -> str:
    """What made the reference of a record slower than an eager Transolver has to be."""
    variant, dtype = record["case"]["variant"], record["case"]["dtype"]
    if record["time"] < REPAIRED:
        return HANDICAPS.get(variant, "none")
    return SINCE if dtype == "bf16" and not variant.startswith("mlp-only") else "none"


def beside_peers_on_a_cpu(records: list[Record]) -> list[str]:
    """Seconds of CPU and peak GB of one step, and the ratios to each peer."""
    lines = [
        "| case | slipstream | flashslice | PhysicsNeMo | time: flashslice, PhysicsNeMo"
        " | memory: flashslice, PhysicsNeMo | commit |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for record in records:
        ours, *peers = (record["results"][who] for who in ("ours", "flashslice", "physicsnemo"))
        cells = [f"{who['cpu_s']:.2f} ({who['peak_gb']:.2f})" for who in (ours, *peers)]
        cells.append(", ".join(quotient(peer, ours, "cpu_s") for peer in peers))
        cells.append(", ".join(quotient(ours, peer, "peak_gb") for peer in peers))
        lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def streamed(records: list[Record]) -> list[str]:
    """Memory and time of points that were streamed."""
    lines = [
        "| case | parked, GB | peak above the model, MB | CPU s | points per CPU s | wall s"
        " | commit |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for record in records:
        result = record["result"]
        parked = 0 if result["place"] == "recompute" else result["parked_gb"]
        cells = [f"{parked:.2f}", f"{1000 * result['peak_gb']:.0f}", f"{result['cpu_s']:.0f}"]
        cells += [f"{result['points_per_cpu_second']:,.0f}", f"{result['wall_s']:.0f}"]
        lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def streamed_on_a_gpu(records: list[Record]) -> list[str]:
    """Memory of the device, time, and one pass over the same points where it was taken."""
    lines = [
        "| case | parked, GB | peak above the model, GB | s | points per s"
        " | one pass: s (GB), relative distance | commit |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for record in records:
        result = record["result"]
        parked = 0 if result["place"] == "recompute" else result["parked_gb"]
        cells = [f"{parked:.1f}", f"{result['peak_gb']:.2f}", f"{result['wall_s']:.1f}"]
        cells.append(f"{result['points_per_second']:,.0f}")
        one = result.get("one_pass")
        cells.append(
            f"{one['wall_s']:.1f} ({one['peak_gb']:.1f}), {one['distance']:.1e}" if one else ""
        )
        lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def kept(records: list[Record]) -> list[str]:
    """What training steps keep for their backward pass."""
    lines = [
        "| case | bytes a point and layer | bytes a point besides | bytes a layer | commit |",
        "|---|---:|---:|---:|---|",
    ]
    for record in records:
        if record["case"]["points"] is None:
            fields = ("bytes_per_point_and_layer", "bytes_per_point_besides", "bytes_per_layer")
            cells = [f"{record['result'][field]:,.0f}" for field in fields]
            lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def stepped(records: list[Record]) -> list[str]:
    """Peak memory and CPU seconds of steps, and their ratios to those of normal memory."""
    lines = [
        "| case | peak above the model, GB | CPU s | memory, time over normal | commit |",
        "|---|---:|---:|---:|---|",
    ]
    steps = {record["name"]: record["result"] for record in records if record["case"]["points"]}
    for record in records:
        result = steps.get(record["name"])
        if result is not None:
            normal = steps[record["name"].replace(record["case"]["keeper"], "normal")]
            ratios = [result[field] / normal[field] for field in ("peak_gb", "cpu_s")]
            cells = [f"{result['peak_gb']:.2f}", f"{result['cpu_s']:.1f}"]
            cells.append(", ".join(f"{ratio:.2f}" for ratio in ratios))
            lines.append(f"| `{record['name']}` | {' | '.join(cells)} | {taken(record)} |")
    return lines


def sorting_key(case: Record) -> tuple[object, ...]:
    """bf16 before fp32, inference before training, and then from small to large."""
    how = (case["dtype"], case["precision"] != case["dtype"], case["precision"])
    mode = (case["compiled"], case["checkpointed"], case.get("lean", False), case["training"])
    size = (case["layers"], case["heads"] != 8, case["slices"], case["points"])
    return (case["what"] == "layer", *how, *mode, *size, case["variant"])


def cell(result: Record, times: bool = True) -> str:
    if "peak_gb" not in result:
        reasons = {"out_of_memory": "out of memory", "not_measured": "has no such kernels"}
        return next((reasons[key] for key in reasons if key in result), "not measured")
    memory = f"{result['peak_gb']:.1f}" if result["peak_gb"] >= 10 else f"{result['peak_gb']:.2f}"
    return f"{result['ms']:.1f} ({memory})" if times else f"({memory})"


def quotient(above: Record, below: Record, what: str) -> str:
    return f"{above[what] / below[what]:.2f}" if what in above and what in below else ""


def taken(record: Record) -> str:
    return f"{record['commit']}, {record['time'][:10]}"


if __name__ == "__main__":
    main(sys.argv[1:])
