"""The inspection of files with parameters of samples: which there are, and which values vary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.core.folders import walk
from slipstream.data.cards.layout import patterns_with_ids
from slipstream.data.cards.parameters import (
    SUFFIXES,
    ParameterRow,
    as_number,
    find_row,
    read_one,
    read_parameter_rows,
    read_parameter_table,
)
from slipstream.data.cards.patterns import find_files, sample_id
from slipstream.data.cards.roles import split_unit

LARGE = 20_000_000
"""Bytes; a larger file is not taken for one of parameters."""

_RESULT = re.compile(
    r"(c|coef\w*)_?[dlmsy]\w?|drag\w*|lift\w*|(side)?_?forces?\w*|f[xyz]|moment\w*|m[xyz]|torque\w*",
    re.IGNORECASE,
)
_UNITS = (
    (r"alpha|beta|aoa|yaw|pitch|roll|sideslip|.*angle.*", "deg"),
    (r"u|v|(free|in)?(stream|flow)?_?(velocity|speed)|[uv]_?(inf|ref|in)|stream_velocity", "m/s"),
    (r"rho\w*|.*density", "kg/m^3"),
    (r"(static_?)?(temperature|temp)(_inf)?|t_?inf", "K"),
    (r"p(ressure)?(_?inf)?", "Pa"),
    (r".*(length|width|height|radius|diameter|span|chord|thickness)", "m"),
)


@dataclass(frozen=True)
class ParameterColumn:
    """One parameter over the samples that were inspected."""

    name: str
    components: int
    """How many numbers it has; 0 where it is text."""
    varies: bool
    unit: str
    reason: str
    result: bool
    """Whether it looks like something computed from the flow, which is no input."""


@dataclass(frozen=True)
class ParameterLook:
    """A file of parameters: a table with a column of ids, or one file for each sample."""

    file: str
    id: str | None
    columns: tuple[ParameterColumn, ...]
    without: tuple[str, ...]
    """Samples without parameters in it."""


def words_in_tables(folder: Path) -> set[str]:
    """All words that may be ids, in the tables that lie directly in a folder."""
    words = set()
    for path in _files(folder, below=False):
        rows = _rows(path)
        if isinstance(rows, dict):
            words |= {sample_id(str(key)) for key in rows}
        else:
            words |= {sample_id(str(value)) for row in rows for value in row.values()}
    return words


def look_at_parameters(folder: Path, ids: Sequence[str]) -> tuple[ParameterLook, ...]:
    """Tables in the folder, or one below, and files of single samples."""
    paths = _files(folder, below=True)
    names = [path.relative_to(folder).as_posix() for path in paths]
    looks = []
    patterns = patterns_with_ids(names, ids) if len(ids) > 1 else []
    taken = set()
    for pattern in patterns:
        files = find_files(folder, pattern)
        taken |= set(files.values())
        looks.append(_of_files(pattern, files, ids))
    for path, name in zip(paths, names, strict=True):
        if path not in taken and name.count("/") <= 1:
            looks.append(_of_table(path, name, ids))
    return tuple(look for look in looks if look is not None and look.columns)


def guess_unit(name: str) -> tuple[str, str]:
    """The likely unit of a parameter, and the reason for it."""
    plain, unit = split_unit(name)
    if unit:
        return unit, "in its name"
    for pattern, usual in _UNITS:
        if re.fullmatch(pattern, plain.strip().replace(" ", "_"), re.IGNORECASE):
            return usual, "the usual one"
    return "1", "not known"


def _of_files(pattern: str, files: Mapping[str, Path], ids: Sequence[str]) -> ParameterLook | None:
    have = [sample for sample in ids if sample in files]
    some = dict.fromkeys((have[0], have[len(have) // 2], have[-1]))
    try:
        rows = [read_one(files[sample]) for sample in some]
    except ValueError:
        return None  # a series, or anything else that is not one row of numbers
    without = tuple(sample for sample in ids if sample not in files)
    return ParameterLook(pattern, None, _columns(rows, None), without)


def _of_table(path: Path, name: str, ids: Sequence[str]) -> ParameterLook | None:
    rows = _rows(path)
    if isinstance(rows, dict):
        columns = ["id"] if all(isinstance(row, dict) for row in rows.values()) else []
    else:
        columns = list(rows[0]) if rows else []
    best: tuple[int, str, list[ParameterRow]] = (0, "", [])
    for column in columns:
        try:
            table = read_parameter_table(path, column)
        except ValueError:
            continue
        matching = [row for sample in ids if (row := _row(table, sample, path)) is not None]
        best = max(best, (len(matching), column, matching), key=lambda choice: choice[0])
    count, column, matching = best
    if 2 * count < len(ids) or not count:
        return None
    table = read_parameter_table(path, column)
    without = tuple(sample for sample in ids if _row(table, sample, path) is None)
    return ParameterLook(name, column, _columns(matching, column), without)


def _columns(rows: Sequence[ParameterRow], id_column: str | None) -> tuple[ParameterColumn, ...]:
    columns = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        numbers = [[as_number(v) for v in (x if isinstance(x, list) else [x])] for x in values]
        sizes = {len(number) for number in numbers}
        good = len(sizes) == 1 and all(n is not None for number in numbers for n in number)
        if name != id_column:
            unit, reason = guess_unit(name)
            varies = any(value != values[0] for value in values)
            result = bool(_RESULT.fullmatch(split_unit(name)[0].strip().replace(" ", "_")))
            size = sizes.pop() if good else 0
            columns.append(ParameterColumn(name, size, varies, unit, reason, result))
    return tuple(columns) if any(column.components for column in columns) else ()


def _row(table: Mapping[str, ParameterRow], sample: str, path: Path) -> ParameterRow | None:
    try:
        return find_row(table, sample, path)
    except ValueError:
        return None


def _rows(path: Path) -> dict[str, Any] | list[ParameterRow]:
    """The rows of a file; none where it is not a table, or is a card."""
    try:
        rows = read_parameter_rows(path)
    except (ValueError, OSError):
        return []
    is_card = isinstance(rows, dict) and {"schema", "files", "targets"} <= set(rows)
    return [] if is_card else rows


def _files(folder: Path, below: bool) -> list[Path]:
    """Files that may hold parameters, in a folder or below it."""
    candidates = []
    for here, folders, files in walk(folder):
        folders[:] = [name for name in folders if below and not name.startswith(".")]
        candidates += [here / file for file in files if _may_be_parameters(here / file)]
    return sorted(candidates)


def _may_be_parameters(path: Path) -> bool:
    if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
        return False
    try:
        return path.is_file() and path.stat().st_size <= LARGE
    except OSError:
        return False  # in a folder that cannot be entered
