"""Checks of a VTK XML file before any value is read, by this package or by VTK.

VTK trusts the header: pieces that do not cover a structured grid leave memory as it was, bytes lost
from appended values shift all that follow, and sizes are allocated as declared. Here every array
must have the length that the header gives it, appended blocks must follow one another from the
first byte to the last, and pieces must cover their grid.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes.arrays import ArrayInfo, check_grid
from slipstream.data.meshes.parts import open_parts
from slipstream.data.meshes.text_numbers import numbers_between
from slipstream.data.meshes.xml_header import (
    CELL_SECTIONS,
    STRUCTURED,
    TEXT,
    Piece,
    XmlArray,
    XmlHeader,
    extent_size,
    parse_xml,
)
from slipstream.data.meshes.xml_values import RATIOS, check_letters, find_blocks

_PADDING = 64
"""Fewer bytes than this may lie between two blocks, for their alignment; VTK writes none."""
_RATIO = max(RATIOS.values())
_SECTIONS = {"point": "PointData", "cell": "CellData"}


def scan_xml(paths: Sequence[Path]) -> XmlHeader:
    """The header of a file or of its byte parts; ValueError unless the file holds what it says."""
    header = parse_xml(paths)
    if header.compressor and header.compressor not in RATIOS:
        known = ", ".join(RATIOS)
        raise ValueError(
            f"the compressor of {header.file} must be {known}, got {header.compressor[:40]!r}"
        )
    if header.kind in STRUCTURED:
        _check_cover(header)
    with open_parts(paths) as file:
        blocks = [_Tile(header.appended[0], header.appended[0])]
        for piece in header.pieces:
            _check_sections(header, piece)
            for array in piece.arrays:
                blocks += _check_array(file, header, array, _expected(piece, array))
        for array in header.other_arrays:
            count = None if array.tuples is None else array.tuples * array.components
            blocks += _check_array(file, header, array, count)
        if len(blocks) > 1:
            _check_tiles(file, header, blocks)
    return header


def check_for_vtk(path: Path, header: XmlHeader, wanted: Sequence[ArrayInfo]) -> None:
    """What VTK would read wrongly: pieces with other arrays, text that is no number or base64."""
    full = [piece for piece in header.pieces if piece.points]
    names = [[(a.section, a.name, a.components) for a in _data(piece)] for piece in full]
    for others in names[1:]:  # VTK takes them by their order
        if others != names[0]:
            raise ValueError(
                f"the pieces of {header.file} must have the same arrays in the same order, got"
                " others in some"
            )
    chosen = {(_SECTIONS[info.location], info.name) for info in wanted}
    with open_parts([path]) as file:
        for piece in full:
            for array in piece.arrays:
                data = array.section in _SECTIONS.values()
                if data and (array.section, array.name) not in chosen:
                    continue
                if array.form == "ascii":
                    _check_text(file, header, array, _expected(piece, array))
                elif array.form == "binary" or header.encoded:
                    _check_letters(file, header, array, _expected(piece, array))


def _check_letters(
    file: io.BufferedReader, header: XmlHeader, array: XmlArray, count: int | None
) -> None:
    empty = count == 0 or (array.form == "binary" and _is_blank(file, array))
    if array.dtype != TEXT and not empty:
        check_letters(file, header, array)


def _data(piece: Piece) -> list[XmlArray]:
    return [array for array in piece.arrays if array.section in _SECTIONS.values()]


def _check_cover(header: XmlHeader) -> None:
    """Pieces must cover a structured grid, each of its cells once; they share points."""
    points, cells = extent_size(header.extent)
    check_grid(points, _RATIO * header.size, header.file)
    full = [piece for piece in header.pieces if piece.points]
    whole = np.array(header.extent, np.int64).reshape(3, 2)
    boxes = np.array([piece.extent for piece in full], np.int64).reshape(-1, 3, 2)
    first, last = boxes[..., 0] - whole[:, 0], boxes[..., 1] - whole[:, 0]
    length = whole[:, 1] - whole[:, 0]
    if (first < 0).any() or (last > length).any():
        raise ValueError(
            f"the pieces of {header.file} must lie in its extent {header.extent}, got"
            f" {', '.join(str(piece.extent) for piece in full)[:200]}"
        )
    last = np.where(length == 0, 1, last)  # a flat grid is one cell thick
    covered = sum(math.prod(sides) for sides in (last - first).tolist())
    if points and (covered != cells or _overlap(first, last)):
        raise ValueError(
            f"the pieces of {header.file} must cover its {cells} cells, each once, got"
            f" {len(full)} pieces of {covered} cells"
        )


def _overlap(first: NDArray[np.int64], last: NDArray[np.int64]) -> bool:
    """Whether two boxes have a cell in common, by the first and last corner of each, (B, 3)."""
    order = np.argsort(first[:, 0], kind="stable")
    first, last = first[order], last[order]
    for i, stop in enumerate(np.searchsorted(first[:, 0], last[:, 0]).tolist()):
        others = slice(i + 1, stop)  # those that begin before this one ends
        if ((first[others] < last[i]) & (last[others] > first[i])).all(1).any():
            return True
    return False


def _check_sections(header: XmlHeader, piece: Piece) -> None:
    """Points and cells that are declared must be there; VTK allocates them without looking."""
    needed: list[tuple[str, str | None]] = []
    if header.kind != "ImageData" and header.kind != "RectilinearGrid" and piece.points:
        needed.append(("Points", None))
    for section, count in piece.by_section.items():
        names = ("connectivity", "offsets", *(("types",) if section == "Cells" else ()))
        needed += [(section, name) for name in names if count]
    for section, name in needed:
        if not piece.find(section, name):
            raise ValueError(f"{header.file} must have {section} {name or ''}, got none")
    points = piece.find("Points")
    if points and piece.points and points.components != 3:
        raise ValueError(
            f"the points of {header.file} must have 3 components, got {points.components}"
        )
    axes = [array for array in piece.arrays if array.section == "Coordinates"]
    if header.kind == "RectilinearGrid" and len(axes) != 3:
        raise ValueError(f"{header.file} must have three arrays of Coordinates, got {len(axes)}")


def _expected(piece: Piece, array: XmlArray) -> int | None:
    """How many values the header says an array has; None if it does not say."""
    if array.section == "PointData":
        return piece.points * array.components
    if array.section == "CellData":
        return piece.cells * array.components
    if array.section == "Points":
        return piece.points * 3
    if array.section == "Coordinates" and piece.extent:
        axis = [a for a in piece.arrays if a.section == "Coordinates"].index(array)
        return max(0, piece.extent[2 * axis + 1] - piece.extent[2 * axis] + 1)
    if array.section in CELL_SECTIONS and array.name in ("offsets", "types"):
        return piece.by_section.get(array.section)
    return None


@dataclass(frozen=True)
class _Tile:
    """A block of appended values: its first byte, and the one that follows it."""

    place: int
    end: int
    array: XmlArray | None = None


def _check_array(
    file: io.BufferedReader, header: XmlHeader, array: XmlArray, count: int | None
) -> Iterable[_Tile]:
    """Its block, if it is appended; ValueError unless it has as many values as the header says."""
    if array.dtype == TEXT:
        count = None
    room = array.end - array.place
    if array.form == "ascii":
        if count is not None and 2 * count - 1 > max(0, room):  # a digit and a blank each
            raise ValueError(
                f"{array.label} of {header.file} must have {count} values, as the header says, got"
                f" {room} letters"
            )
        return []
    if array.form == "binary" and not count and _is_blank(file, array):
        return []
    blocks = find_blocks(file, header, array)
    _check_total(header, array, blocks.total, count)
    if array.form == "appended":
        return [_Tile(array.place, blocks.end, array)] if count != 0 or not blocks.total else []
    file.seek(blocks.end - 1)
    final, rest = file.read(1), file.read(array.end - blocks.end)
    if final.isspace() or rest.strip():
        raise ValueError(
            f"{array.label} of {header.file} must end with its last value, got"
            f" {'more' if rest.strip() else 'fewer'} letters"
        )
    return []


def _is_blank(file: io.BufferedReader, array: XmlArray) -> bool:
    file.seek(array.place)
    return not file.read(min(4096, array.end - array.place)).strip()


def _check_total(header: XmlHeader, array: XmlArray, total: int, count: int | None) -> None:
    """Raise ValueError unless `total` bytes are as many as `count` values need."""
    if array.dtype == TEXT or (count == 0 and array.form == "appended"):
        return  # an empty array may point anywhere
    if array.dtype == "bit":
        good = count is None or total == (count + 7) // 8
        values = 8 * total
    else:
        width = np.dtype(array.dtype).itemsize
        values, rest = divmod(total, width)
        good = not rest and count in (None, values)
    if not good:
        needed = "whole values" if count is None else f"{count} values, as the header says"
        raise ValueError(
            f"{array.label} of {header.file} must have {needed}, got {values} in {total} bytes"
        )


def _check_tiles(file: io.BufferedReader, header: XmlHeader, blocks: list[_Tile]) -> None:
    """Appended blocks must follow one another from the first byte to the closing tag.

    One byte lost anywhere shifts all blocks behind it, so that their lengths are no longer where
    the header says, or moves the closing tag into the last block.
    """
    blocks.sort(key=lambda block: (block.place, block.end))
    before = blocks[0]
    for block in blocks[1:]:
        if (block.place, block.end) == (before.place, before.end):
            continue  # two names for the same values
        _check_gap(file, header, before, block.place)
        before = block
    _check_tail(file, header, before)


def _check_tail(file: io.BufferedReader, header: XmlHeader, last: _Tile) -> None:
    """Only white space may lie between the last block and the closing tag.

    If the block ends with white space as well, bytes may be lost: of `\\n  </AppendedData>`, which
    VTK writes, up to three are taken for values. That is excluded where a newline follows. Types of
    cells may be 9, 10 and 13, which are white space, so they may be followed by the tag itself; if
    one is lost, their number of corners shows it.
    """
    file.seek(0)
    newline = b"\r\n" if b"\r\n" in file.read(1024) else b"\n"
    file.seek(max(0, last.end - 1))
    final, tail = file.read(1), file.read(header.appended[1] - last.end)
    label = last.array.label if last.array else "no array"
    if not re.fullmatch(rb"(ENDBINARY)?[ \t\r\n]*", tail):
        raise ValueError(
            f"the appended values of {header.file} must end with those of {label}, got"
            f" {len(tail)} bytes more"
        )
    types = last.array is not None and last.array.name == "types" and not tail and final != b" "
    apart = not header.encoded and (tail.startswith((newline, b"ENDBINARY")) or types)
    if final in b" \t\r\n" and not apart:
        raise ValueError(
            f"the appended values of {header.file} must end before the blanks of its closing tag,"
            f" got those of {label} that end inside: bytes are lost"
        )


def _check_gap(file: io.BufferedReader, header: XmlHeader, before: _Tile, place: int) -> None:
    gap = place - before.end
    file.seek(before.end)
    if not 0 <= gap < _PADDING or file.read(max(0, gap)).strip(b"\0 \t\r\n"):
        label = before.array.label if before.array else "the mark _"
        raise ValueError(
            f"the appended values of {header.file} must follow one another, got a"
            f" {'gap' if gap > 0 else 'overlap'} of {abs(gap)} bytes after {label}"
        )


def _check_text(
    file: io.BufferedReader, header: XmlHeader, array: XmlArray, count: int | None
) -> None:
    """Raise ValueError unless the text of an array has `count` numbers and nothing else."""
    if array.dtype == TEXT:
        return
    kind = "uint8" if array.dtype == "bit" else array.dtype
    try:
        seen = sum(len(part) for part in numbers_between(file, array.place, array.end, kind))
    except ValueError as error:
        raise ValueError(f"{array.label} of {header.file} must be numbers, got {error}") from None
    if count is not None and seen != count:
        raise ValueError(
            f"{array.label} of {header.file} must have {count} values, as the header says, got"
            f" {seen}"
        )
