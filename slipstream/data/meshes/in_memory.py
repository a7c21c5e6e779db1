"""Meshes of Python users: pyvista objects and numpy arrays as `Mesh`, and with arrays added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.data.meshes.added_arrays import NOTHING, checked_arrays
from slipstream.data.meshes.arrays import LOCATIONS, as_text
from slipstream.data.meshes.mesh import Mesh
from slipstream.data.meshes.openfoam import CASE
from slipstream.data.meshes.regions import INTERNAL, chosen_blocks
from slipstream.data.meshes.requests import Request, kind_of, name_of
from slipstream.data.meshes.vtk_data import as_listed, attributes, info_of, joined_data
from slipstream.data.meshes.vtk_files import check_not_empty, check_rows
from slipstream.data.meshes.vtk_writing import add_arrays, load_blocks

_FORMS = "a pyvista or VTK data set, or numpy arrays (points,) or (points, cells)"


def mesh_of(data: Any, *, name: str = "the mesh") -> Mesh:
    """A mesh in memory: a pyvista or VTK data set, whose arrays are not copied, or numpy arrays.

    These are a tuple: points (P, 3) or (P, 2), alone or with cells (C, k), polygons of k corners
    each. The blocks of a MultiBlock are joined as those of a .vtm. `name` stands for the mesh in
    errors. ValueError for anything else, and for a mesh without points.
    """
    leaves = [as_listed(leaf) for leaf in _leaves(_data_of(data))]
    joined = joined_data(leaves, name) if leaves else None
    if joined is None or not joined.GetNumberOfPoints():
        raise ValueError(f"{name} must have at least one point, got none")
    info = info_of(joined)
    check_not_empty(info, name)
    for array in info.arrays:
        check_rows(array, info, name)
    return Mesh(name, joined)


def with_arrays(
    data: Any,
    *,
    point_arrays: Mapping[str, NDArray[Any]] = NOTHING,
    cell_arrays: Mapping[str, NDArray[Any]] = NOTHING,
    units: Mapping[str, str] = NOTHING,
) -> Any:
    """The pyvista object of what `mesh_of` accepts, with arrays added in the order of its rows.

    It is a copy that shares points, cells and arrays with `data`, which does not change. ValueError
    for an array of another number of rows, or of a name that the mesh has already.
    """
    added = checked_arrays(point_arrays, cell_arrays, units)
    whole = _copied(_data_of(data))
    leaves = list(_leaves(whole))
    if not any(leaf.GetNumberOfPoints() for leaf in leaves):
        raise ValueError("the mesh must have at least one point, got none")
    add_arrays(leaves, added, "the mesh", deep=True)
    return need("pyvista", "mesh").wrap(whole)


def as_pyvista(path: Path | Sequence[Path], *, regions: Sequence[str] = (INTERNAL,)) -> Any:
    """The pyvista object of a mesh file with all its arrays, in the order of `read_mesh`'s rows.

    A .vtm, and a case of which patches are read, is a MultiBlock of named blocks, none inside
    another. VTK reads the file first in the process of guard.py, so that one on which it crashes is
    a ValueError, and then in this one.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    request, kind = Request(paths, wanted=None, regions=regions), kind_of(paths)
    request.check()
    pyvista = need("pyvista", "mesh")
    with request.files() as files:
        blocks = load_blocks(kind, files, regions)
    if kind == ".vtm":
        names = [block.name for block in chosen_blocks(paths[0], regions)]
        blocks = [(name, block) for name, (_, block) in zip(names, blocks, strict=True)]
    if not any(block.GetNumberOfPoints() for _, block in blocks):
        raise ValueError(f"{name_of(paths)} must have at least one point, got none")
    if kind != ".vtm" and (kind != CASE or len(blocks) == 1):
        return pyvista.wrap(blocks[0][1])
    joined = pyvista.MultiBlock()
    for name, block in blocks:
        joined.append(pyvista.wrap(block), name)
    return joined


def units_of(data: Any) -> dict[str, str]:
    """The units of the arrays of a pyvista or VTK object, by name, where it has any."""
    units = {}
    for leaf in _leaves(data):
        for location in LOCATIONS:
            held = attributes(leaf, location)
            for array in (held.GetArray(i) for i in range(held.GetNumberOfArrays())):
                unit = array is not None and array.GetInformation().Get(array.UNITS_LABEL())
                if unit:
                    units[as_text(array.GetName() or "")] = as_text(unit)
    return units


def _leaves(data: Any) -> Iterator[Any]:
    """The data sets of a tree of blocks, in its order."""
    if not data.IsA("vtkMultiBlockDataSet"):
        yield data
        return
    for index in range(data.GetNumberOfBlocks()):
        block = data.GetBlock(index)
        if block is not None:
            yield from _leaves(block)


def _copied(data: Any) -> Any:
    """A copy that shares the arrays; VTK's own of a tree shares the data sets, too, before 9.3."""
    copy = data.NewInstance()
    copy.ShallowCopy(data)
    if data.IsA("vtkMultiBlockDataSet"):
        for index in range(data.GetNumberOfBlocks()):
            block = data.GetBlock(index)
            if block is not None:
                copy.SetBlock(index, _copied(block))
    return copy


def _data_of(data: Any) -> Any:
    """The VTK data set, or tree of them, that is meant."""
    if isinstance(data, tuple):
        return _of_numbers(*data) if len(data) in (1, 2) else _refuse(f"{len(data)} arrays")
    if not hasattr(data, "IsA"):
        return _refuse(type(data).__name__)
    if not (data.IsA("vtkDataSet") or data.IsA("vtkMultiBlockDataSet")):
        return _refuse(data.GetClassName())
    for leaf in _leaves(data):
        if not leaf.IsA("vtkDataSet"):
            _refuse(f"a block that is {leaf.GetClassName()}")
    return data


def _refuse(got: str) -> Any:
    raise ValueError(f"a mesh must be {_FORMS}, got {got}")


def _of_numbers(points: Any, cells: Any = None) -> Any:
    """Numpy arrays as PolyData; points in a plane get the third coordinate 0."""
    support = need("vtkmodules.util.numpy_support", "mesh")
    model = need("vtkmodules.vtkCommonDataModel", "mesh")
    places = np.asarray(points)
    if places.ndim != 2 or places.shape[1] not in (2, 3) or places.dtype.kind not in "iuf":
        raise ValueError(
            f"points must be numbers of shape (P, 3) or (P, 2), got {places.dtype} of shape"
            f" {places.shape}"
        )
    if places.dtype not in (np.float32, np.float64):
        places = places.astype(np.float64)
    if places.shape[1] == 2:
        places = np.pad(places, ((0, 0), (0, 1)))
    data, held = model.vtkPolyData(), need("vtkmodules.vtkCommonCore", "mesh").vtkPoints()
    held.SetData(support.numpy_to_vtk(np.ascontiguousarray(places), deep=True))
    data.SetPoints(held)
    if cells is None:
        return data
    corners = np.asarray(cells)
    if corners.ndim != 2 or corners.shape[1] < 3 or corners.dtype.kind not in "iu":
        raise ValueError(
            "cells must be whole numbers of shape (C, k), k corners for each of C polygons, got"
            f" {corners.dtype} of shape {corners.shape}"
        )
    if corners.size and not 0 <= corners.min() <= corners.max() < len(places):
        raise ValueError(
            f"cells must have corners among the {len(places)} points, got numbers from"
            f" {corners.min()} to {corners.max()}"
        )
    polygons = model.vtkCellArray()
    ends = np.arange(len(corners) + 1, dtype=np.int64) * corners.shape[1]
    ids = (support.numpy_to_vtkIdTypeArray(a.astype(np.int64), deep=True)
           for a in (ends, corners.ravel()))  # fmt: skip
    polygons.SetData(*ids)
    data.SetPolys(polygons)
    return data
