"""What VTK itself reads from a mesh, in the form of `readers`, and how the two are compared.

VTK is the reference only where it reports no error. It crashes on some damaged files, so this runs
in a guarded process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vtkmodules import vtkIOGeometry, vtkIOLegacy, vtkIOPLY, vtkIOXML
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkIdList, vtkLogger, vtkOutputWindow, vtkStringOutputWindow
from vtkmodules.vtkCommonDataModel import vtkCompositeDataSet

from .readers import Contents

_LEGACY = ("Scalars", "Vectors", "Normals", "Tensors", "ColorScalars", "TCoords", "Fields")
_OF_POLYDATA = (("Verts", 2), ("Lines", 4), ("Polys", 7), ("Strips", 6))
_ERROR = re.compile(r"ERROR: In .*?, line \d+\s+")
_HARMLESS = "Error reading InformationKey element"
"""Of notes that VTK keeps beside an array; its values are read all the same."""
_POLYHEDRON = 42
_MOST = 200_000
"""Points and cells of a structured grid are asked for one by one, up to so many."""


class VtkError(Exception):
    """VTK did not read the file."""


def vtk_contents(format: str, path: Path) -> Contents:
    """All that VTK reads; VtkError if it reports an error."""
    window = vtkStringOutputWindow()
    vtkOutputWindow.SetInstance(window)
    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)
    contents = _read(format, path)
    said = window.GetOutput()
    text = said if isinstance(said, str) else said.decode("latin-1")
    errors = [" ".join(error.split()) for error in _ERROR.split(text)[1:]]
    serious = [error for error in errors if not re.search(_HARMLESS, error)]
    if serious:
        raise VtkError(serious[0][:200])
    return contents


def _read(format: str, path: Path) -> Contents:
    if format == "openfoam":
        return _read_case(path)
    if format == "vtm":
        output = _updated(vtkIOXML.vtkXMLMultiBlockDataReader(), path)
        return _joined([_contents(block) for _, block in _leaves(output)])
    if format == "vtk":
        reader = vtkIOLegacy.vtkDataSetReader()
        for kind in _LEGACY:
            getattr(reader, f"ReadAll{kind}On")()
        return _contents(_updated(reader, path))
    if format == "ply":
        return _contents(_updated(vtkIOPLY.vtkPLYReader(), path))
    if format == "stl":
        return _contents(_updated(vtkIOGeometry.vtkSTLReader(), _in_small_letters(path)))
    return _contents(_updated(vtkIOXML.vtkXMLGenericDataObjectReader(), path))


def _updated(reader: Any, path: Path) -> Any:
    reader.SetFileName(str(path))
    reader.Update()
    output = reader.GetOutput()
    if output is None or reader.GetErrorCode():
        raise VtkError(f"error code {reader.GetErrorCode()}")
    return output


def _in_small_letters(path: Path) -> Path:
    """VTK takes an ascii STL file that begins with SOLID for a binary one."""
    raw = path.read_bytes()
    if raw.lstrip()[:5].lower() != b"solid" or raw.lstrip()[:5] == b"solid":
        return path
    copy = path.with_name("small-letters.stl")
    copy.write_bytes(raw.lower())
    return copy


def _read_case(path: Path) -> Contents:
    reader = vtkIOGeometry.vtkOpenFOAMReader()
    reader.SetFileName(str(path / "case.foam"))
    reader.CreateCellToPointOff()
    reader.SkipZeroTimeOff()
    reader.UpdateInformation()
    reader.EnableAllPatchArrays()
    reader.EnableAllCellArrays()
    times = reader.GetTimeValues()
    if times is not None and times.GetNumberOfTuples():
        reader.UpdateTimeStep(times.GetValue(times.GetNumberOfTuples() - 1))
    else:
        reader.Update()
    return {
        f"{region}: {name}": values
        for region, block in _leaves(reader.GetOutput())
        for name, values in _contents(block).items()
    }


def _leaves(blocks: Any) -> Iterator[tuple[str, Any]]:
    for index in range(blocks.GetNumberOfBlocks()):
        block = blocks.GetBlock(index)
        if block is not None and block.IsA("vtkMultiBlockDataSet"):
            yield from _leaves(block)
        elif block is not None:
            held = blocks.GetMetaData(index)
            yield (held.Get(vtkCompositeDataSet.NAME()) if held else "") or "", block


def _joined(blocks: list[Contents]) -> Contents:
    """Blocks one after the other, with the arrays that all of them have, of equal width."""
    full = [block for block in blocks if len(block["points"])] or blocks[:1]
    if not full:
        raise VtkError("no blocks")
    before = np.cumsum([0, *(len(block["points"]) for block in full)])
    for block, first in zip(full, before, strict=False):
        block["cells: corners"] = block["cells: corners"] + first
    kinds = [{(k, v.dtype, v.shape[1:]) for k, v in block.items()} for block in full]
    shared = sorted(name for name, *_ in set.intersection(*kinds))
    return {name: np.concatenate([block[name] for block in full]) for name in shared}


def _contents(data: Any) -> Contents:
    contents: Contents = {}
    for location, held in (("point", data.GetPointData()), ("cell", data.GetCellData())):
        for array in (held.GetArray(i) for i in range(held.GetNumberOfArrays())):
            if array is not None:
                name = array.GetName() or ""
                text = name if isinstance(name, str) else name.decode("latin-1")
                contents[f"{location} {text}"] = vtk_to_numpy(array).copy()
    contents["points"] = _points(data)
    types, sizes, corners = _cells(data)
    return contents | {"cells: types": types, "cells: sizes": sizes, "cells: corners": corners}


def _points(data: Any) -> NDArray[Any]:
    if data.IsA("vtkPointSet"):
        points = data.GetPoints()
        return np.empty((0, 3)) if points is None else vtk_to_numpy(points.GetData()).copy()
    _check_small(data.GetNumberOfPoints())
    return np.array([data.GetPoint(i) for i in range(data.GetNumberOfPoints())]).reshape(-1, 3)


def _cells(data: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """VTK's numbers of types, numbers of corners, and corners of all cells."""
    if data.IsA("vtkPolyData"):
        parts = [(getattr(data, f"Get{name}")(), kind) for name, kind in _OF_POLYDATA]
        types = [np.full(part.GetNumberOfCells(), kind) for part, kind in parts]
        arrays = [part for part, _ in parts]
        return np.concatenate(types), _sizes(arrays), _corners(arrays)
    if data.IsA("vtkUnstructuredGrid"):
        cells = [data.GetCells()] if data.GetCells() else []
        kinds = [data.GetCellType(i) for i in range(data.GetNumberOfCells())]
        return np.array(kinds, np.int64), _sizes(cells), _corners(cells)
    _check_small(data.GetNumberOfCells())
    corners, ids, ends = [], vtkIdList(), [0]
    for cell in range(data.GetNumberOfCells()):
        data.GetCellPoints(cell, ids)
        corners += [ids.GetId(i) for i in range(ids.GetNumberOfIds())]
        ends.append(len(corners))
    types = [data.GetCellType(i) for i in range(data.GetNumberOfCells())]
    return np.array(types, np.int64), np.diff(ends), np.array(corners, np.int64)


def _sizes(parts: list[Any]) -> NDArray[Any]:
    offsets = [vtk_to_numpy(part.GetOffsetsArray()) for part in parts]
    return np.concatenate([np.empty(0, np.int64), *map(np.diff, offsets)]).astype(np.int64)


def _corners(parts: list[Any]) -> NDArray[Any]:
    corners = [vtk_to_numpy(part.GetConnectivityArray()) for part in parts]
    return np.concatenate([np.empty(0, np.int64), *corners]).astype(np.int64)


def _check_small(count: int) -> None:
    if count > _MOST:
        raise VtkError(f"{count} points or cells are too many to compare")


_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def compare(format: str, ours: Contents, theirs: Contents) -> tuple[str, str]:
    """ "differs" or "lenient" and why; "" where both read the same.

    VTK reads other arrays of a PLY file, and its points as float32. It lists arrays without rows,
    ends a name at a zero byte, and leaves out cells and their arrays, without an error, where the
    faces of polyhedra, which we do not read, are wrong.
    """
    ours = {name.partition("\0")[0]: values for name, values in ours.items()}
    for name in [name for name in ours if format == "vtk" and _BROKEN_ESCAPE.search(name)]:
        begin = _BROKEN_ESCAPE.split(name)[0]  # VTK's name is another from there on
        theirs = {key: values for key, values in theirs.items() if not key.startswith(begin)}
        del ours[name]
    if format == "ply":
        names = [name for name in theirs if name == "points" or name.startswith("cells")]
        theirs = {name: theirs[name] for name in names}
        ours = {name: ours[name] for name in names}
        ours["points"] = ours["points"].astype(np.float32)
    if _POLYHEDRON in ours.get("cells: types", ()) and not len(theirs["cells: corners"]):
        return "lenient", "no cells are read by VTK"
    more = sorted(name for name, values in theirs.items() if len(values) and name not in ours)
    if more:
        return "differs", f"{more[0]} is read by VTK only"
    for name in sorted({*ours} & {*theirs}):
        one, other = ours[name], theirs[name]
        if one.dtype != other.dtype or one.shape != other.shape:
            text = f"{name} is {one.dtype} {one.shape}, by VTK {other.dtype} {other.shape}"
            return "differs", text
        if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            return "differs", f"{name} has other values"
    missing = sorted({*ours} - {*theirs})
    return ("lenient", f"{missing[0]} is not read by VTK") if missing else ("", "")
