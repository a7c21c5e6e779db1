"""Binary legacy VTK files read without VTK, which would read all of their arrays and cells."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes.arrays import ArrayInfo, MeshInfo
from slipstream.data.meshes.cells import CHUNK, POLYGON, Cells, Chunk
from slipstream.data.meshes.legacy_header import CellBlock, LegacyHeader
from slipstream.data.meshes.legacy_words import Block
from slipstream.data.meshes.parts import open_parts
from slipstream.data.meshes.text_numbers import next_numbers

_POLYHEDRON = 42
_Part = tuple[int, NDArray[np.int64], NDArray[Any]]
"""The number of the first of some cells, where each begins among their corners, the corners."""


@dataclass(frozen=True, eq=False)
class LegacyFile:
    """A file, or its byte parts, whose header has been read."""

    paths: tuple[Path, ...]
    header: LegacyHeader

    @property
    def name(self) -> str:
        return self.header.file

    @property
    def info(self) -> MeshInfo:
        return self.header.info

    def readable(self, arrays: Sequence[ArrayInfo]) -> bool:
        """Whether points and these arrays can be read here; VTK must read text and packed bits."""
        blocks = [self.header.points, *(self._block(array) for array in arrays)]
        return self.header.binary and all(block and not block.packed for block in blocks)

    def points(self) -> NDArray[Any]:
        with open_parts(self.paths) as file:
            return _take(file, self.header.points).reshape(-1, 3)

    def values(self, info: ArrayInfo) -> NDArray[Any]:
        with open_parts(self.paths) as file:
            values = _take(file, self._block(info))
        return values if info.components == 1 else values.reshape(-1, info.components)

    def cells(self) -> Cells | None:
        """The cells; None if VTK must read them: polyhedra, and lines and strips, which VTK
        reorders."""
        sections = [section for section in self.header.cells if section.cells]
        if not sections:
            return Cells(self.name, 0, self.info.points, lambda: iter(()))
        section = sections[0]
        if len(sections) > 1 or section.name not in ("CELLS", "POLYGONS"):
            return None
        types = self._types(section)
        if (types == _POLYHEDRON).any():
            return None

        def chunks() -> Iterator[Chunk]:
            with open_parts(self.paths) as file:
                parts = _by_offsets if section.offsets else _by_lengths
                for first, begins, corners in parts(file, section, self.name):
                    yield Chunk(types[first : first + len(begins)], begins, corners)

        return Cells(self.name, section.cells, self.info.points, chunks)

    def check_cells(self) -> None:
        """Raise ValueError for corners that are no points; VTK reads them without looking."""
        with open_parts(self.paths) as file:
            for section in self.header.cells:
                types = self._types(section)
                if section.offsets:
                    begins, corners = _take(file, section.offsets), _take(file, section.corners)
                    _check_offsets(begins, len(corners), self.name)
                    if len(begins) and (begins[0] != 0 or begins[-1] != len(corners)):
                        raise ValueError(
                            f"the offsets of cells in {self.name} must end with {len(corners)}, the"
                            f" number of corners, got {begins[-1]}"
                        )
                else:
                    corners = _take(file, section.corners)
                    begins = _lengths_at(corners, section.cells, self.name)
                    corners = np.delete(corners, begins[:-1])
                low, high = (corners.min(), corners.max()) if len(corners) else (0, 0)
                polyhedra = (types == _POLYHEDRON).any()  # they list counts among their corners
                if not polyhedra and len(corners) and not 0 <= low <= high < self.info.points:
                    raise ValueError(
                        f"the cells of {self.name} must have corners among its {self.info.points}"
                        f" points, got numbers from {low} to {high}"
                    )

    def _types(self, section: CellBlock) -> NDArray[np.uint8]:
        if section.name != "CELLS":
            return np.full(section.cells, POLYGON, np.uint8)
        block = self.header.types
        if block is None or block.count != section.cells:
            got = block.count if block else 0
            raise ValueError(
                f"{self.name} must have a type for all {section.cells} cells, got {got}"
            )
        with open_parts(self.paths) as file:
            return _take(file, block).astype(np.uint8)

    def _block(self, info: ArrayInfo) -> Block | None:
        return self._blocks.get(info)

    @cached_property
    def _blocks(self) -> dict[ArrayInfo, Block]:
        return dict(self.header.arrays)


def _by_offsets(file: io.BufferedReader, section: CellBlock, name: str) -> Iterator[_Part]:
    """Cells of version 5 and later, which store offsets and corners in separate blocks."""
    offsets, corners = section.offsets, section.corners
    total = corners.count if corners else 0
    for first in range(0, section.cells, CHUNK):
        bounds = _take(file, offsets, first, min(CHUNK, section.cells - first) + 1)
        bounds = bounds.astype(np.int64, copy=False)
        _check_offsets(bounds, total, name)
        here = _take(file, corners, int(bounds[0]), int(bounds[-1] - bounds[0]))
        yield first, bounds[:-1] - bounds[0], here


def _check_offsets(bounds: NDArray[Any], total: int, name: str) -> None:
    if len(bounds) and ((np.diff(bounds) < 0).any() or bounds[0] < 0 or bounds[-1] > total):
        raise ValueError(f"the offsets of cells in {name} must rise, got a fall or too much")


def _by_lengths(file: io.BufferedReader, section: CellBlock, name: str) -> Iterator[_Part]:
    """Cells before version 5, which store for each cell its number of corners, then the corners."""
    numbers = _take(file, section.corners)
    begins = _lengths_at(numbers, section.cells, name)
    for first in range(0, section.cells, CHUNK):
        at = begins[first : first + CHUNK + 1]
        here = numbers[at[0] : at[-1]]
        corner = np.ones(len(here), bool)
        corner[at[:-1] - at[0]] = False
        yield first, at[:-1] - at[0] - np.arange(len(at) - 1), here[corner]


def _lengths_at(numbers: NDArray[Any], cells: int, name: str) -> NDArray[np.int64]:
    """The place of each cell's length among the numbers, and the end of the last cell.

    A triangle and a quadrangle, 3, 0, 1, 2, 4, 1, 2, 3, 4, have lengths at 0 and 4 and end at 9.
    """
    width = int(numbers[0]) + 1 if len(numbers) else 1
    if width > 0 and len(numbers) == cells * width and (numbers[::width] == width - 1).all():
        return np.arange(cells + 1) * width
    places = np.empty(cells + 1, np.int64)
    place, lengths = 0, memoryview(numbers)  # type: ignore[arg-type]
    for cell in range(cells):  # one by one: the next cell begins where this one ends
        places[cell] = place
        length = lengths[place] if 0 <= place < len(numbers) else -1
        if length < 0:
            raise ValueError(f"the cells of {name} must follow one another, got a wrong length")
        place += length + 1
    places[cells] = place
    if place != len(numbers):
        raise ValueError(f"the cells of {name} must take {len(numbers)} numbers, got {place}")
    return places


def _take(
    file: io.BufferedReader, block: Block | None, first: int = 0, count: int | None = None
) -> NDArray[Any]:
    """Values in the byte order of this machine; the file has the most significant byte first.

    Of a text all are read.
    """
    if block is None:
        return np.empty(0, np.int64)
    if block.text:
        file.seek(block.place)
        parts = next_numbers(file, block.count, block.dtype)
        return np.concatenate([np.empty(0, block.dtype), *parts])
    values = np.empty(block.count if count is None else count, block.dtype)
    file.seek(block.place + first * values.itemsize)
    if file.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[arg-type]
        raise ValueError(f"a legacy VTK file must not change while it is read, got {block}")
    return values.byteswap(inplace=True) if sys.byteorder == "little" else values
