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
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
CELL_SECTIONS = ("Cells", "Verts", "Lines", "Strips", "Polys")
_KNOWN = (*_SECTIONS, "FieldData", "Points", *CELL_SECTIONS, "Coordinates")
STRUCTURED = ("ImageData", "StructuredGrid", "RectilinearGrid")
_KINDS = (*STRUCTURED, "PolyData", "UnstructuredGrid")
_ARRAYS = ("DataArray", "Array")
_FORMS = ("ascii", "binary", "appended")
TEXT = "string"
"""The dtype of an array of text, which is never read."""
_TYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bit", TEXT,
)  # fmt: skip
Extent = tuple[int, ...]
"""The first and last number of points along each axis, as (0, 10, 0, 20, 0, 5)."""


@dataclass(frozen=True)
class XmlArray:
    """A DataArray element, or an Array element, which holds text."""

    section: str
    """PointData, CellData, Points, Cells, ..."""
    name: str
    dtype: str
    components: int
    form: str
    """ascii, binary or appended."""
    place: int
    """The byte of the file where the values begin; for ascii and binary, where the text does."""
    end: int = 0
    """The byte after the text of the values; for ascii and binary only."""
    tuples: int | None = None
    """The NumberOfTuples, which an array of FieldData has."""

    @property
    def label(self) -> str:
        """The name for errors; the array of the points may have none."""
        return "the points" if self.section == "Points" and not self.name else repr(self.name)


@dataclass(frozen=True)
class Piece:
    """Points and cells with their arrays; most files have one piece."""

    points: int
    cells: int
    by_section: Mapping[str, int] = field(default_factory=dict)
    """How many of the cells are in Cells, Verts, Lines, Strips and Polys; not for structured."""
    extent: Extent = ()
    """For structured grids only."""
    arrays: tuple[XmlArray, ...] = ()

    def find(self, section: str, name: str | None = None) -> XmlArray | None:
        fitting = (
            a
            for a in self.arrays
            if a.section == section and name in (None, a.name) and a.dtype != TEXT
        )
        return next(fitting, None)

    def info(self) -> MeshInfo:
        arrays = []
        for array in self.arrays:
            location = _SECTIONS.get(array.section)
            if location and array.dtype != TEXT:
                rows = self.points if location == "point" else self.cells
                arrays.append(ArrayInfo(array.name, location, array.components, rows, array.dtype))
        return MeshInfo(self.points, self.cells, tuple(arrays))


@dataclass(frozen=True)
class XmlHeader:
    file: str
    size: int
    """Bytes of the file."""
    kind: str
    """PolyData, UnstructuredGrid, ..."""
    order: Literal["<", ">"]
    """The order of bytes, as numpy writes it."""
    length_bytes: int
    """How many bytes the numbers have that give the length of an array's values."""
    compressor: str
    encoded: bool
    """Whether appended values are in base64."""
    appended: tuple[int, int]
    """The bytes where the appended values begin and where their closing tag does."""
    pieces: tuple[Piece, ...]
    other_arrays: tuple[XmlArray, ...]
    """Arrays of FieldData."""
    extent: Extent
    """All of a structured grid; () for others."""

    def info(self) -> MeshInfo:
        if not self.extent:
            return together([piece.info() for piece in self.pieces])
        full = [piece for piece in self.pieces if piece.points]
        points, cells = extent_size(self.extent)
        arrays = full[0].arrays if full else ()
        return Piece(points, cells, arrays=arrays).info()


def parse_xml(paths: Sequence[Path]) -> XmlHeader:
    """The header of a file or of its byte parts.

    ValueError unless the file has its closing tag, which a truncated file has not.
    """
    name = whole_name(paths)
    scan = _Scan()
    with open_parts(paths) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            scan.parse(file)
            appended = (0, 0)
            if scan.appended is not None:
                appended = _after_mark(file, scan.place), _closing_tag(file)
            return scan.header(name, size, appended)
        except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: its encoding
            raise ValueError(f"{name} must be a whole VTK XML file, got {error}") from None


def together(pieces: Sequence[MeshInfo]) -> MeshInfo:
    """Several pieces as one mesh, which has the arrays that all non-empty pieces have."""
    arrays = []
    for location in LOCATIONS:
        full = [piece for piece in pieces if piece.rows(location)]
        rows = sum(piece.rows(location) for piece in full)
        held = [Counter(replace(array, rows=rows) for array in piece.arrays) for piece in full]
        for array in held[0].elements() if held else ():
            if array.location == location and all(array in others for others in held):
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
    grid: str = ""
    """The element with the pieces: PolyData, ImageData, ..."""
    extent: Extent = ()
    pieces: list[Piece] = field(default_factory=list)
    arrays: list[list[XmlArray]] = field(default_factory=list)
    """Those of each piece."""
    other_arrays: list[XmlArray] = field(default_factory=list)
    appended: str | None = None
    """The encoding of the appended values, where there are any."""
    place: int = 0
    """The byte of the element that was reported last."""
    _section: str = ""
    _open: XmlArray | None = None
    """The array whose text is being parsed."""
    _parser: expat.XMLParserType = field(init=False)

    def parse(self, file: io.BufferedReader) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._at_start
        self._parser.EndElementHandler = self._at_end
        try:
            while block := file.read(_BLOCK):
                self._parser.Parse(block)
            self._parser.Parse(b"", True)
        except _Stop:
            pass
        finally:
            del self._parser  # which holds this object

    def _at_start(self, tag: str, given: dict[str, str]) -> None:
        self.place = self._parser.CurrentByteIndex
        self.close(self.place)
        self.start(tag, given)
        inside = self._open is not None and self._open.form != "appended"
        self._parser.CharacterDataHandler = self._at_text if inside else None

    def _at_text(self, _: str) -> None:
        """The first letters of an array's text; for the others, which may be many, no call."""
        self._parser.CharacterDataHandler = None
        if self._open:
            self._open = replace(self._open, place=self._parser.CurrentByteIndex)

    def _at_end(self, _: str) -> None:
        self.close(self._parser.CurrentByteIndex)
        self._parser.CharacterDataHandler = None

    def start(self, tag: str, given: dict[str, str]) -> None:
        if tag == "AppendedData":
            self.appended = _one_of(given, "encoding", ("raw", "base64"), "")
            raise _Stop
        if tag == "VTKFile":
            self.given = given
        elif tag in _KINDS:
            self.grid = tag
            self.extent = _extent(given, "WholeExtent") if tag in STRUCTURED else ()
        elif tag == "Piece":
            self.pieces.append(_piece(given, structured=bool(self.extent)))
            self.arrays.append([])
        elif tag in _ARRAYS:
            self._open = _array(given, self._section)
        elif tag in _KNOWN:  # others are inside a DataArray, as InformationKey
            self._section = tag

    def close(self, place: int) -> None:
        """The text of an array ends at this byte, where it has any."""
        if not self._open:
            return
        array, self._open = self._open, None
        if array.form != "appended":
            array = replace(array, place=array.place if array.place >= 0 else place, end=place)
        other = array.section == "FieldData" or not self.pieces
        arrays = self.other_arrays if other else self.arrays[-1]
        arrays.append(array)
        check_array_count(len(arrays))

    def header(self, name: str, size: int, appended: tuple[int, int]) -> XmlHeader:
        kind = self.given.get("type", "")
        if kind in _KINDS and self.grid != kind:
            raise ValueError(f"no {kind} in it")
        pieces = zip(self.pieces, self.arrays, strict=True)
        placed = [(piece, [_placed(a, appended) for a in arrays]) for piece, arrays in pieces]
        order = _one_of(self.given, "byte_order", ("LittleEndian", "BigEndian"), "LittleEndian")
        length = _one_of(self.given, "header_type", ("UInt32", "UInt64"), "UInt32")
        return XmlHeader(
            name,
            size,
            kind,
            ">" if order == "BigEndian" else "<",
            8 if length == "UInt64" else 4,
            self.given.get("compressor", ""),
            self.appended == "base64",
            appended,
            tuple(replace(piece, arrays=tuple(arrays)) for piece, arrays in placed),
            tuple(_placed(array, appended) for array in self.other_arrays),
            self.extent,
        )


def _one_of(given: Mapping[str, str], name: str, known: Sequence[str], default: str) -> str:
    value = given.get(name, default)
    if value not in known:
        raise ValueError(f"{name} {value[:40]!r}, not {' or '.join(known)}")
    return value


def _count(given: Mapping[str, str], name: str, default: int = 0) -> int:
    value = int(given.get(name, default))
    if value < 0:
        raise ValueError(f"{name} {value}")
    return value


def _array(given: Mapping[str, str], section: str) -> XmlArray:
    form = _one_of(given, "format", _FORMS, "ascii")
    dtype = given.get("type", "").lower()
    if dtype not in _TYPES:
        raise ValueError(f"an array of the unknown type {given.get('type', '')[:40]!r}")
    if section in _SECTIONS and not given.get("Name"):
        raise ValueError(f"an array of {section} without Name")
    return XmlArray(
        section,
        given.get("Name", ""),
        dtype,
        max(1, _count(given, "NumberOfComponents", 1)),
        form,
        _count(given, "offset") if form == "appended" else -1,  # -1: the text is still to come
        tuples=_count(given, "NumberOfTuples") if "NumberOfTuples" in given else None,
    )


def _piece(given: Mapping[str, str], *, structured: bool) -> Piece:
    if structured:
        extent = _extent(given, "Extent")
        return Piece(*extent_size(extent), extent=extent)
    by_section = {section: _count(given, f"NumberOf{section}") for section in CELL_SECTIONS}
    return Piece(_count(given, "NumberOfPoints"), sum(by_section.values()), by_section)


def _extent(given: Mapping[str, str], name: str) -> Extent:
    numbers = tuple(int(number) for number in given.get(name, "").split())
    if len(numbers) != 6 or max(map(abs, numbers)) >= 1 << 31:
        raise ValueError(f"the {name} {given.get(name, '')[:80]!r}, not six numbers below 2^31")
    return numbers


def extent_size(extent: Extent) -> tuple[int, int]:
    """Numbers of points and cells."""
    return grid_size([b - a + 1 for a, b in zip(extent[::2], extent[1::2], strict=True)])


def _placed(array: XmlArray, appended: tuple[int, int]) -> XmlArray:
    """The array with its place counted from the beginning of the file, not of the appended data."""
    if array.form != "appended":
        return array
    if appended == (0, 0):
        raise ValueError(f"no AppendedData, where the values of {array.label} must be")
    return replace(array, place=array.place + appended[0])


def _after_mark(file: io.BufferedReader, place: int) -> int:
    """The byte where appended values begin, after the _ that follows the element."""
    file.seek(place)
    mark = re.match(rb"[^>]*>\s*_", file.read(4096))
    if not mark:
        raise ValueError("no _ before the appended values")
    return place + mark.end()


def _closing_tag(file: io.BufferedReader) -> int:
    """The byte where </AppendedData> begins, which </VTKFile> must follow at the file's end."""
    size = file.seek(0, 2)
    begin = max(0, size - 512)
    file.seek(begin)
    tail = file.read()
    if b"</VTKFile>" not in tail[-256:]:
        raise ValueError("no </VTKFile> at its end: it is truncated")
    tags = list(re.finditer(rb"</AppendedData\s*>\s*</VTKFile>", tail))
    if not tags:
        raise ValueError("no </AppendedData> before </VTKFile>")
    return begin + tags[-1].start()
