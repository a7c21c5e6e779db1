"""The contents of a legacy VTK file (.vtk), and where its values are, without reading them.

VTK's own reader must read all arrays before it can list them. For a binary file that is cut off it
returns whatever was in memory, without an error. Here the sections are gone through one by one and
their values skipped, which gives the list of arrays and shows whether the file is long enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

from slipstream.core.text import printable
from slipstream.data.meshes.arrays import (
    LOCATIONS,
    ArrayInfo,
    Location,
    MeshInfo,
    as_text,
    check_array_count,
    check_grid,
    grid_size,
)
from slipstream.data.meshes.legacy_words import Block, Words
from slipstream.data.meshes.parts import open_parts, whole_name

_COMPONENTS = {"VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6}
_KINDS = ("POLYDATA", "UNSTRUCTURED_GRID")
_STRUCTURED = ("STRUCTURED_POINTS", "STRUCTURED_GRID", "RECTILINEAR_GRID")
_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")


@dataclass
class CellBlock:
    """A section of cells: offsets and corners since version 5, lengths among the corners before."""

    name: str
    cells: int
    corners: Block | None = None
    offsets: Block | None = None


@dataclass(frozen=True)
class LegacyHeader:
    file: str
    binary: bool
    info: MeshInfo
    points: Block | None
    """None for a file without points, and for structured grids, which VTK reads."""
    cells: Sequence[CellBlock]
    types: Block | None
    arrays: Sequence[tuple[ArrayInfo, Block]]


def scan_legacy(paths: Sequence[Path]) -> LegacyHeader:
    """The header of a file or of its byte parts; ValueError where it is cut off or not a mesh."""
    name = whole_name(paths)
    with open_parts(paths) as file:
        size = file.seek(0, 2)
        file.seek(0)
        scan = _Scan(Words(file, size))
        try:
            scan.run()
        except (ValueError, EOFError) as error:
            got = printable(str(error))  # it quotes the file
            raise ValueError(f"{name} must be a whole legacy VTK file, got {got}") from None
    points, cells = scan.counts()
    if scan.kind in _STRUCTURED:
        check_grid(points, size, name)
    info = MeshInfo(points, cells, tuple(info for info, _ in scan.arrays))
    held = None if scan.kind in _STRUCTURED else scan.points
    return LegacyHeader(name, scan.words.binary, info, held, scan.cells, scan.types, scan.arrays)


@dataclass
class _Scan:
    """Goes from section to section and records where values are."""

    words: Words
    version: int = 0
    kind: str = ""
    along: tuple[int, ...] = ()
    """Points along each axis of a structured grid."""
    axes: list[int] = field(default_factory=list)
    """How many coordinates a rectilinear grid has along each axis."""
    points: Block | None = None
    cells: list[CellBlock] = field(default_factory=list)
    types: Block | None = None
    arrays: list[tuple[ArrayInfo, Block]] = field(default_factory=list)
    sizes: tuple[int, int] = (0, 0)
    """Numbers of offsets and corners that the next sections hold, since version 5."""
    location: Location | None = None
    rows: int = 0
    declared: dict[Location, int] = field(default_factory=dict)
    """Rows of POINT_DATA and CELL_DATA."""

    def run(self) -> None:
        words = self.words
        match = re.match(r"# vtk DataFile Version (\d+)", words.line())
        if not match:
            raise ValueError("another first line")
        self.version = int(match[1])
        words.line()
        mode = words.word().upper()
        if mode not in ("ASCII", "BINARY"):
            raise ValueError(f"{mode!r} where ASCII or BINARY must be")
        words.binary = mode == "BINARY"
        if words.word().upper() != "DATASET":
            raise ValueError("no DATASET")
        self.kind = words.word().upper()
        if self.kind not in (*_KINDS, *_STRUCTURED):
            known = ", ".join(_KINDS + _STRUCTURED[:-1])
            raise ValueError(f"the data set {self.kind}, not {known} or {_STRUCTURED[-1]}")
        while section := words.word(last=True):
            self.section(section.upper())
        words.check_ends()
        self.check_structured()
        self.check_rows()

    def section(self, name: str) -> None:
        words = self.words
        steps: dict[str, Callable[[], None]] = {
            "POINTS": self.step_points,
            "DIMENSIONS": self.step_dimensions,
            "CELL_TYPES": self.step_types,
            "OFFSETS": self.step_offsets,
            "CONNECTIVITY": self.step_corners,
            "SCALARS": self.step_scalars,
            "LOOKUP_TABLE": self.step_table,
            "FIELD": self.step_field,
            "METADATA": words.skip_metadata,
        }
        if name in _CELLS:
            self.step_cells(name)
        elif name in ("POINT_DATA", "CELL_DATA"):
            self.location = "point" if name == "POINT_DATA" else "cell"
            self.rows = self.declared[self.location] = words.number()
        elif name in (*_COMPONENTS, "GLOBAL_IDS", "PEDIGREE_IDS", "EDGE_FLAGS"):
            self.step_array(words.word(), _COMPONENTS.get(name, 1), self.rows, words.word())
        elif name == "TEXTURE_COORDINATES":
            self.step_array(words.word(), words.number(), self.rows, words.word())
        elif name == "COLOR_SCALARS":
            self.step_colors(words.word(), words.number())
        elif name in ("ORIGIN", "SPACING", "ASPECT_RATIO"):
            for _ in range(3):
                float(words.word())
        elif name in ("X_COORDINATES", "Y_COORDINATES", "Z_COORDINATES"):
            self.axes.append(words.number())
            words.skip(self.axes[-1], words.word())
        elif name in steps:
            steps[name]()
        else:
            raise ValueError(f"the unknown section {name[:40]!r} before byte {words.place()}")

    def counts(self) -> tuple[int, int]:
        """Numbers of points and cells."""
        if self.kind in _STRUCTURED:
            return grid_size(self.along)
        points = self.points.count // 3 if self.points else 0
        return points, sum(block.cells for block in self.cells)

    def check_structured(self) -> None:
        if self.kind in _STRUCTURED and not self.along:
            raise ValueError(f"{self.kind} without DIMENSIONS")
        points = self.points.count // 3 if self.points else 0
        if self.kind == "STRUCTURED_GRID" and points != self.counts()[0]:
            raise ValueError(f"{points} points, not the {self.counts()[0]} of its DIMENSIONS")
        if self.kind == "RECTILINEAR_GRID" and tuple(self.axes) != self.along:
            raise ValueError(f"coordinates {self.axes}, not the {self.along} of its DIMENSIONS")

    def check_rows(self) -> None:
        for location, count in zip(LOCATIONS, self.counts(), strict=True):
            if self.declared.get(location, count) != count:
                raise ValueError(
                    f"{location.upper()}_DATA of {self.declared[location]} rows, not the {count} of"
                    " its geometry"
                )

    def step_dimensions(self) -> None:
        self.along = tuple(self.words.number() for _ in range(3))

    def step_points(self) -> None:
        count = self.words.number()
        self.points = self.words.skip(3 * count, self.words.word())

    def step_types(self) -> None:
        self.types = self.words.skip(self.words.number(), "int")

    def step_cells(self, section: str) -> None:
        first, second = self.words.number(), self.words.number()
        if self.version < 5:
            self.cells.append(CellBlock(section, first, self.words.skip(second, "int")))
        else:
            self.cells.append(CellBlock(section, max(0, first - 1)))
            self.sizes = first, second

    def step_offsets(self) -> None:
        if not self.cells:
            raise ValueError("OFFSETS of no cells")
        self.cells[-1].offsets = self.words.skip(self.sizes[0], self.words.word())

    def step_corners(self) -> None:
        if not self.cells:
            raise ValueError("CONNECTIVITY of no cells")
        self.cells[-1].corners = self.words.skip(self.sizes[1], self.words.word())

    def step_scalars(self) -> None:
        name, kind, components = (*self.words.line().split(), "", "", "")[:3]
        if self.words.word().upper() != "LOOKUP_TABLE":
            raise ValueError(f"SCALARS {name} without LOOKUP_TABLE")
        self.words.word()
        components = components or "1"
        if not re.fullmatch("[1-9][0-9]{0,8}", components):
            raise ValueError(f"SCALARS {name} of {components[:40]!r} components")
        self.step_array(name, int(components), self.rows, kind)

    def step_table(self) -> None:
        self.words.word()
        self.words.skip(4 * self.words.number(), self.color_kind())

    def step_colors(self, name: str, components: int) -> None:
        block = self.words.skip(components * self.rows, self.color_kind())
        if self.location:
            info = ArrayInfo(name, self.location, components, self.rows, "uint8")
            self.arrays.append((info, block))

    def color_kind(self) -> str:
        """In text colours go from 0 to 1."""
        return "unsigned_char" if self.words.binary else "float"

    def step_field(self) -> None:
        words = self.words
        words.word()
        for _ in range(words.number()):
            name = words.word()
            while name.upper() == "METADATA":
                words.skip_metadata()
                name = words.word()
            if name != "NULL_ARRAY":
                self.step_array(name, words.number(), words.number(), words.word())

    def step_array(self, name: str, components: int, rows: int, kind: str) -> None:
        if kind.lower() == "string":
            self.words.skip_strings(components * rows)
            return
        block = self.words.skip(components * rows, kind)
        if self.location:
            name = as_text(unquote_to_bytes(name))
            info = ArrayInfo(name, self.location, components, rows, block.dtype)
            self.arrays.append((info, block))
            check_array_count(len(self.arrays))
