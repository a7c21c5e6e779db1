"""RUN/records.jsonl: which fields each kind of record has, and the reader that checks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.core.records import read_records

_NUMBER = (int, float)
ROWS: Mapping[str, Mapping[str, Any]] = {
    "start": {
        "device": str,
        "threads": int,
        "processes": int,
        "precision": str,
        "parameters": int,
        "data_hash": str,
        "split_hash": str,
    },
    "train": {"learning_rate": _NUMBER, "kernels": str},
    "validation": {"error": (*_NUMBER, type(None)), "best": bool, "weights": str},
    "checkpoint": {"weights": str},
    "stop": {"reason": str},
}
"""The fields that readers need of each kind of record, besides the step."""


def read_run_records(path: Path) -> list[dict[str, Any]]:
    """All rows; ValueError names line and field where one is missing or of another type."""
    rows = read_records(path)
    for number, row in enumerate(rows, start=1):
        check_fields(row, {"step": int, **ROWS.get(row["kind"], {})}, f"{path}, line {number}")
    return rows


def check_fields(value: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    """Raise ValueError unless `value` has these fields with these types."""
    for name, kind in kinds.items():
        if not isinstance(value.get(name), kind):
            raise ValueError(f"{where}: {name} must be {_named(kind)}, got {value.get(name)!r}")


def _named(kind: Any) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(one.__name__ for one in kinds)
