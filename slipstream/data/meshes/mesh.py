"""Meshes in the formats that VTK knows: the contents of a file, and the arrays that are wanted.

    pressure = Wanted("p", "point", 1)
    mesh = read_mesh(path, [pressure])
    mesh.locations("point"), mesh.array(pressure)

Formats: VTK XML (.vtp, .vtu; structured .vti, .vts, .vtr), legacy VTK (.vtk), VTK
multi-block (.vtm), STL, PLY, and OpenFOAM cases (a case's folder or its .foam file). The blocks of
a .vtm are joined into one mesh; of one made from an OpenFOAM case, the volume is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import cells as of_cells
from slipstream.data.meshes.arrays import ArrayInfo, Location, MeshInfo, Wanted, resolve
from slipstream.data.meshes.cells import Cells
from slipstream.data.meshes.legacy_file import LegacyFile
from slipstream.data.meshes.legacy_header import scan_legacy
from slipstream.data.meshes.limits import memory_named
from slipstream.data.meshes.loaded import LoadedMesh
from slipstream.data.meshes.regions import INTERNAL, chosen_blocks
from slipstream.data.meshes.requests import Request, kind_of, name_of
from slipstream.data.meshes.vtk_data import as_loaded, volumes_of
from slipstream.data.meshes.vtk_files import XML, check_not_empty, check_rows
from slipstream.data.meshes.xml_file import XmlFile
from slipstream.data.meshes.xml_header import together
from slipstream.data.meshes.xml_layout import scan_xml

__all__ = [
    "ArrayInfo",
    "Location",
    "Mesh",
    "MeshInfo",
    "Wanted",
    "mesh_info",
    "read_mesh",
    "resolve",
]


class Mesh:
    """Points, cells and the arrays that were asked for."""

    def __init__(self, name: str, data: Any, request: Request | None = None) -> None:
        """`data` is a VTK data set of this process, or what `request` has read."""
        self.name = name
        """The name of the file, for errors."""
        self._data, self._request = data, request
        self._loaded = data if isinstance(data, LoadedMesh) else as_loaded(data)

    @property
    def info(self) -> MeshInfo:
        """Points, cells and arrays that have been read."""
        return self._loaded.info

    def points(self) -> NDArray[Any]:
        """(P, 3), not copied."""
        return self._loaded.points

    def cells(self) -> Cells:
        """The corners of the cells, some cells at a time."""
        return self._loaded.cells(self.name)

    def array(self, wanted: Wanted) -> NDArray[Any]:
        """Values by row: (rows,) for one component, (rows, components) otherwise."""
        return self._values(resolve(wanted, self.info.arrays, self.name))

    def cell_centres(self) -> NDArray[Any]:
        """The mean of each cell's corners, (C, 3)."""
        return of_cells.centres(self.cells(), self.points())

    def volumes(self) -> NDArray[Any]:
        """The volume of each cell, (C,), computed by VTK, which reads the file once more for it."""
        return self._request.volumes() if self._request else volumes_of(self._data)

    def locations(self, location: Location) -> NDArray[Any]:
        """Where the rows of an array are: the points, or the centres of the cells."""
        return self.points() if location == "point" else self.cell_centres()

    def triangles(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Points (P, 3) and triangles (T, 3) of a surface; a polygon becomes a fan of triangles.

        ValueError for a mesh with other cells than polygons, lines and vertices.
        """
        return self.points(), of_cells.triangles(self.cells())

    def _values(self, info: ArrayInfo) -> NDArray[Any]:
        return self._loaded.values[info]


class _FileMesh(Mesh):
    """Points and arrays in memory, and cells that are read from the file whenever they are needed.

    VTK would hold all cells, which in a volume take some 70 bytes a point; it reads them only where
    this package cannot. Arrays are read in the beginning, or with `later` at every request, and
    then none is kept.
    """

    def __init__(self, file: XmlFile | LegacyFile, wanted: Sequence[Wanted], later: bool) -> None:
        self.name = file.name
        self._file, self._request = file, Request(file.paths, wanted=())
        chosen = dict.fromkeys(resolve(want, file.info.arrays, file.name) for want in wanted)
        for array in chosen:
            check_rows(array, file.info, file.name)
        self._info = MeshInfo(file.info.points, file.info.cells, tuple(chosen))
        self._points = file.points()
        self._arrays = {} if later else {array: file.values(array) for array in chosen}

    @property
    def info(self) -> MeshInfo:
        return self._info

    def points(self) -> NDArray[Any]:
        return self._points

    def cells(self) -> Cells:
        return self._file.cells() or self._read_by_vtk.cells(self.name)

    def _values(self, info: ArrayInfo) -> NDArray[Any]:
        return self._arrays[info] if info in self._arrays else self._file.values(info)

    @cached_property
    def _read_by_vtk(self) -> LoadedMesh:
        return Request(self._file.paths, wanted=()).read()


def mesh_info(path: Path | Sequence[Path], *, regions: Sequence[str] = (INTERNAL,)) -> MeshInfo:
    """The contents of a file; values are read only for STL, PLY and OpenFOAM.

    Of a .vtm only arrays are listed that all its blocks, or those of the `regions`, have.
    """
    paths = _paths(path)
    kind = kind_of(paths)
    if kind == ".vtm":
        return together([mesh_info(block.file) for block in chosen_blocks(paths[0], regions)])
    file = _open(paths, kind)
    return file.info if file else Request(paths, wanted=None, regions=regions).info()


def read_mesh(
    path: Path | Sequence[Path],
    wanted: Sequence[Wanted] = (),
    *,
    regions: Sequence[str] = (INTERNAL,),
    later: bool = False,
) -> Mesh:
    """Read a mesh and the wanted arrays only; several paths are the byte parts of one file.

    With `later` an array is read when it is asked for, if the format allows it. Of an OpenFOAM case
    the last time step is read, in these `regions`: internalMesh, or patches by name or pattern,
    which in a .vtm are blocks. ValueError, with one sentence, for a file that is missing, empty,
    truncated or of an unknown format, for an array that is absent, at the other location, or of
    another number of components, and for a file on which VTK crashes or exceeds the limits on
    memory and time (limits.py).
    """
    paths = _paths(path)
    kind = kind_of(paths)
    with memory_named(name_of(paths)):
        file = _open(paths, kind)
        if file:
            check_not_empty(file.info, file.name)
            if file.readable([resolve(want, file.info.arrays, file.name) for want in wanted]):
                return _FileMesh(file, wanted, later)
        request = Request(paths, wanted=wanted, regions=regions)
        return Mesh(request.name, request.read(), request)


def _open(paths: Sequence[Path], kind: str) -> XmlFile | LegacyFile | None:
    """The file with its header read, if its format is read without VTK; else None."""
    if kind in XML:
        return XmlFile(tuple(paths), scan_xml(paths))
    if kind == ".vtk":
        return LegacyFile(tuple(paths), scan_legacy(paths))
    return None


def _paths(path: Path | Sequence[Path]) -> list[Path]:
    return [path] if isinstance(path, Path) else list(path)
