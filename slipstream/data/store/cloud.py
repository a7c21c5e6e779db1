"""One sample: a cloud of points with named arrays, or blocks of rows where memory is too small.

Both check themselves: a ValueError says which field is wrong, what was expected, what was given and
at which rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.data.store.fields import Field, Schema

Rows = NDArray[np.float32]
"""Rows of a sample, (N, width) float32."""
Parameters = Mapping[str, Any]
"""Numbers that belong to a sample as a whole: one, or a sequence of them, by name."""

_BLOCK_ROWS = 1 << 17


@dataclass(frozen=True, eq=False)
class Cloud:
    """One sample in memory: an array of N values, or N x components, for each field.

    A feature that `arrays` lacks may be one of `parameters`: it is broadcast to every point.
    Arrays may have any real dtype; rows are float32.
    """

    schema: Schema
    arrays: Mapping[str, Any]
    parameters: Parameters = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", checked_parameters(self.parameters))
        names = [field.name for field in self.schema.fields]
        unknown = sorted(set(self.arrays) - set(names))
        if unknown:
            raise ValueError(
                f"arrays must be fields of the schema ({', '.join(names)}), got"
                f" {', '.join(map(repr, unknown))} besides"
            )
        rows = self._count_rows()
        columns = {f.name: self._column(f, rows) for f in self.schema.fields}
        object.__setattr__(self, "arrays", columns)
        for first in range(0, rows, _BLOCK_ROWS):
            for name, column in columns.items():
                check_finite_rows(name, _as_float32(column[first : first + _BLOCK_ROWS]), first)

    @property
    def rows(self) -> int:
        return len(next(iter(self.arrays.values())))

    def blocks(self) -> Iterator[Rows]:
        """The rows, coords | features | targets, in blocks: the sample is not copied as a whole."""
        for first in range(0, self.rows, _BLOCK_ROWS):
            parts = [column[first : first + _BLOCK_ROWS] for column in self.arrays.values()]
            block = np.empty((len(parts[0]), self.schema.width), np.float32)
            start = 0
            for part in parts:
                block[:, start : start + part.shape[1]] = part
                start += part.shape[1]
            yield block

    def _count_rows(self) -> int:
        """The number of points, which is that of the first field of coords."""
        name = self.schema.coords[0].name
        if name not in self.arrays:
            raise ValueError(f"field {name!r} must be among the arrays, got {_names(self.arrays)}")
        rows = len(np.atleast_1d(np.asarray(self.arrays[name])))
        if rows == 0:
            raise ValueError(f"a cloud must have at least one point, got an empty {name!r}")
        return rows

    def _column(self, field: Field, rows: int) -> NDArray[Any]:
        if field.name not in self.arrays and field.name in self.parameters:
            value = np.atleast_1d(np.asarray(self.parameters[field.name], np.float64))
            if value.shape != (field.components,):
                raise ValueError(
                    f"parameter {field.name!r} must have {field.components} components, got"
                    f" {value.size}"
                )
            return np.broadcast_to(value, (rows, field.components))
        if field.name not in self.arrays:
            raise ValueError(
                f"field {field.name!r} must be among the arrays or parameters, got"
                f" {_names({**self.arrays, **self.parameters})}"
            )
        array = np.asarray(self.arrays[field.name])
        if array.dtype.kind not in "fiub":
            raise ValueError(f"field {field.name!r} must hold real numbers, got {array.dtype}")
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != field.components:
            raise ValueError(
                f"field {field.name!r} must have {field.components} components, shape (N,"
                f" {field.components}), got shape {np.shape(self.arrays[field.name])}"
            )
        if len(array) != rows:
            raise ValueError(
                f"field {field.name!r} must have {rows} rows like"
                f" {self.schema.coords[0].name!r}, got {len(array)}"
            )
        return array


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """One sample as a stream: `rows` in all, in blocks of any size, (n, width) each.

    The columns of a block are those of the schema, coords | features | targets.
    """

    rows: int
    stream: Iterable[Any]
    parameters: Parameters = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_whole("rows of a sample", self.rows, 1)
        object.__setattr__(self, "parameters", checked_parameters(self.parameters))

    def blocks(self) -> Iterable[Any]:
        return self.stream


def checked_blocks(schema: Schema, rows: int, blocks: Iterable[Any]) -> Iterator[Rows]:
    """The blocks as float32, or ValueError: wrong width, NaN or infinite, too many or too few."""
    seen = 0
    for block in blocks:
        array = np.asarray(block)
        if array.ndim != 2 or array.shape[1] != schema.width or array.dtype.kind not in "fiub":
            raise ValueError(
                f"a block of rows must hold real numbers of shape (n, {schema.width}), got"
                f" {array.dtype} of shape {array.shape}"
            )
        if seen + len(array) > rows:
            raise ValueError(f"the blocks must hold {rows} rows in all, got at least one more")
        converted = _as_float32(array)
        if not np.isfinite(converted).all():
            for name in (f.name for f in schema.fields):
                check_finite_rows(name, converted[:, schema.columns(name)], seen)
        seen += len(array)
        yield converted
    if seen != rows:
        raise ValueError(f"the blocks must hold {rows} rows in all, got {seen}")


def check_finite_rows(name: str, block: NDArray[Any], first: int) -> None:
    """Raise ValueError for NaN and infinities in a field, with their rows.

    `first` is the number of the block's first row in the sample.
    """
    good = np.isfinite(block).all(-1)
    if good.all():
        return
    where = np.flatnonzero(~good)
    listed = ", ".join(str(first + int(row)) for row in where[:5])
    more = ", ..." if len(where) > 5 else ""
    nan = int(np.isnan(block).sum())
    infinite = int(np.isinf(block).sum())
    raise ValueError(
        f"field {name!r} must be finite in float32, got {nan} NaN and {infinite} infinite values"
        f" at rows {listed}{more}"
    )


def checked_parameters(parameters: Parameters) -> dict[str, float | list[float]]:
    """The parameters as finite numbers, or lists of them; ValueError for any others."""
    checked: dict[str, float | list[float]] = {}
    for name, value in parameters.items():
        try:
            array = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            array = np.full(1, np.nan)
        if array.ndim > 1 or not np.isfinite(array).all():
            raise ValueError(f"parameter {name!r} must be finite numbers, got {value!r}")
        checked[str(name)] = array.tolist()
    return checked


def rechunked(blocks: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same rows in blocks of exactly `size`, the last one smaller.

    Blocks of 3, 3 and 2 rows become blocks of 4 and 4. A block is valid only until the next one is
    requested, as the buffer is used again.
    """
    buffer: Rows | None = None
    filled = 0
    for block in blocks:
        start = 0
        while start < len(block):
            if filled == 0 and len(block) - start >= size:
                yield block[start : start + size]
                start += size
                continue
            if buffer is None:
                buffer = np.empty((size, block.shape[1]), np.float32)
            taken = min(size - filled, len(block) - start)
            buffer[filled : filled + taken] = block[start : start + taken]
            filled, start = filled + taken, start + taken
            if filled == size:
                yield buffer
                filled = 0
    if buffer is not None and filled:
        yield buffer[:filled]


def _as_float32(array: NDArray[Any]) -> Rows:
    with np.errstate(over="ignore"):  # too large becomes infinite, which the caller refuses
        return np.ascontiguousarray(array, np.float32)


def _names(mapping: Mapping[str, Any]) -> str:
    return ", ".join(sorted(mapping)) or "none"
