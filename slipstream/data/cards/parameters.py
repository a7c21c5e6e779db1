"""Numbers that belong to a sample as a whole, from CSV, JSON or YAML.

A table has all samples in one file: rows of CSV with a column of ids, a mapping id -> parameters,
or a list of mappings that each name their id. Otherwise every sample has a file of its own: a
mapping, or CSV with a header and one row. Names inside mappings are joined with dots.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slipstream.core.checked_yaml import WrittenReal, read_yaml
from slipstream.core.files import check_regular
from slipstream.data.cards.patterns import sample_id

SUFFIXES = (".csv", ".json", ".yaml", ".yml")

ParameterRow = dict[str, Any]


def read_parameter_table(path: Path, column: str) -> dict[str, ParameterRow]:
    """The parameters of all samples by id; `column` is the name of the id in a list of rows."""
    value = read_parameter_rows(path)
    if isinstance(value, dict):
        if not all(isinstance(row, dict) for row in value.values()):
            raise ValueError(
                f"{path} must map every id to its parameters, got a mapping of numbers"
            )
        return _by_id(path, ((name, _flat(path, row)) for name, row in value.items()))
    for row in value:
        if row.get(column) in (None, ""):
            raise ValueError(
                f"{path} must have the id of every row in {column!r}, got one with only"
                f" {', '.join(key for key in row if key is not None) or 'nothing'}"
            )
    return _by_id(path, ((str(row[column]), row) for row in value))


def _by_id(path: Path, rows: Iterable[tuple[str, ParameterRow]]) -> dict[str, ParameterRow]:
    table: dict[str, ParameterRow] = {}
    for text, row in rows:
        name = sample_id(text)
        if name in table:
            raise ValueError(f"{path} must have one row for {name!r}, got two")
        table[name] = row
    return table


def find_row(table: Mapping[str, ParameterRow], sample: str, path: Path) -> ParameterRow:
    """A sample's row; if no id is the same text, the one that is the same whole number.

    The folder run_007 has the id "007", and a table made by a spreadsheet has 7.
    """
    if sample in table:
        return table[sample]
    if sample.isdecimal():
        same = [name for name in table if name.isdecimal() and int(name) == int(sample)]
        if len(same) == 1:
            return table[same[0]]
    raise ValueError(
        f"{path.name} must have parameters for {sample!r}, got {len(table)} others, as"
        f" {', '.join(map(repr, list(table)[:3]))}"
    )


def read_one(path: Path) -> ParameterRow:
    """The parameters of the one sample that the file belongs to."""
    value = read_parameter_rows(path)
    if isinstance(value, dict):
        return _flat(path, value)
    if len(value) != 1:
        raise ValueError(f"{path.name} must have one row below its header, got {len(value)}")
    return value[0]


def read_parameter_rows(path: Path) -> dict[str, Any] | list[ParameterRow]:
    """The content of a file of parameters: one mapping, or a list of rows."""
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a file of parameters, got none")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} must end with one of {', '.join(SUFFIXES)}, got {path.suffix!r}")
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    value = _read_json(path) if path.suffix.lower() == ".json" else read_yaml(path).value
    if isinstance(value, dict):
        return {str(key): entry for key, entry in value.items()}
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return [_flat(path, row) for row in value]
    raise ValueError(f"{path} must be a mapping or a list of them, got {type(value).__name__}")


def parameter_numbers(
    row: ParameterRow, key: str, components: int, path: Path
) -> float | list[float]:
    """A parameter as one number, or a list of `components` numbers; ValueError says what it is
    instead."""
    if key not in row:
        known = ", ".join(str(name) for name in row) or "nothing"
        raise ValueError(f"{path.name} must have the parameter {key!r}, got {known}")
    value = row[key]
    values = value if isinstance(value, list) else [value]
    parsed = [as_number(item) for item in values]
    if len(parsed) != components or any(number is None for number in parsed):
        what = "a number" if components == 1 else f"{components} numbers"
        empty = " (nothing)" if value in ("", None) else ""
        raise ValueError(f"{path.name}: {key!r} must be {what}, got {value!r:.200}{empty}")
    numbers = [number for number in parsed if number is not None]
    return numbers[0] if components == 1 else numbers


def as_number(value: Any) -> float | None:
    """A finite number, or text that is one; None otherwise."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _flat(path: Path, row: Mapping[Any, Any], prefix: str = "") -> ParameterRow:
    flat: ParameterRow = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        inside = _flat(path, value, f"{name}.") if isinstance(value, dict) else {name: value}
        twice = sorted(flat.keys() & inside.keys())
        if twice:
            raise ValueError(
                f"{path} must have the parameter {twice[0]!r} once, got it with a dot and as a"
                " mapping"
            )
        flat |= inside
    return flat


def _read_csv(path: Path) -> list[ParameterRow]:
    """Rows by the names of the header; commas, semicolons or tabs between the values."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be CSV in UTF-8, got other bytes") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) < 2:
        raise ValueError(f"{path} must have a header and rows, got {len(lines)} lines")
    delimiter = max(",;\t", key=lines[0].count)
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, skipinitialspace=True)
    try:
        header, *lists = reader
    except csv.Error as error:
        raise ValueError(f"{path} must be CSV, got {error} in line {reader.line_num}") from None
    header = [name.strip() for name in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"{path} must have different names in its header, got {twice[0]!r} twice")
    rows = []
    for number, values in enumerate(lists, start=2):
        if len(values) != len(header):
            raise ValueError(
                f"{path} must have {len(header)} values in every row, got {len(values)} in row"
                f" {number}"
            )
        rows.append(dict(zip(header, (value.strip() for value in values), strict=True)))
    return rows


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text("utf-8-sig")
        return json.loads(text, object_pairs_hook=_without_twins, parse_float=WrittenReal.of)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, got {error}") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> ParameterRow:
    """A JSON object in which a repeated key is an error, as it is in our YAML."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} for the second time")
    return value
