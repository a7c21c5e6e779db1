"""What a stream of points in bf16 costs in accuracy: the baseline in bf16 with either stream, from
the same initial values, on charges and Stokes flow in the settings of `reproduction/cpu`.

    python benchmarks/stream_precision.py OUT [--seeds 0,1,2,3,4] [--parallel 10] [--device cuda]

Stores and studies go to out/stream-precision and are used again; OUT gets a record of every run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from slipstream.core.records import append_record, read_records
from slipstream.core.runtime import commit

HERE = Path(__file__).parent
WORK = Path("out/stream-precision")
PROBLEMS = ("poisson", "stokes-surface")
STREAMS = ("fp32", "bf16")


def slipstream(*words: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "slipstream", *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def runs_of(problem: str, seeds: str, parallel: int, device: str) -> list[dict[str, Any]]:
    """A row for every run: stream, seed, and errors of validation and test."""
    environment = os.environ | {"SIZE": "cpu", "WORK": str(WORK), "PYTHON": sys.executable}
    script = HERE / "reproduction" / "run.sh"
    subprocess.run(["bash", str(script), "data", problem], check=True, env=environment)
    study = WORK / problem
    slipstream(
        "study", problem, "--out", study, "--store", WORK / "stores" / problem,
        "--config", HERE / "reproduction" / "cpu" / f"{problem}.yaml", "--variants", "baseline",
        "--seeds", seeds, "--device", device, "--parallel", parallel, "--threads", 1,
        "--set", "precision=bf16", "--sweep", f"stream_precision={','.join(STREAMS)}",
    )  # fmt: skip
    slipstream("evaluate", study, "--device", device, "--no-calibrate")
    rows = []
    for file in sorted(study.glob("runs/**/evaluations.jsonl")):
        config = json.loads((file.parent / "config.json").read_text())["config"]
        (evaluation,) = [json.loads(line) for line in file.read_text().splitlines()][-1:]
        error = next(n for n in evaluation["numbers"] if n["variable"] is None)
        rows.append(
            {
                "problem": problem, "stream": config.get("stream_precision", "fp32"),
                "seed": config["seed"],
                "steps": config["steps"], "validation": evaluation["validation"],
                "test": error["mean"], "kernels": evaluation["kernels"], "commit": commit(),
            }
        )  # fmt: skip
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    for problem in dict.fromkeys(row["problem"] for row in rows):
        errors = {
            s: {r["seed"]: r["test"] for r in rows if r["problem"] == problem and r["stream"] == s}
            for s in STREAMS
        }
        ratios = [errors["bf16"][seed] / error for seed, error in sorted(errors["fp32"].items())]
        means = [statistics.mean(errors[s].values()) for s in STREAMS]
        each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{problem}: test error {means[0]:.4f} fp32, {means[1]:.4f} bf16; ratios {each}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--parallel", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    for problem in PROBLEMS:
        for row in runs_of(problem, given.seeds, given.parallel, given.device):
            append_record(given.out, "stream_precision", row)
    show(read_records(given.out))


if __name__ == "__main__":
    main()
