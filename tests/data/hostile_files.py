"""Small files on which VTK crashes or runs out of memory, as seen with VTK 9.7.1 on Linux."""

from __future__ import annotations

import struct
from pathlib import Path

POINTS = "0 0 0 1 0 0 0 1 0 0 0 1"
_HEAD = '<VTKFile type="{0}" version="1.0" byte_order="LittleEndian" header_type="UInt64"><{0}'
_P = '<PointData><DataArray type="Float32" Name="p" format="ascii">1 2 3 4</DataArray></PointData>'


def _numbers(kind: str, name: str, values: str, components: int = 1) -> str:
    shape = f'type="{kind}" Name="{name}" NumberOfComponents="{components}"'
    return f'<DataArray {shape} format="ascii">{values}</DataArray>'


def grid(*, points: int = 4, cells: int = 1, offsets: str = "4", corners: str = "0 1 2 3") -> str:
    """A .vtu with a tetrahedron, or with what is given instead."""
    return (
        f'{_HEAD.format("UnstructuredGrid")}><Piece NumberOfPoints="{points}"'
        f' NumberOfCells="{cells}"><Points>{_numbers("Float32", "Points", POINTS, 3)}</Points>'
        f"<Cells>{_numbers('Int64', 'connectivity', corners)}"
        f"{_numbers('Int64', 'offsets', offsets)}{_numbers('UInt8', 'types', '10')}</Cells>{_P}"
        "</Piece></UnstructuredGrid></VTKFile>"
    )


def polyhedron(*, faces: int = 4, corners: int = 3) -> str:
    """A .vtu with a tetrahedron that is stored as a polyhedron; `corners` are of its first face."""
    numbers = f"{faces} {corners} 0 1 2 3 0 1 3 3 0 2 3 3 1 2 3"
    lists = _numbers("Int64", "faces", numbers) + _numbers("Int64", "faceoffsets", "17")
    return grid().replace('"ascii">10<', '"ascii">42<').replace("</Cells>", f"{lists}</Cells>")


def polygons(*, count: int = 1, offsets: str = "3") -> str:
    """A .vtp with a triangle."""
    return (
        f'{_HEAD.format("PolyData")}><Piece NumberOfPoints="4" NumberOfPolys="{count}">'
        f"<Points>{_numbers('Float32', 'Points', POINTS, 3)}</Points><Polys>"
        f"{_numbers('Int64', 'connectivity', '0 1 2')}{_numbers('Int64', 'offsets', offsets)}"
        f"</Polys>{_P}</Piece></PolyData></VTKFile>"
    )


def image(extent: str) -> str:
    return (
        f'{_HEAD.format("ImageData")} WholeExtent="{extent}" Origin="0 0 0" Spacing="1 1 1">'
        f'<Piece Extent="{extent}">{_P}</Piece></ImageData></VTKFile>'
    )


def structured(extent: str) -> str:
    points = _numbers("Float32", "Points", POINTS, 3)
    return (
        f'{_HEAD.format("StructuredGrid")} WholeExtent="{extent}"><Piece Extent="{extent}"><Points>'
        f"{points}</Points>{_P}</Piece></StructuredGrid></VTKFile>"
    )


def legacy(kind: str, cells: str) -> str:
    head = f"# vtk DataFile Version 3.0\nx\nASCII\nDATASET {kind}\nPOINTS 4 float\n{POINTS}\n"
    return f"{head}{cells}\nPOINT_DATA 4\nSCALARS p float 1\nLOOKUP_TABLE default\n1 2 3 4\n"


def _binary_lines() -> bytes:
    points = struct.pack(">12f", *map(float, POINTS.split()))
    lines = struct.pack(">8i", -3, 0, 1, 2, 300_000_000, 0, 1, 2)
    triangle = struct.pack(">4i", 3, 0, 1, 2)
    head = b"# vtk DataFile Version 3.0\nx\nBINARY\nDATASET POLYDATA\nPOINTS 4 float\n"
    return head + points + b"\nLINES 2 8\n" + lines + b"\nPOLYGONS 1 4\n" + triangle + b"\n"


_WIDE = "0 99999 0 99999 0 99999"
HOSTILE: dict[str, str | bytes] = {
    "cells_negative.vtu": grid(cells=-5),
    "cells_1e12.vtu": grid(cells=10**12),
    "cells_1e18.vtu": grid(cells=10**18),
    "points_1e9.vtu": grid(points=10**9),
    "points_1e12.vtu": grid(points=10**12),
    "points_1e18.vtu": grid(points=10**18),
    "offsets.vtu": grid(offsets="4000000000000"),
    "polygons_1e12.vtp": polygons(count=10**12),
    "offsets.vtp": polygons(offsets="30000000000"),
    "wide.vti": image(_WIDE),
    "quite_wide.vti": image("0 1999 0 1999 0 1999"),
    "wide.vts": structured(_WIDE),
    "cell_length.vtk": legacy("UNSTRUCTURED_GRID", "CELLS 1 5\n40000000 0 1 2 3\nCELL_TYPES 1\n10"),
    "polygon_length.vtk": legacy("POLYDATA", "POLYGONS 1 4\n300000000 0 1 2"),
    "line_length.vtk": _binary_lines(),
    "faces.vtu": polyhedron(faces=400_000_000),
    "face_length.vtu": polyhedron(corners=300_000),
}
"""Each ended the process that read it, or (1e9) took 12 GB."""
READ_BY_VTK = ("offsets.vtu", "offsets.vtp", "faces.vtu", "face_length.vtu")
"""The others are refused before VTK reads them."""


def write_hostile(folder: Path, name: str) -> Path:
    content = HOSTILE[name]
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name
