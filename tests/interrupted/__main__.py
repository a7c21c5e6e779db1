"""python -m tests.interrupted --moments 100: a table of how every command took its signals."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from slipstream.core.runtime import commit, package_version, versions

from .cluster_trial import run_trial
from .commands import COMMANDS, write_meshes
from .engine_overhead import measure_overhead
from .moments import Attempt, draw_moments, interrupt, leave_alone

ISSUED = ("train", "study", "ingest", "evaluate")
"""The commands that share the moments; the others get as many as `--others` says."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interrupted", description=__doc__)
    parser.add_argument("--moments", type=int, default=100, help=f"of {', '.join(ISSUED)} together")
    parser.add_argument("--others", type=int, default=6, help="moments of each other command")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="with commas between")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", type=Path, help="instead: a Dask cluster; the record's file")
    options = parser.parse_args(arguments)
    if options.engine is not None:
        return try_cluster(options.engine, options.seed)
    started, failures = time.monotonic(), 0
    print(f"{'command':10}{'signal':9}{'to':9}{'count':>6}  {'how it ended':58}bytes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = folder / "given"
        write_meshes(given)
        leave_alone(COMMANDS["train"], given / "run", given)
        share = -(-options.moments // len(ISSUED))
        for command in options.commands.split(","):
            draw = random.Random(f"{options.seed} {command}")
            moments = draw_moments(draw, share if command in ISSUED else options.others)
            attempts = interrupt(COMMANDS[command], folder / command, given, moments)
            print_rows(command, attempts)
            failures += sum(bool(attempt.problems) for attempt in attempts)
    print(f"{failures} failures, {time.monotonic() - started:.0f} s, seed {options.seed}")
    return int(failures > 0)


def try_cluster(record: Path, seed: int) -> int:
    """The cost of engines; an ingest of 60 files and a study of 8 runs on a cluster of three."""
    with tempfile.TemporaryDirectory() as name:
        rows = [measure_overhead(on, Path(name)) for on in ("processes:2", "dask:local:2")]
        rows += run_trial(Path(name), seed=seed)
    for row in rows:
        print(row, flush=True)
    about = {"command": "python -m tests.interrupted --engine", "seed": seed, "workers": 3,
             "time": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(),
             "dask": package_version("dask"), "versions": versions()}  # fmt: skip
    record.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    return int(not all(row.get("equal", True) for row in rows))


def print_rows(command: str, attempts: Sequence[Attempt]) -> None:
    kinds = Counter((a.moment.number, a.moment.to_group) for a in attempts)
    for (number, to_group), count in sorted(kinds.items()):
        row = [a for a in attempts if (a.moment.number, a.moment.to_group) == (number, to_group)]
        endings = Counter(a.ending for a in row)
        how = ", ".join(f"{many} {ending}" for ending, many in sorted(endings.items()))
        equal = "no" if any("other content" in p for a in row for p in a.problems) else "equal"
        target = "group" if to_group else "process"
        print(f"{command:10}{number.name:9}{target:9}{count:>6}  {how:58}{equal}", flush=True)
    for attempt in attempts:
        for problem in attempt.problems:
            print(f"    {attempt.moment}: {problem}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
