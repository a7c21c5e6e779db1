"""Files read by VTK's readers, with the checks that these leave out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.core.extras import need
from slipstream.data.meshes.arrays import (
    LOCATIONS,
    ArrayInfo,
    MeshInfo,
    Wanted,
    as_text,
    check_array_count,
    resolve,
)
from slipstream.data.meshes.legacy_file import LegacyFile
from slipstream.data.meshes.legacy_header import scan_legacy
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.ply import read_ply
from slipstream.data.meshes.vtk_data import as_listed, as_polydata, attributes, info_of
from slipstream.data.meshes.xml_layout import check_for_vtk, scan_xml

XML = {
    ".vtp": ("PolyData", "UnstructuredGrid"), ".vtu": ("PolyData", "UnstructuredGrid"),
    ".vti": ("ImageData",), ".vts": ("StructuredGrid",), ".vtr": ("RectilinearGrid",),
}  # fmt: skip
"""The kinds of data sets that a VTK XML file may hold, by its suffix."""
SUFFIXES = (*XML, ".vtk", ".vtm", ".stl", ".ply")
"""Suffixes of all mesh files; OpenFOAM cases are folders."""
_LEGACY = ("Scalars", "Vectors", "Normals", "Tensors", "ColorScalars", "TCoords", "Fields")


def load_file(path: Path, wanted: Sequence[Wanted] | None) -> Any:
    """The data set in a VTK, STL or PLY file, with the wanted arrays (None: all).

    Structured grids become unstructured ones. A VTK file without points is returned as it is: it
    may be an empty block of a .vtm.
    """
    data = _load(path, wanted)
    if path.suffix.lower() in (*XML, ".vtk"):
        data = as_listed(data)
        if not data.GetNumberOfPoints():
            return data
    return keep_wanted(data, wanted, path.name)


def load_whole(path: Path) -> Any:
    """The data set in a file as it is there, with all arrays, also those of text.

    A structured grid stays one; its points and cells are in the order of `load_file`.
    """
    data = _load(path, None, text=True)
    info = info_of(data)
    for array in info.arrays if info.points else ():
        check_rows(array, info, path.name)
    return data


def _load(path: Path, wanted: Sequence[Wanted] | None, text: bool = False) -> Any:
    suffix = path.suffix.lower()
    if suffix in XML:
        return _load_xml(path, wanted, text)
    if suffix == ".vtk":
        return _load_legacy(path, wanted)
    if suffix == ".stl":
        return _updated(need("vtkmodules.vtkIOGeometry", "mesh").vtkSTLReader(), path)
    return as_polydata(read_ply(path))


def _load_xml(path: Path, wanted: Sequence[Wanted] | None, text: bool) -> Any:
    """With `text`, arrays of text are read too."""
    header = scan_xml([path])
    declared = header.info()
    kinds = XML[path.suffix.lower()]
    if header.kind not in kinds:
        raise ValueError(f"{path.name} must hold {' or '.join(kinds)}, got {header.kind!r}")
    chosen = declared.arrays if wanted is None else _resolved(wanted, declared, path.name)
    check_for_vtk(path, header, chosen)
    reader = getattr(need("vtkmodules.vtkIOXML", "mesh"), f"vtkXML{header.kind}Reader")()
    with vtk_errors(path.name):
        reader.SetFileName(str(path))
        reader.UpdateInformation()
        for location, selection in (
            ("point", reader.GetPointDataArraySelection()),
            ("cell", reader.GetCellDataArraySelection()),
        ):
            (selection.EnableAllArrays if text else selection.DisableAllArrays)()
            for info in chosen:
                if info.location == location:
                    selection.EnableArray(info.name)
        reader.Update()
    return _as_declared(reader.GetOutput(), declared, path.name)


def _load_legacy(path: Path, wanted: Sequence[Wanted] | None) -> Any:
    header = scan_legacy([path])
    LegacyFile((path,), header).check_cells()
    declared = header.info
    _resolved(wanted or (), declared, path.name)
    reader = need("vtkmodules.vtkIOLegacy", "mesh").vtkDataSetReader()
    for kind in _LEGACY:
        getattr(reader, f"ReadAll{kind}On")()
    return _as_declared(_updated(reader, path), declared, path.name)


def _updated(reader: Any, path: Path) -> Any:
    with vtk_errors(path.name):
        reader.SetFileName(str(path))
        reader.Update()
    return reader.GetOutput()


def _resolved(wanted: Sequence[Wanted], declared: MeshInfo, file: str) -> Sequence[ArrayInfo]:
    """The arrays that are wanted; of a data set without points all, since it may lack some."""
    if not declared.points:
        return declared.arrays
    return [resolve(want, declared.arrays, file) for want in wanted]


def _as_declared(data: Any, declared: MeshInfo, file: str) -> Any:
    got = data.GetNumberOfPoints(), data.GetNumberOfCells()
    if got != (declared.points, declared.cells):
        raise ValueError(
            f"{file} must have the {declared.points} points and {declared.cells} cells it declares,"
            f" got {got[0]} and {got[1]}"
        )
    return data


def keep_wanted(data: Any, wanted: Sequence[Wanted] | None, file: str) -> Any:
    """The data set without other arrays than those wanted.

    ValueError if it has no points, or an array whose length is not the number of points or cells.
    """
    info = info_of(data)
    check_not_empty(info, file)
    try:
        check_array_count(len(info.arrays))
    except ValueError as error:
        raise ValueError(f"{file} must be a mesh with fields, got {error}") from None
    chosen = info.arrays if wanted is None else _resolved(wanted, info, file)
    for array in chosen:
        check_rows(array, info, file)
    for location in LOCATIONS:
        held = attributes(data, location)
        kept = {array.name for array in chosen if array.location == location}
        for index in reversed(range(held.GetNumberOfArrays())):
            if as_text(held.GetAbstractArray(index).GetName() or "") not in kept:
                held.RemoveArray(index)
    return data


def check_not_empty(info: MeshInfo, file: str) -> None:
    if not info.points:
        raise ValueError(f"{file} must have at least one point, got none")


def check_rows(array: ArrayInfo, info: MeshInfo, file: str) -> None:
    if array.rows != info.rows(array.location):
        raise ValueError(
            f"{array.name!r} of {file} must have a row for each of the"
            f" {info.rows(array.location)} {array.location}s, got {array.rows}"
        )
