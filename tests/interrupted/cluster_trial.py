"""An ingest and a study on a cluster that loses workers and its scheduler: equal bytes and bits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from slipstream.core.records import read_records

from .cluster import Cluster, bytes_of, cluster, end_of, killing, start, wait_for
from .commands import TINY, contents, write_meshes
from .moments import difference

FILES, RUNS = 60, 8
VARIANTS = ("baseline", "mlp-only")


def run_trial(folder: Path, *, seed: int = 0, files: int = FILES, runs: int = RUNS) -> list[Any]:
    """A row for each of two commands and three fates: left alone here, workers killed on a cluster,
    the scheduler killed on it and the command called again."""
    given = folder / "given"
    write_meshes(given, files)

    def ingest(out: Path) -> list[str]:
        return ["data", "ingest", "mesh", str(given / "raw"), str(out),
                "--card", str(given / "card.yaml")]  # fmt: skip

    def study(out: Path) -> list[str]:
        seeds = ",".join(str(k) for k in range(runs // len(VARIANTS)))
        return ["study", "poisson", "--out", str(out), *TINY, "--set", "steps=600", "--seeds",
                seeds, "--variants", ",".join(VARIANTS), "--threads", "1"]  # fmt: skip

    rows = []
    with cluster(folder / "cluster") as one:
        rows += _fates("ingest", ingest, folder, one, seed, 0.3, "samples/*.npy", files // 4)
        rows += _fates("study", study, folder, one, seed, 3, "runs/*/*/*/records.jsonl", 2)
    return rows


def _fates(
    name: str,
    arguments: Callable[[Path], list[str]],
    folder: Path,
    one: Cluster,
    seed: int,
    pause: float,
    sign: str,
    count: int,
) -> list[dict[str, Any]]:
    quiet, killed, restarted = (folder / name / fate for fate in ("0", "1", "2"))
    began = time.monotonic()
    here = end_of(start(arguments(quiet), folder))
    assert here[0] == 0, here[1]
    expected = contents(quiet)
    rows = [_row(name, "left alone, on this machine", began)]
    began = time.monotonic()
    draw, written = random.Random(f"{seed} {name}"), partial(bytes_of, killed, sign)
    with killing(one, draw, pause, written) as kills:
        code, said = end_of(start([*arguments(killed), *one.on], folder))
    row = _row(name, "workers killed", began)
    starts = {"starts_of_runs": found} if (found := _starts(killed)) else {}
    rows.append(row | {"kills": len(kills), **starts, **_compared(code, said, expected, killed)})
    began = time.monotonic()
    first = start([*arguments(restarted), *one.on], folder)
    wait_for(restarted, sign, count)
    one.restart_scheduler()
    ended, sentence = end_of(first)
    code, said = end_of(start([*arguments(restarted), *one.on], folder))
    row = _row(name, "scheduler killed, the same call again", began)
    first_end = {"first_exit": ended, "first_said": sentence.strip().splitlines()[-1]}
    rows.append(row | first_end | _compared(code, said, expected, restarted))
    return rows


def _starts(out: Path) -> int:
    """How often the runs of a study were begun or gone on with."""
    return sum(
        row["kind"] == "start"
        for file in out.glob("runs/*/*/*/records.jsonl")
        for row in read_records(file)
    )


def _row(command: str, fate: str, began: float) -> dict[str, Any]:
    return {"command": command, "fate": fate, "seconds": round(time.monotonic() - began, 1)}


def _compared(code: int, said: str, expected: dict[str, Any], out: Path) -> dict[str, Any]:
    differs = difference(expected, contents(out))
    if code:
        differs = f"exit code {code}: {said}"
    return {"exit": code, "equal": not differs, "differs": differs}
