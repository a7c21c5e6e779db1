"""PLY files, read by hand: no library reads their arrays and survives a file that is cut off.

    ply
    format binary_little_endian 1.0
    element vertex 8
    property float x
    ...
    element face 6
    property list uchar int vertex_indices
    end_header

Properties of vertices besides x, y, z become point data (nx, ny, nz together: "Normals"), those of
faces besides the corners cell data.

Of 71 files that are cut off (2026-11-18) vtkPLYReader 9.7.1 kills its process on 43 and returns a
mesh for 28; meshio 5.3.5 hangs on two, returns a mesh for two and raises one of four kinds of error
for the others. A check of the length before VTK would have to walk all lists, as here, and of
pressure, quality and normals at vertices VTK keeps the normals alone; meshio fails on whole files
whose faces have a second property.

Seconds of CPU and peak MB for 1M vertices and 2M triangles: binary 0.3 and 262 here, 0.2 and 97 in
VTK, 0.4 and 82 in meshio; text 1.7 and 773, 0.3 and 97, 4.0 and 407. Triangles mixed with quads,
1.5M faces: 1.3 and 231, 0.2 and 86, 0.3 and 66.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.text import printable
from slipstream.data.meshes.text_numbers import numbers, words_of

Columns = dict[str, NDArray[Any]]

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip
_ORDERS: dict[str, Literal["<", ">"] | None] = {
    "ascii": None, "binary_little_endian": "<", "binary_big_endian": ">"
}  # fmt: skip
_CHUNK = 1 << 18
_CORNERS = ("vertex_indices", "vertex_index")


@dataclass(frozen=True)
class PlyMesh:
    points: NDArray[Any]
    offsets: NDArray[np.int64]
    corners: NDArray[np.int64]
    point_data: Columns
    cell_data: Columns


@dataclass
class _Element:
    """A table of the file: its rows, and its columns.

    A column has the dtype of its values and, if these are lists, the dtype of their lengths.
    """

    name: str
    rows: int
    columns: dict[str, tuple[str, str | None]] = field(default_factory=dict)


def read_ply(path: Path) -> PlyMesh:
    """The mesh; ValueError if the file holds less than its header says."""
    with path.open("rb") as file:
        try:
            order, elements = _header(file)
            body = _Text(file.read()) if order is None else _Binary(file.read(), order)
            tables, place = {}, 0
            for element in elements:
                tables[element.name], place = _table(element, body, place)
            if place != body.size:
                raise ValueError(f"{body.size - place} {body.unit} after its last row")
            return _mesh(tables)
        except (ValueError, LookupError, OverflowError) as error:
            got = printable(str(error))  # it quotes the file
            raise ValueError(f"{path.name} must be a whole PLY file, got {got}") from None


def _header(file: io.BufferedReader) -> tuple[Literal["<", ">"] | None, list[_Element]]:
    if file.readline(64).strip() != b"ply":
        raise ValueError("another first line")
    kind = ""
    elements: list[_Element] = []
    for line in iter(file.readline, b""):
        match line.decode("latin-1").split():
            case ["format", kind, _]:
                pass
            case ["element", name, rows]:
                if any(element.name == name for element in elements):
                    raise ValueError(f"two elements called {name}")
                elements.append(_Element(name, int(rows)))
            case ["property", "list", length, dtype, name]:
                _add_column(elements, name, _type(dtype), _type(length))
            case ["property", dtype, name]:
                _add_column(elements, name, _type(dtype), None)
            case ["end_header"]:
                if kind not in _ORDERS:
                    raise ValueError(f"the format {kind!r}")
                return _ORDERS[kind], elements
            case [] | ["comment" | "obj_info", *_]:
                pass
            case other:
                raise ValueError(f"the line {' '.join(other)[:40]!r} in its header")
    raise ValueError("a header without end_header")


def _type(name: str) -> str:
    if name not in _TYPES:
        raise ValueError(f"a property of the unknown type {name[:40]!r}")
    return _TYPES[name]


def _add_column(elements: list[_Element], name: str, dtype: str, length: str | None) -> None:
    if not elements:
        raise ValueError(f"the property {name} of no element")
    if name in elements[-1].columns:
        raise ValueError(f"two properties called {name} in {elements[-1].name}")
    if length and length[0] == "f":
        raise ValueError(f"lists in {name} with lengths that are no integers")
    elements[-1].columns[name] = dtype, length


class _Text:
    """The body of a text file, in which the place of a value is the number of its word."""

    unit = "words"

    def __init__(self, text: bytes) -> None:
        self._words = words_of(text)
        self._array = np.array(self._words or [b""])
        self.size = len(self._words)

    def width(self, dtype: str) -> int:
        return 1

    def number(self, place: int, dtype: str) -> int:
        return int(numbers([self._words[place]], dtype)[0])

    def values(self, places: NDArray[np.int64], dtype: str) -> NDArray[Any]:
        return numbers(self._array[places], dtype)


class _Binary:
    """The body of a binary file, in which the place of a value is its first byte."""

    unit = "bytes"

    def __init__(self, raw: bytes, order: Literal["<", ">"]) -> None:
        self._raw, self._bytes, self._order = raw, np.frombuffer(raw, np.uint8), order
        self.size = len(raw)

    def width(self, dtype: str) -> int:
        return int(dtype[1])

    def number(self, place: int, dtype: str) -> int:
        raw = self._raw[place : place + self.width(dtype)]
        return int.from_bytes(
            raw, "little" if self._order == "<" else "big", signed=dtype[0] == "i"
        )

    def values(self, places: NDArray[np.int64], dtype: str) -> NDArray[Any]:
        values = np.empty(len(places), dtype)
        for first in range(0, len(places), _CHUNK):
            at = places[first : first + _CHUNK, None] + np.arange(self.width(dtype))
            values[first : first + _CHUNK] = self._bytes[at].view(self._order + dtype)[:, 0]
        return values


def _table(element: _Element, body: _Text | _Binary, place: int) -> tuple[Columns, int]:
    """The columns of the element that begins at this place, and the place where it ends.

    A list becomes two columns, of values and of lengths.
    """
    begins = _begins(element, body, place)
    table: Columns = {}
    at = begins[:-1]
    for name, (dtype, length) in element.columns.items():
        counts = np.ones(element.rows, np.int64)
        if length:
            counts = table[f"{name} lengths"] = body.values(at, length).astype(np.int64)
            at = at + body.width(length)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        table[name] = body.values(np.repeat(at, counts) + number * body.width(dtype), dtype)
        at = at + counts * body.width(dtype)
    return table, int(begins[-1])


def _begins(element: _Element, body: _Text | _Binary, place: int) -> NDArray[np.int64]:
    """The place where each row begins, and where the last one ends; ValueError beyond the file."""
    if not element.columns:
        return np.array([place])
    short = f"an end before the last of the {element.rows} rows of {element.name}"
    least = sum(body.width(length or dtype) for dtype, length in element.columns.values())
    if not 0 <= least * element.rows <= body.size - place:
        raise ValueError(short)
    ends = place + least * np.arange(element.rows + 1)
    if element.rows and any(length for _, length in element.columns.values()):
        ends = _list_ends(element, body, place)
    if ends[-1] > body.size:
        raise ValueError(short)
    return ends


def _list_ends(element: _Element, body: _Text | _Binary, place: int) -> NDArray[np.int64]:
    """The same for rows with lists, whose lengths are in the file.

    Rows are first assumed to be as long as the first one, which is checked for all at once; if some
    are not, rows are gone through one by one.
    """

    def after(at: int) -> int:
        for dtype, length in element.columns.values():
            count = 1
            if length:
                count = body.number(at, length) if at + body.width(length) <= body.size else -1
                if count < 0:
                    raise ValueError(f"a wrong or missing length of a list in {element.name}")
                at += body.width(length)
            at += count * body.width(dtype)
        return at

    even = place + (after(place) - place) * np.arange(element.rows + 1)
    if even[-1] <= body.size:
        at, same = even[:-1], True
        for dtype, length in element.columns.values():
            counts = body.values(at, length) if length else np.ones(1)
            same = same and bool((counts == counts[0]).all())
            at = at + (body.width(length) if length else 0) + int(counts[0]) * body.width(dtype)
        if same:
            return even
    ends = [place]
    for _ in range(element.rows):
        ends.append(after(ends[-1]))
    return np.array(ends)


def _mesh(tables: dict[str, Columns]) -> PlyMesh:
    vertex, face = tables.get("vertex", {}), tables.get("face", {})
    if not {"x", "y", "z"} <= set(vertex):
        raise ValueError("vertices without x, y and z")
    points = np.stack([vertex.pop(axis) for axis in "xyz"], 1)
    if {"nx", "ny", "nz"} <= set(vertex):
        vertex["Normals"] = np.stack([vertex.pop(axis) for axis in ("nx", "ny", "nz")], 1)
    name = next((name for name in _CORNERS if name in face), None)
    if face and name is None:
        raise ValueError(f"faces without {_CORNERS[0]}")
    corners = face.pop(name) if name else np.empty(0, np.int64)
    lengths = face.pop(f"{name} lengths") if name else np.empty(0, np.int64)
    if len(corners) and (corners.min() < 0 or corners.max() >= len(points)):
        raise ValueError(f"corners of faces that are not among its {len(points)} points")
    lists = {column for column in (*vertex, *face) if f"{column} lengths" in {**vertex, **face}}
    kept = [
        {n: v for n, v in table.items() if n.removesuffix(" lengths") not in lists}
        for table in (vertex, face)
    ]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return PlyMesh(points, offsets, corners.astype(np.int64), *kept)
