"""Numbers that belong to a sample as a whole, from CSV, text, JSON or YAML.

A table has all samples in one file: rows of CSV with a column of ids, a mapping id -> parameters,
or a list of mappings that each name their id. Otherwise every sample has a file of its own: a
mapping, lines `name = value` of text, or CSV with a header and one row. Names inside mappings are
joined with dots.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slipstream.core.checked_yaml import WrittenReal, read_yaml
from slipstream.core.files import check_regular
from slipstream.core.text import printable
from slipstream.data.cards.patterns import as_expression, sample_id
from slipstream.data.cards.tables import COMMA_NUMBER, read_table, read_text

SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".yaml", ".yml")

ParameterRow = dict[str, Any]


def read_parameter_table(
    path: Path, column: str, id_pattern: str | None = None
) -> dict[str, ParameterRow]:
    """The parameters of all samples by id; `column` is the name of the id in a list of rows.

    With `id_pattern`, as "run_{id}", the table writes ids in this way; other rows are left out.
    """
    value = read_parameter_rows(path)
    if isinstance(value, dict):
        if not all(isinstance(row, dict) for row in value.values()):
            raise ValueError(
                f"{path} must map every id to its parameters, got a mapping of numbers"
            )
        return _by_id(path, ((key, _flat(path, row)) for key, row in value.items()), id_pattern)
    for row in value:
        if row.get(column) in (None, ""):
            raise ValueError(
                f"{path} must have the id of every row in {column!r}, got one with only"
                f" {', '.join(map(printable, filter(None, row))) or 'nothing'}"
            )
    return _by_id(path, ((str(row[column]), row) for row in value), id_pattern)


def _by_id(
    path: Path, rows: Iterable[tuple[str, ParameterRow]], id_pattern: str | None
) -> dict[str, ParameterRow]:
    table: dict[str, ParameterRow] = {}
    expression = None if id_pattern is None else as_expression(id_pattern)
    for text, row in rows:
        match = expression.fullmatch(text.strip()) if expression else None
        if expression and not match:
            continue
        name = sample_id(match["id"] if match else text)
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
    if path.suffix.lower() in (".csv", ".tsv"):
        return read_table(path)
    if path.suffix.lower() == ".txt":
        return read_text(path)
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
        hint = " (nothing)" if value in ("", None) else ""
        if any(isinstance(v, str) and COMMA_NUMBER.fullmatch(v.strip()) for v in values):
            hint = " (a comma may stand for a thousand: write a decimal point)"
        raise ValueError(f"{path.name}: {key!r} must be {what}, got {value!r:.200}{hint}")
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
