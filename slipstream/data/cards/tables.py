"""Tables and lines of parameters as people write them: CSV with any separator, `name = value`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.core.checked_yaml import WrittenReal

COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
"""A number with a decimal comma, or with a comma between thousands."""

_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)", re.I)
_LINE = re.compile(r"([^\W\d][^=:;\s]*)\s*([=:]|\s)\s*(.+)")

Row = dict[str, Any]


def read_table(path: Path) -> list[Row]:
    """Rows by the names of the header, with commas, semicolons or tabs between the values.

    Between semicolons or tabs, numbers may have decimal commas: 30,5.
    """
    lines = _lines(path)
    if lines and (told := re.fullmatch(r"sep=(.)", lines[0])):  # written by Excel
        return _rows(path, lines[1:], told[1])
    if len(lines) < 2:
        raise ValueError(f"{path} must have a header and rows, got {len(lines)} lines")
    return _rows(path, lines, _separator(lines))


def read_text(path: Path) -> Row | list[Row]:
    """Text with a parameter in each line, as `U = 30`, `U: 30` or `U 30`; or a table.

    Several numbers, as `(20 0 0)`, are a list. A table may have spaces between its values.
    """
    lines = [re.split(r"\s(?://|#|%)", line)[0].strip(" \t;") for line in _lines(path)]
    lines = [line for line in lines if line and not line.startswith(("//", "%"))]
    entries = [_LINE.fullmatch(line) for line in lines]
    numbers = [_numbers(entry[3]) if entry else None for entry in entries]
    good = all(e and (e[2] in "=:" or n) for e, n in zip(entries, numbers, strict=True))
    if lines and good:
        row: Row = {}
        for entry, values in zip(entries, numbers, strict=True):
            assert entry is not None
            if entry[1] in row:
                raise ValueError(f"{path} must have the parameter {entry[1]!r} once, got it twice")
            row[entry[1]] = entry[3] if values is None else values if len(values) > 1 else values[0]
        return row
    if len(lines) < 2:
        raise ValueError(f"{path} must have lines `name = value`, or a header and rows, got others")
    separator = _separator(lines)
    if separator not in lines[0]:
        lines, separator = [" ".join(line.split()) for line in lines], " "
    return _rows(path, lines, separator)


def _lines(path: Path) -> list[str]:
    """The lines of a file, without empty ones and comments."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be CSV in UTF-8, got other bytes") from None
    return [line for line in text.split("\n") if line.strip() and not line.startswith("#")]


def _separator(lines: Sequence[str]) -> str:
    """The separator that cuts all lines into equally many values, most of them if several do."""
    good = {}
    for separator in ";\t,":
        try:
            widths = {len(values) for values in csv.reader(lines[:1000], delimiter=separator)}
        except csv.Error:
            continue
        if len(widths) == 1 and min(widths) > 1:
            good[separator] = min(widths)
    return max(good, key=good.__getitem__) if good else max(",;\t", key=lines[0].count)


def _rows(path: Path, lines: Sequence[str], separator: str) -> list[Row]:
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=True)
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
    return rows if separator == "," else _with_decimal_commas(rows)


def _with_decimal_commas(rows: list[Row]) -> list[Row]:
    """Rows in which 30,5 is the number 30.5; as they are where a comma may mean something else.

    It may where other numbers have decimal points, or where all are like 1,234.
    """
    texts = [text for row in rows for text in row.values()]
    commas = [text for text in texts if COMMA_NUMBER.fullmatch(text)]
    if not commas or any(_POINT_NUMBER.fullmatch(text) for text in texts):
        return rows
    if all(_THOUSANDS.fullmatch(text) for text in commas):
        return rows
    return [{name: _from_comma(text) for name, text in row.items()} for row in rows]


def _from_comma(text: str) -> Any:
    if not COMMA_NUMBER.fullmatch(text):
        return text
    return WrittenReal.of(text, float(text.replace(",", ".")))


def _numbers(text: str) -> list[str] | None:
    """The numbers of a line, as text; None where it has something else, or nothing."""
    words = re.split(r"[\s,]+", text.strip("()[] \t;"))
    return words if words and all(map(_NUMBER.fullmatch, words)) else None
