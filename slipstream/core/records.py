"""Records: one JSON object a line, appended, never rewritten; and the reader that checks them.

Schema 1. Every row has `schema` (1), `kind` (what was measured), `time` (UTC, ISO 8601) and
`versions`; the other fields depend on the kind. Lines end with a line feed and nothing else. A row
is written by one call under the lock of the file, so that several processes may append to it and a
killed one leaves at most one unfinished last line: the reader skips it and the next append replaces
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slipstream.core.files import check_regular, naming
from slipstream.core.locks import take_lock
from slipstream.core.runtime import versions

SCHEMA = 1
_REQUIRED = {"schema": int, "kind": str, "time": str, "versions": dict}


def append_record(path: Path, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Append one row and return it. NaN and infinities raise ValueError: JSON has none."""
    clash = sorted(set(fields) & set(_REQUIRED))
    if clash:
        raise ValueError(f"fields must not contain {', '.join(clash)}: every record has its own")
    row = {
        "schema": SCHEMA,
        "kind": kind,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        **fields,
        "versions": versions(),
    }
    line = json.dumps(row, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), path.open("ab+") as file:
        take_lock(file, wait=True)  # else another process's line, half written, would be dropped
        _drop_unfinished_line(file)
        file.write(line.encode())
    return row


def read_records(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """All rows of `path`, or those of one kind; a bad row is an error naming its line."""
    check_regular(path)
    content = path.read_bytes()
    finished = content[: content.rfind(b"\n") + 1]
    try:
        # Not splitlines: it also splits at U+2028 and others, which a text in JSON may contain.
        lines = finished.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be records, a JSON object a line, got {error}") from None
    rows = [_checked(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    return [row for row in rows if kind is None or row["kind"] == kind]


def _checked(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        got = error.msg if isinstance(error, json.JSONDecodeError) else "one nested too deeply"
        raise ValueError(f"{where} must be a JSON object, got {got}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object, got {type(row).__name__}")
    for name, expected in _REQUIRED.items():
        if not isinstance(row.get(name), expected):
            raise ValueError(
                f"{where}: field {name!r} must be {expected.__name__}, got {row.get(name)!r}"
            )
    if row["schema"] > SCHEMA:
        raise ValueError(
            f"{where}: schema must be at most {SCHEMA}, got {row['schema']}: a newer slipstream"
            " wrote it"
        )
    return row


def _drop_unfinished_line(file: Any) -> None:
    size = file.seek(0, 2)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
