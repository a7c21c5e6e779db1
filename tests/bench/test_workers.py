"""Processes that raise, die and hang cost their own job and no other."""

from __future__ import annotations

from slipstream.bench.workers import run_tasks
from slipstream.core.runtime import available_cores

DIES = "__import__('os')._exit(3)"
HANGS = "__import__('time').sleep(60)"


def test_what_becomes_of_every_job() -> None:
    tasks = [["1 + 1", "1 / 0", "2 + 2"], [DIES, HANGS, "5"]]
    found = dict(run_tasks(tasks, eval, workers=1, limit_s=8))
    assert found["1 + 1"].result == 2 and found["2 + 2"].result == 4 and found["5"].result == 5
    assert found["1 / 0"].error == "ZeroDivisionError: division by zero"
    assert found[DIES].error == "its process died with exit code 3"
    assert found[HANGS].error == "no end after 8 s"


def test_without_workers_all_is_done_here() -> None:
    seen: list[int] = []
    outcomes = list(run_tasks([[1], [2, 3]], seen.append, workers=0))
    assert seen == [1, 2, 3] == [job for job, _ in outcomes]
    assert available_cores() >= 1
