"""Mesh files. This is the only way to a mesh: nothing outside imports the modules in here.

    describe(path)                      # what a file holds, without reading its values
    mesh = read_mesh(path, [Wanted("p", "point", 1)])
    mesh.locations("point"), mesh.array(...)

mesh         reading a mesh in any format; mesh_files: which files on disk are meshes
arrays       what a file holds, what is wanted of it
cells        corners of cells, however they are stored; areas; triangles
parts        files in byte parts
xml_*        VTK XML (.vtp, .vtu), read here: points and arrays, cells some at a time
legacy_*     legacy VTK (.vtk), the same where it is binary
ply, stl     PLY, read here; STL, checked for VTK
vtk_*        what VTK reads: STL, text, structured grids, blocks (.vtm), and what else is left
openfoam     OpenFOAM cases, by VTK; messages: VTK's errors as exceptions
"""

from slipstream.data.meshes.cells import area_vectors, triangle_cells
from slipstream.data.meshes.mesh import (
    ArrayInfo,
    Location,
    Mesh,
    Wanted,
    describe,
    read_mesh,
    resolve,
)
from slipstream.data.meshes.mesh_files import find_meshes, parts_of, patches_of
from slipstream.data.meshes.openfoam import INTERNAL, is_case
from slipstream.data.meshes.vtk_files import SUFFIXES

__all__ = [
    "ArrayInfo",
    "INTERNAL",
    "Location",
    "Mesh",
    "SUFFIXES",
    "Wanted",
    "area_vectors",
    "describe",
    "find_meshes",
    "is_case",
    "parts_of",
    "patches_of",
    "read_mesh",
    "resolve",
    "triangle_cells",
]
