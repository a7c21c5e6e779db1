"""The contents of a VTK XML file (.vtp, .vtu, ...): its arrays, and where their values are.

    <VTKFile type="UnstructuredGrid" byte_order="LittleEndian" header_type="UInt64">
      <UnstructuredGrid>
        <Piece NumberOfPoints="8" NumberOfCells="1">
          <PointData> <DataArray type="Float32" Name="p" format="appended" offset="0"/> ...

Parsing stops where the appended binary data begin, so that a file of any size takes milliseconds.
Values inside the elements must be parsed and are skipped, which takes as long as reading them.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from xml.parsers import expat

from slipstream.data.meshes.arrays import (
    LOCATIONS,
    ArrayInfo,
    Location,
    MeshInfo,
    check_array_count,
    grid_size,
)
from slipstream.data.meshes.parts import open_parts, whole_name

_BLOCK = 1 << 20
_SECTIONS: dict[str, Location] = {"PointData": "point", "CellData": "cell"}
_KNOWN = (*_SECTIONS, "FieldData", "Points", "Cells", "Verts", "Lines", "Strips", "Polys")
_KNOWN += ("Coordinates",)
_STRUCTURED = ("ImageData", "StructuredGrid", "RectilinearGrid")
_CELLS = ("NumberOfCells", "NumberOfVerts", "NumberOfLines", "NumberOfStrips", "NumberOfPolys")


@dataclass(frozen=True)
class XmlArray:
    """A DataArray element."""

    section: str
    """PointData, CellData, Points, Cells, ..."""
    name: str
    dtype: str
    components: int
    form: str
    """ascii, binary or appended."""
    place: int
    """The byte of the file where the values begin; for binary, that of the element."""

    @property
    def label(self) -> str:
        """The name for errors; the array of the points may have none."""
        return "the points" if self.section == "Points" and not self.name else repr(self.name)


@dataclass(frozen=True)
class Piece:
    """Points and cells with their arrays; most files have one piece."""

    points: int
    cells: int
    polygons: int = 0
    """How many of the cells are polygons; for PolyData only."""
    arrays: tuple[XmlArray, ...] = ()

    def find(self, section: str, name: str | None = None) -> XmlArray | None:
        fitting = (a for a in self.arrays if a.section == section and name in (None, a.name))
        return next(fitting, None)

    def info(self) -> MeshInfo:
        arrays = []
        for array in self.arrays:
            location = _SECTIONS.get(array.section)
            if location:
                rows = self.points if location == "point" else self.cells
                arrays.append(ArrayInfo(array.name, location, array.components, rows, array.dtype))
        return MeshInfo(self.points, self.cells, tuple(arrays))


@dataclass(frozen=True)
class XmlHeader:
    file: str
    kind: str
    """PolyData, UnstructuredGrid, ..."""
    order: Literal["<", ">"]
    """The order of bytes, as numpy writes it."""
    length_bytes: int
    """How many bytes the numbers have that give the length of an array's values."""
    compressor: str
    encoded: bool
    """Whether appended values are in base64."""
    pieces: tuple[Piece, ...]

    def info(self) -> MeshInfo:
        return together([piece.info() for piece in self.pieces])


def scan_xml(paths: Sequence[Path]) -> XmlHeader:
    """The header of a file or of its byte parts.

    ValueError unless the file has its closing tag, which a truncated file has not.
    """
    name = whole_name(paths)
    scan = _Scan()
    with open_parts(paths) as file:
        try:
            scan.parse(file)
            appended = scan.appended is not None and _after_mark(file, scan.place)
            if scan.appended is not None:
                _check_end(file)
        except (expat.ExpatError, ValueError) as error:
            raise ValueError(f"{name} must be a whole VTK XML file, got {error}") from None
    parsed = scan.pieces if scan.size is None else [replace(scan.size, arrays=scan.arrays())]
    pieces = [
        replace(piece, arrays=tuple(_placed(array, int(appended)) for array in piece.arrays))
        for piece in parsed
    ]
    return XmlHeader(
        name,
        scan.given.get("type", ""),
        ">" if scan.given.get("byte_order") == "BigEndian" else "<",
        8 if scan.given.get("header_type") == "UInt64" else 4,
        scan.given.get("compressor", ""),
        scan.appended == "base64",
        tuple(pieces),
    )


def together(pieces: Sequence[MeshInfo]) -> MeshInfo:
    """Several pieces as one mesh, which has the arrays that all non-empty pieces have."""
    arrays = []
    for location in LOCATIONS:
        full = [piece for piece in pieces if piece.rows(location)]
        rows = sum(piece.rows(location) for piece in full)
        held = [[replace(array, rows=rows) for array in piece.arrays] for piece in full]
        sets = [set(others) for others in held]
        for array in held[0] if held else []:
            if array.location == location and all(array in others for others in sets):
                arrays.append(array)
    points, cells = (sum(piece.rows(location) for piece in pieces) for location in LOCATIONS)
    return MeshInfo(points, cells, tuple(arrays))


class _Stop(Exception):
    """Raised to stop the parser before the raw bytes."""


@dataclass
class _Scan:
    """Collects the elements that the parser reports."""

    given: dict[str, str] = field(default_factory=dict)
    """Attributes of the VTKFile element."""
    size: Piece | None = None
    """Points and cells of a structured grid, whose pieces have points in common."""
    appended: str | None = None
    """The encoding of the appended values, where there are any."""
    place: int = 0
    _section: str = ""
    _pieces: list[Piece] = field(default_factory=list)
    _arrays: list[list[XmlArray]] = field(default_factory=list)
    """Those of each piece."""

    @property
    def pieces(self) -> list[Piece]:
        found = zip(self._pieces, self._arrays, strict=True)
        return [replace(piece, arrays=tuple(arrays)) for piece, arrays in found]

    def arrays(self) -> tuple[XmlArray, ...]:
        """The arrays of the first piece; those of a structured grid all have the same."""
        return tuple(self._arrays[0]) if self._arrays else ()

    def parse(self, file: io.BufferedReader) -> None:
        parser = expat.ParserCreate()

        def start(tag: str, given: dict[str, str]) -> None:
            self.place = parser.CurrentByteIndex
            self.start(tag, given)

        parser.StartElementHandler = start
        try:
            while block := file.read(_BLOCK):
                parser.Parse(block)
            parser.Parse(b"", True)
        except _Stop:
            pass

    def start(self, tag: str, given: dict[str, str]) -> None:
        if tag == "AppendedData":
            self.appended = given.get("encoding", "")
            raise _Stop
        if tag == "VTKFile":
            self.given = given
        elif tag in _STRUCTURED:
            self.size = _grid(given.get("WholeExtent", ""))
        elif tag == "Piece":
            cells = sum(int(given.get(name, 0)) for name in _CELLS)
            points, polygons = (
                int(given.get(f"NumberOf{what}", 0)) for what in ("Points", "Polys")
            )
            self._pieces.append(Piece(points, cells, polygons))
            self._arrays.append([])
        elif tag == "DataArray" and self._pieces:
            self._add(given)
        elif tag in _KNOWN:  # others are inside a DataArray, as InformationKey
            self._section = tag

    def _add(self, given: dict[str, str]) -> None:
        form = given.get("format", "ascii")
        array = XmlArray(
            self._section,
            given.get("Name", ""),
            given.get("type", "").lower(),
            max(1, int(given.get("NumberOfComponents", 1))),
            form,
            int(given.get("offset", 0)) if form == "appended" else self.place,
        )
        self._arrays[-1].append(array)
        check_array_count(len(self._arrays[-1]))


def _grid(extent: str) -> Piece:
    """Points and cells from the first and last number of points along each axis."""
    numbers = [int(number) for number in extent.split()]
    if len(numbers) != 6:
        raise ValueError(f"the extent {extent!r}, not six numbers")
    return Piece(*grid_size([b - a + 1 for a, b in zip(numbers[::2], numbers[1::2], strict=True)]))


def _placed(array: XmlArray, appended: int) -> XmlArray:
    """The array with its place counted from the beginning of the file, not of the appended data."""
    return replace(array, place=array.place + appended) if array.form == "appended" else array


def _after_mark(file: io.BufferedReader, place: int) -> int:
    """The byte where appended values begin, after the _ that follows the element."""
    file.seek(place)
    head = file.read(4096)
    mark = head.find(b"_", head.find(b">"))
    if mark < 0:
        raise ValueError("no _ before the appended values")
    return place + mark + 1


def _check_end(file: io.BufferedReader) -> None:
    size = file.seek(0, 2)
    file.seek(max(0, size - 256))
    if b"</VTKFile>" not in file.read():
        raise ValueError("no </VTKFile> at its end: it is truncated")
