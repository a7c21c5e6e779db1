"""Meshes written by VTK as they were read, with arrays added; for the process of guard.py."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.core.text import file_name, printable
from slipstream.data.meshes.added_arrays import Added
from slipstream.data.meshes.arrays import LOCATIONS, as_text
from slipstream.data.meshes.block_rows import rows_of
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.openfoam import CASE, load_regions
from slipstream.data.meshes.vtk_data import attributes
from slipstream.data.meshes.vtk_files import load_whole

WRITTEN_AS = {
    "vtkPolyData": ".vtp", "vtkUnstructuredGrid": ".vtu", "vtkStructuredGrid": ".vts",
    "vtkRectilinearGrid": ".vtr", "vtkImageData": ".vti",
}  # fmt: skip
"""The suffix of the XML file for each kind of data set; a kind derived from one is written so."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_ATTRIBUTES = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def load_blocks(kind: str, files: Sequence[Path], regions: Sequence[str]) -> list[tuple[str, Any]]:
    """The data sets of a mesh by name: of a case its regions, of a .vtm its blocks, else one."""
    if kind == CASE:
        return list(load_regions(files[0], None, regions).items())
    return [(file.stem, load_whole(file)) for file in files]


def write_blocks(
    blocks: Sequence[tuple[str, Any]], request: Mapping[str, Any], given: Sequence[NDArray[Any]]
) -> list[list[str]]:
    """Add the `given` arrays to the data sets and write them; returns their names and files.

    One data set is written to the file `target` in the format `suffix`, several into the folder
    `target` as XML. The request's `arrays` says for each array its name, location and unit.
    """
    name = request["name"]
    data = [block for _, block in blocks]
    if not any(block.GetNumberOfPoints() for block in data):
        raise ValueError(f"{name} must have at least one point, got none")
    pairs = zip(request["arrays"], given, strict=True)
    kept = add_arrays(data, [Added(**about, values=values) for about, values in pairs], name)
    for block in data:
        _add_text(block, request["text"], name)
    target, written = Path(request["target"]), []
    if request["suffix"] != ".vtm":
        (whole,) = data
        write_data(whole, target, request["suffix"], name=request["out"])
    else:
        for number, (block_name, block) in enumerate(blocks):
            file = f"{number:04d}-{file_name(block_name)}{xml_suffix(block)}"
            write_data(block, target / file, xml_suffix(block), name=request["out"])
            written.append([block_name, file])
    del kept
    return written


def add_arrays(
    blocks: Sequence[Any],
    added: Sequence[Added],
    name: str,
    *,
    deep: bool = False,
) -> list[Any]:
    """Add arrays, which are in the order of rows of the joined mesh, each part to its data set.

    Unless they are copied (`deep`), VTK uses the memory of the arrays: the caller keeps what is
    returned for as long as the blocks.
    """
    rows = rows_of(blocks)
    kept: list[Any] = []
    for one in added:
        _check(blocks, one, name)
        for block, own in zip(blocks, rows, strict=True):
            part = np.ascontiguousarray(own.take(one.values, one.location))
            array = need("vtkmodules.util.numpy_support", "mesh").numpy_to_vtk(part, deep=deep)
            array.SetName(one.name)
            if one.unit:
                array.GetInformation().Set(array.UNITS_LABEL(), one.unit)
            attributes(block, one.location).AddArray(array)
            if not deep:
                kept.append(part)
    return kept


def _check(blocks: Sequence[Any], added: Added, file: str) -> None:
    location = added.location
    full = [block for block in blocks if block.GetNumberOfPoints()]
    count = "GetNumberOfPoints" if location == "point" else "GetNumberOfCells"
    expected = sum(getattr(block, count)() for block in full)
    if len(added.values) != expected:
        raise ValueError(
            f"{added.name!r} must have a row for each of the {expected} {location}s of {file}, got"
            f" {len(added.values)}"
        )
    for block in blocks:
        held = attributes(block, location)
        if added.name in (_name(held.GetAbstractArray(i)) for i in range(held.GetNumberOfArrays())):
            raise ValueError(
                f"{added.name!r} must be a new name, got one that an array at the {location}s of"
                f" {file} has already"
            )


def _name(array: Any) -> str:
    return as_text(array.GetName() or "")


def _add_text(data: Any, text: Mapping[str, str], file: str) -> None:
    held = data.GetFieldData()
    names = {_name(held.GetAbstractArray(i)) for i in range(held.GetNumberOfArrays())}
    for name, value in text.items():
        if name in names:
            raise ValueError(
                f"{name!r} must be a new name, got one that an array of {file} has already: if it"
                " is an output, give the mesh that it was made from"
            )
        array = need("vtkmodules.vtkCommonCore", "mesh").vtkStringArray()
        array.SetName(name)
        array.InsertNextValue(value)
        held.AddArray(array)


def xml_suffix(data: Any) -> str:
    suffix = next((suffix for kind, suffix in WRITTEN_AS.items() if data.IsA(kind)), None)
    if suffix is None:
        raise ValueError(
            f"a mesh must be one of {', '.join(WRITTEN_AS)}, got {data.GetClassName()}"
        )
    return suffix


def write_data(data: Any, path: Path, suffix: str, *, name: str) -> None:
    """Write a data set, of which names of arrays may change; `name` is that of the file in errors.

    XML is written as appended raw values with 64-bit lengths, compressed by zlib at level 1: of a
    volume of a million hexahedra with p and U that is 38 MB in 0.7 s, against 99 MB in 0.2 s
    without compression and 37 MB in 1.2 s at level 5; reading takes 0.2 s, 0.3 s and 0.2 s.
    """
    if suffix == ".vtk":
        writer = need("vtkmodules.vtkIOLegacy", "mesh").vtkDataSetWriter()
        writer.SetFileTypeToBinary()
    else:
        kind = next(kind for kind, own in WRITTEN_AS.items() if own == suffix)
        if not data.IsA(kind):
            raise ValueError(f"{name} must hold {kind[3:]}, got {data.GetClassName()[3:]}")
        _name_for_xml(data)
        writer = getattr(need("vtkmodules.vtkIOXML", "mesh"), f"vtkXML{kind[3:]}Writer")()
        writer.SetDataModeToAppended()
        writer.EncodeAppendedDataOff()
        writer.SetHeaderTypeToUInt64()
        writer.SetCompressorTypeToZLib()
        writer.SetCompressionLevel(1)
    writer.SetFileName(str(path))
    writer.SetInputData(data)
    with vtk_errors(name, "must be written whole, got an error of VTK's writer"):
        done = writer.Write()
        code = _system_error(writer.GetErrorCode())
        if code:
            raise OSError(code, os.strerror(code), name)
    if not done or writer.GetErrorCode():
        got = f"VTK's error code {writer.GetErrorCode()}"
        raise ValueError(f"{name} must be written whole, got {got}")


def _system_error(code: int) -> int:
    """The number of the system's error, as of a full disk, in a code of VTK's writers; or 0."""
    codes = need("vtkmodules.vtkCommonMisc", "mesh").vtkErrorCode
    if code == codes.OutOfDiskSpaceError:
        return errno.ENOSPC
    return code if code < codes.FirstVTKErrorCode else 0


def _name_for_xml(data: Any) -> None:
    """Give arrays and components the names that VTK must have for XML: 9.7 writes them there as
    they are, without quoting < and &. Legacy files get them encoded."""
    for array in _all_arrays(data):
        if array.GetName():
            array.SetName(_in_xml(_name(array)))
        for component in range(array.GetNumberOfComponents() if array.HasAComponentName() else 0):
            if (text := array.GetComponentName(component)) is not None:
                array.SetComponentName(component, _in_xml(as_text(text)))


def _all_arrays(data: Any) -> Iterator[Any]:
    for held in (*(attributes(data, location) for location in LOCATIONS), data.GetFieldData()):
        yield from (held.GetAbstractArray(i) for i in range(held.GetNumberOfArrays()))
    if data.IsA("vtkPointSet") and data.GetPoints() is not None:
        yield data.GetPoints().GetData()
    elif data.IsA("vtkRectilinearGrid"):
        yield from (getattr(data, f"Get{axis}Coordinates")() for axis in "XYZ")


def _in_xml(name: str) -> str:
    """A name as an attribute of XML; letters that XML cannot hold are written out."""
    return escape(_NOT_IN_XML.sub(lambda letter: printable(letter[0]), name), _IN_ATTRIBUTES)
