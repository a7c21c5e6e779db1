"""What an engine costs: 1,000 tasks that do nothing."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from slipstream.core.engine import as_engine
from slipstream.core.pool import run_on

TASKS, TIMES = 1000, 5


def measure_overhead(on: str, folder: Path) -> dict[str, Any]:
    """Seconds to open the engine, to the end of its first task (workers import what they need), of
    1,000 tasks once all workers are warm (the median and the least of five), and to close it."""
    items = [str(number) for number in range(TASKS)]
    began = time.monotonic()
    with as_engine(on) as engine:
        assert engine is not None
        opened = time.monotonic()
        list(run_on(engine, len, items[:1], folder))
        first = time.monotonic()
        list(run_on(engine, len, items, folder))
        several = []
        for _ in range(TIMES):
            start = time.monotonic()
            assert len(list(run_on(engine, len, items, folder))) == TASKS
            several.append(time.monotonic() - start)
        ended = time.monotonic()
    return {
        "engine": on,
        "open_s": round(opened - began, 2),
        "first_task_s": round(first - opened, 2),
        "tasks": TASKS,
        "all_s": round(statistics.median(several), 3),
        "least_s": round(min(several), 3),
        "close_s": round(time.monotonic() - ended, 2),
    }
