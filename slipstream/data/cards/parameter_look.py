"""The inspection of files with parameters of samples: which there are, and which values vary."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from slipstream.core.folders import walk
from slipstream.data.cards.inputs import is_quantity, judge
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
from slipstream.data.cards.patterns import ID, find_files, sample_id
from slipstream.data.meshes import SUFFIXES as MESHES
from slipstream.data.meshes import is_case

LARGE = 20_000_000
"""Bytes; a larger file is not taken for one of parameters."""

_LARGEST = 3.4e38  # that a feature, which is float32, can hold
_SHOWN = 8  # patterns of further files, and columns of a table, that a sentence lists


@dataclass(frozen=True)
class ParameterColumn:
    """One parameter over the samples that were inspected."""

    name: str
    components: int
    """How many numbers it has; 0 where it is no number in all of them."""
    unit: str
    reason: str
    """Why it has this unit."""
    against: str
    """Why it is not proposed as a feature; empty where it is."""


@dataclass(frozen=True)
class ParameterLook:
    """A file of parameters: a table with a column of ids, or one file for each sample."""

    file: str
    id: str | None
    columns: tuple[ParameterColumn, ...]
    without: tuple[str, ...]
    """Samples without parameters in it."""
    id_pattern: str | None = None
    """How the table writes an id, as "run_{id}"; None where it writes it as it is."""


def words_in_tables(folder: Path) -> set[str]:
    """All words that may be ids, in the tables that lie directly in a folder."""
    words = set()
    for path in filter(_may_be_parameters, _files(folder, below=False)):
        try:
            rows = _rows(path)
        except (ValueError, OSError):
            continue
        if isinstance(rows, dict):
            words |= {sample_id(str(key)) for key in rows}
        else:
            words |= {sample_id(str(value)) for row in rows for value in row.values()}
    return words


def look_at_parameters(
    folder: Path, ids: Sequence[str], meshes: Iterable[str]
) -> tuple[tuple[ParameterLook, ...], list[str]]:
    """Tables in the folder, or one below, and files of single samples; and a sentence on each file
    that is not used. `meshes` are the patterns of the samples' meshes."""
    paths = [p for p in _files(folder, below=True) if _may_be_parameters(p)]
    names = [path.relative_to(folder).as_posix() for path in paths]
    looks, notes, unused, taken = [], [], [], set()
    for pattern in patterns_with_ids(names, ids):
        try:
            files = find_files(folder, pattern)
            taken |= set(files.values())
            looks.append(_of_files(pattern, files, ids))
        except (ValueError, OSError) as error:
            notes.append(f"{pattern} is not used: {_sentence(error, folder)}")
    templates = _templates(meshes)
    for path, name in zip(paths, names, strict=True):
        if path in taken or name.count("/") > 1:
            continue
        try:
            look = _of_table(path, name, ids, templates)
        except (ValueError, OSError) as error:
            if path.suffix.lower() != ".txt":  # which may be any text
                unused.append((name, _sentence(error, folder)))
            continue
        looks += [look] if look else []
    notes += [*_unused(unused), *_others(folder, ids)]
    return tuple(look for look in looks if look.columns), notes


def _unused(files: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Sentences on files, given with the reason why each is not used.

    Files whose names differ in digits alone, as run_1/forces_1.csv and run_2/forces_2.csv, and that
    are left out for the same reason share one.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for name, reason in files:
        alike.setdefault((re.sub(r"[0-9]+", "0", name), reason), []).append(name)
    for (_, reason), names in list(alike.items())[:_SHOWN]:
        more = f" (and {len(names) - 1:,} named alike)" if len(names) > 1 else ""
        yield f"{names[0]}{more} is not used: {reason}"
    further = [name for names in list(alike.values())[_SHOWN:] for name in names]
    if further:
        yield f"{len(further):,} further files are not used: {_listed(further)}"


def _of_files(pattern: str, files: Mapping[str, Path], ids: Sequence[str]) -> ParameterLook:
    """ValueError where a file is not one row of numbers, as a series in time."""
    have = [sample for sample in ids if sample in files]
    some = dict.fromkeys((have[0], have[len(have) // 2], have[-1]))
    rows = [read_one(files[sample]) for sample in some]
    columns = _columns(rows, None)
    if not columns:
        raise ValueError(f"{files[have[0]].name} must have numbers, got none")
    without = tuple(sample for sample in ids if sample not in files)
    return ParameterLook(pattern, None, columns, without)


def _of_table(
    path: Path, name: str, ids: Sequence[str], templates: Sequence[str]
) -> ParameterLook | None:
    """The table by the column, and the way of writing ids, with most samples; None for a card.

    ValueError where fewer than half of the samples are in it.
    """
    rows = _rows(path)
    if not rows:
        return None
    columns = list(rows[0]) if isinstance(rows, list) else ["id"]
    best: tuple[int, str, str | None] = (0, "", None)
    for column in columns:
        for template in (None, *templates):
            try:
                table = read_parameter_table(path, column, template)
            except ValueError:
                continue
            count = sum(_row(table, sample, path) is not None for sample in ids)
            if is_quantity(column) and not count == len(ids) == len(table):
                continue  # speeds of 1, 3, 5 m/s are not the ids of some of ten samples
            best = max(best, (count, column, template), key=lambda choice: choice[0])
    count, column, template = best
    if not count or 2 * count < len(ids):
        raise ValueError(_unmatched(rows, columns, ids, best))
    table = read_parameter_table(path, column, template)
    found = {sample: _row(table, sample, path) for sample in ids}
    matching = [row for row in found.values() if row is not None]
    without = tuple(sample for sample, row in found.items() if row is None)
    return ParameterLook(name, column, _columns(matching, column), without, template)


def _unmatched(
    rows: Mapping[str, Any] | Sequence[ParameterRow],
    columns: Sequence[str],
    ids: Sequence[str],
    best: tuple[int, str, str | None],
) -> str:
    """Why a table does not belong to the samples."""
    some = ", ".join(ids[:3])
    if best[0]:
        return f"{best[1]!r} has only {best[0]:,} of the {len(ids):,} samples, as {some}"
    if isinstance(rows, Mapping):
        return f"none of its keys ({_listed(list(rows))}) is the id of a sample, as {some}"
    sentence = f"none of its columns ({_listed(columns)}) has the ids of the samples, as {some}"
    if len(rows) == len(ids):
        sentence += "; it has a row for each, but their order is not known: add a column with ids"
    return sentence


def _templates(patterns: Iterable[str]) -> list[str]:
    """How a table may write ids, by the names of folders and files: run_{id}, boundary_{id}.vtp."""
    templates: dict[str, None] = {}
    for pattern in patterns:
        for part in (*pattern.rstrip("/").split("/"), pattern):
            stem = str(PurePosixPath(part).with_suffix("")) if part else part
            templates |= dict.fromkeys(t for t in (part, stem) if ID in t and t != ID)
    return [template for template in templates if "**" not in template]


def _columns(rows: Sequence[ParameterRow], id_column: str | None) -> tuple[ParameterColumn, ...]:
    columns = [_column(name, [row.get(name) for row in rows]) for name in rows[0]]
    columns = [column for column in columns if column.name != id_column]
    return tuple(columns) if any(column.components for column in columns) else ()


def _column(name: str, values: Sequence[Any]) -> ParameterColumn:
    numbers = [[as_number(v) for v in (x if isinstance(x, list) else [x])] for x in values]
    sizes = {len(number) for number in numbers}
    flat = [n for number in numbers for n in number]
    size = sizes.pop() if len(sizes) == 1 and None not in flat else 0
    known = judge(name)
    against = known.against
    if not size:
        against = _no_number(values)
    elif any(abs(n) > _LARGEST for n in flat if n is not None):
        against = "too large for float32, which features are in"
    elif not name.isprintable() or not name:
        against = "its name has letters that a card cannot hold"
    elif not against and len(values) == 1:
        against = "of one sample it is not known whether it varies"
    elif not against and all(value == values[0] for value in values):
        against = "the same in every sample that was looked at"
    return ParameterColumn(name, size, known.unit, known.reason, against)


def _no_number(values: Sequence[Any]) -> str:
    """Why the values of a column are no numbers."""
    bad = [v for v in values if isinstance(v, list) or as_number(v) is None]
    if not bad:
        return "a list in some samples, one number in others"
    first = str(bad[0]).strip()
    if isinstance(bad[0], list):
        return "lists of different lengths, or of something else than numbers"
    if re.fullmatch(r"[+-]?(nan|inf(inity)?)", first, re.IGNORECASE) or _is_infinite(bad[0]):
        return f"not finite in {len(bad):,} of {len(values):,} samples that were looked at"
    return f"no number: {first[:40]!r}" if first else "nothing in some samples"


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _row(table: Mapping[str, ParameterRow], sample: str, path: Path) -> ParameterRow | None:
    try:
        return find_row(table, sample, path)
    except ValueError:
        return None


def _rows(path: Path) -> dict[str, Any] | list[ParameterRow]:
    """The rows of a file, none of a card; ValueError where it is not a table."""
    rows = read_parameter_rows(path)
    if not isinstance(rows, dict):
        return rows
    if {"schema", "files", "targets"} <= set(rows):
        return []
    if not all(isinstance(row, dict) for row in rows.values()):
        raise ValueError(
            f"it has one set of parameters ({_listed(list(rows))}), not one for each sample"
        )
    return rows


def _others(folder: Path, ids: Sequence[str]) -> Iterator[str]:
    """A sentence on files beside the samples of kinds that are not read, as pictures."""
    names = [path.relative_to(folder).as_posix() for path in _files(folder, below=True)]
    known = (*SUFFIXES, *MESHES)
    rest = [name for name in names if PurePosixPath(name).suffix.lower() not in known]
    patterns = patterns_with_ids(rest, ids)
    if patterns:
        yield f"beside the samples, and not used: {_listed(patterns)}"


def _files(folder: Path, below: bool) -> list[Path]:
    """The files of a folder, or all below it; of an OpenFOAM case those in its own folder only."""
    candidates: list[Path] = []
    for here, folders, files in walk(folder):
        candidates += [here / file for file in files if not file.startswith(".")]
        deeper = below and not _is_case(here)
        folders[:] = [name for name in folders if deeper and not name.startswith(".")]
    return sorted(candidates)


def _is_case(folder: Path) -> bool:
    try:
        return is_case(folder)
    except OSError:
        return True  # it can be listed, but not entered


def _may_be_parameters(path: Path) -> bool:
    if path.suffix.lower() not in SUFFIXES:
        return False
    try:
        return path.is_file() and path.stat().st_size <= LARGE
    except OSError:
        return False  # in a folder that cannot be entered


def _sentence(error: Exception, folder: Path) -> str:
    return str(error).replace(f"{folder}/", "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
