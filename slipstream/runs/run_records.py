"""RUN/records.jsonl: which fields each kind of record has, and the reader that checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from slipstream.core.files import naming_file
from slipstream.core.records import read_records
from slipstream.core.schemas import Count, Positive, parsed


@dataclass(frozen=True)
class Row:
    """The fields that readers need of a record; it may have others."""

    step: Count


@dataclass(frozen=True)
class Start(Row):
    device: str
    threads: Positive
    processes: Positive
    precision: str
    parameters: Count
    data_hash: str
    split_hash: str


@dataclass(frozen=True)
class Train(Row):
    learning_rate: float
    kernels: str


@dataclass(frozen=True)
class Validation(Row):
    error: float | None
    best: bool
    weights: str


@dataclass(frozen=True)
class Saved(Row):
    weights: str


@dataclass(frozen=True)
class Stop(Row):
    reason: str


ROWS: Mapping[str, type[Row]] = {
    "start": Start,
    "train": Train,
    "validation": Validation,
    "checkpoint": Saved,
    "stop": Stop,
}


def seconds_taken(rows: Iterable[Mapping[str, Any]]) -> float:
    """From every start of a run to the last record before the next one, validations included."""
    begin = end = None
    total = 0.0
    for row in rows:
        time = datetime.fromisoformat(row["time"])
        if row["kind"] == "start":
            total += (end - begin).total_seconds() if begin and end else 0.0
            begin = time
        end = time
    return total + ((end - begin).total_seconds() if begin and end else 0.0)


def read_run_records(path: Path) -> list[dict[str, Any]]:
    """All rows; ValueError names line and field where one is missing or of another type."""
    rows = read_records(path)
    for number, row in enumerate(rows, start=1):
        with naming_file(f"{path}, line {number}"):
            parsed(ROWS.get(row["kind"], Row), row, open=True)
    return rows
