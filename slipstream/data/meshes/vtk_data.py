"""VTK data sets as numpy arrays: their contents and cells, and several data sets joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.data.meshes.arrays import LOCATIONS, ArrayInfo, Location, MeshInfo, as_text
from slipstream.data.meshes.cells import POLYGON, STRIP
from slipstream.data.meshes.loaded import CellPart, LoadedMesh
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.ply import PlyMesh

_OF_POLYDATA = (("Verts", 2), ("Lines", 4), ("Polys", POLYGON), ("Strips", STRIP))


def as_numpy(array: Any) -> NDArray[Any]:
    """The values of a VTK array, not copied."""
    return need("vtkmodules.util.numpy_support", "mesh").vtk_to_numpy(array)


def attributes(data: Any, location: Location) -> Any:
    return data.GetPointData() if location == "point" else data.GetCellData()


def info_of(data: Any) -> MeshInfo:
    """The contents of a data set; arrays of text are left out."""
    arrays = []
    for location in LOCATIONS:
        held = attributes(data, location)
        for array in (held.GetArray(i) for i in range(held.GetNumberOfArrays())):
            if array is not None:
                arrays.append(_info(array, location))
    return MeshInfo(data.GetNumberOfPoints(), data.GetNumberOfCells(), tuple(arrays))


def _info(array: Any, location: Location) -> ArrayInfo:
    support = need("vtkmodules.util.numpy_support", "mesh")
    dtype = np.dtype(support.get_numpy_array_type(array.GetDataType())).name
    shape = array.GetNumberOfComponents(), array.GetNumberOfTuples()
    return ArrayInfo(as_text(array.GetName() or ""), location, *shape, dtype)


def as_loaded(data: Any) -> LoadedMesh:
    """A data set as plain arrays, which are not copied.

    The cells are in the order of the data set: vertices, lines, polygons, strips in PolyData.
    """
    values = {}
    for location in LOCATIONS:
        held = attributes(data, location)
        for array in (held.GetArray(i) for i in range(held.GetNumberOfArrays())):
            if array is not None:
                values[_info(array, location)] = as_numpy(array)
    return LoadedMesh(as_numpy(data.GetPoints().GetData()), _parts(data), values)


def _parts(data: Any) -> list[CellPart]:
    kinds: list[tuple[Any, int | None]]
    if not data.IsA("vtkPolyData"):
        kinds = [(data.GetCells(), None)]
    else:
        kinds = [(getattr(data, f"Get{name}")(), kind) for name, kind in _OF_POLYDATA]
    parts = []
    for cells, kind in kinds:
        if cells is not None and cells.GetNumberOfCells():  # None: a grid of points alone
            offsets, corners = cells.GetOffsetsArray(), cells.GetConnectivityArray()
            types = _types(data) if kind is None else kind
            parts.append(CellPart(types, as_numpy(offsets), as_numpy(corners)))
    return parts


def volumes_of(data: Any) -> NDArray[Any]:
    """The volume of each cell, as VTK computes it."""
    sizes = need("vtkmodules.vtkFiltersVerdict", "mesh").vtkCellSizeFilter()
    sizes.SetInputData(data)
    sizes.ComputeVertexCountOff()
    sizes.ComputeLengthOff()
    sizes.ComputeAreaOff()
    sizes.ComputeVolumeOn()
    sizes.Update()
    return as_numpy(sizes.GetOutput().GetCellData().GetArray("Volume"))


def _types(data: Any) -> NDArray[np.uint8]:
    try:
        return as_numpy(data.GetCellTypes())
    except TypeError:  # before VTK 9.6
        return as_numpy(data.GetCellTypesArray())


def joined_data(blocks: Sequence[Any], file: str) -> Any:
    """Several data sets as one; only arrays that all have are kept, and surfaces stay surfaces."""
    full = [block for block in blocks if block.GetNumberOfPoints()]
    if len(full) < 2:
        return [*full, *blocks][0]
    core = need("vtkmodules.vtkFiltersCore", "mesh")
    surfaces = all(block.IsA("vtkPolyData") for block in full)
    append = core.vtkAppendPolyData() if surfaces else core.vtkAppendFilter()
    for block in full:
        append.AddInputData(block)
    with vtk_errors(file):
        append.Update()
    return append.GetOutput()


def as_listed(data: Any) -> Any:
    """A data set with explicit points and cells: structured grids become unstructured ones."""
    if data.IsA("vtkPolyData") or data.IsA("vtkUnstructuredGrid"):
        return data
    append = need("vtkmodules.vtkFiltersCore", "mesh").vtkAppendFilter()
    if not data.IsA("vtkPointSet"):
        append.SetOutputPointsPrecision(append.DOUBLE_PRECISION)
    append.AddInputData(data)
    append.Update()
    return append.GetOutput()


def as_polydata(mesh: PlyMesh) -> Any:
    """A mesh from a PLY file as a VTK data set."""
    support = need("vtkmodules.util.numpy_support", "mesh")
    model = need("vtkmodules.vtkCommonDataModel", "mesh")
    points = need("vtkmodules.vtkCommonCore", "mesh").vtkPoints()
    points.SetData(support.numpy_to_vtk(mesh.points, deep=True))
    cells = model.vtkCellArray()
    ids = (support.numpy_to_vtkIdTypeArray(a, deep=True) for a in (mesh.offsets, mesh.corners))
    cells.SetData(*ids)
    data = model.vtkPolyData()
    data.SetPoints(points)
    data.SetPolys(cells)
    for held, columns in (
        (data.GetPointData(), mesh.point_data), (data.GetCellData(), mesh.cell_data)
    ):  # fmt: skip
        for name, values in columns.items():
            array = support.numpy_to_vtk(values, deep=True)
            array.SetName(name)
            held.AddArray(array)
    return data
