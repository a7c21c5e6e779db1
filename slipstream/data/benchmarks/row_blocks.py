"""The rows of a large sample, assembled a block at a time: crop, mirror image, computed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import in_box
from slipstream.data.store import Parameters, RowBlocks, Rows, Schema

Box = tuple[tuple[float, ...], tuple[float, ...]]
"""Lowest and highest corner."""
Column = NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]]
"""Values at all points, or a function from some positions to the values there."""

_BLOCK_ROWS = 1 << 20
_ON_PLANE = 1e-6  # metres from y = 0 within which a point is its own mirror image


def stream_rows(
    schema: Schema,
    columns: Mapping[str, Column],
    parameters: Parameters,
    *,
    box: Box | None = None,
    mirror: bool = False,
) -> RowBlocks:
    """Rows of the points in the box, a block at a time; fields without a column are parameters.

    With `mirror`, every point off the plane y = 0 is followed by its mirror image at -y: the y
    components of its vectors change sign; everything else, also the distance to a symmetric body,
    is the same.
    """
    position = columns["position"]
    assert isinstance(position, np.ndarray)
    signs = (1, -1) if mirror else (1,)
    flips = [schema.columns(f.name).start + 1 for f in schema.fields if f.components == 3]

    def spans() -> Iterator[tuple[slice, list[NDArray[np.bool_]]]]:
        for first in range(0, len(position), _BLOCK_ROWS):
            span = slice(first, first + _BLOCK_ROWS)
            yield span, [_kept(position[span], box, sign) for sign in signs]

    def blocks() -> Iterator[Rows]:
        for span, kept in spans():
            either = np.logical_or.reduce(kept)
            block = _fill(schema, columns, parameters, span, either)
            for sign, keep in zip(signs, kept, strict=True):
                part = block[keep[either]]
                part[:, flips] *= sign
                yield part

    rows = sum(int(keep.sum()) for _, kept in spans() for keep in kept)
    if not rows:
        raise ValueError(f"box must hold some of the {len(position)} points, got none in {box}")
    return RowBlocks(rows, blocks(), parameters)


def _kept(position: NDArray[Any], box: Box | None, sign: int) -> NDArray[np.bool_]:
    """Which points are rows; with `sign` = -1, which mirror images are."""
    here = position * np.array([1, sign, 1], position.dtype)
    keep = np.ones(len(here), bool) if sign == 1 else np.abs(here[:, 1]) > _ON_PLANE
    return keep & in_box(here, *box) if box else keep


def _fill(
    schema: Schema,
    columns: Mapping[str, Column],
    parameters: Parameters,
    span: slice,
    keep: NDArray[np.bool_],
) -> Rows:
    position = columns["position"]
    assert isinstance(position, np.ndarray)
    block = np.empty((int(keep.sum()), schema.width), np.float32)
    for field in schema.fields:
        column = columns.get(field.name)
        if column is None:
            values = parameters[field.name]
        elif isinstance(column, np.ndarray):
            values = column[span][keep].reshape(-1, field.components)
        else:
            values = column(position[span][keep]).reshape(-1, field.components)
        block[:, schema.columns(field.name)] = values
    return block


def is_half(position: NDArray[Any]) -> bool:
    """Whether all points lie on one side of the plane y = 0."""
    y = position[:, 1]
    return bool(y.min() >= -_ON_PLANE or y.max() <= _ON_PLANE)
