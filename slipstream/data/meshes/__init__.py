"""Mesh files. Other rooms import from here, never from the modules inside.

    mesh_info(path)                      # counts and arrays of a file, without their values
    mesh = read_mesh(path, [Wanted("p", "point", 1)])
    mesh.locations("point"), mesh.array(...)

mesh         reading a mesh in any format; mesh_files: which files on disk are meshes
arrays       the arrays that a file holds, and those that a reader wants
cells        corners of cells, however they are stored; areas; triangles
parts        files that are published in byte parts
xml_*        VTK XML (.vtp, .vtu), read here: points and arrays, cells some at a time; xml_layout
             checks lengths and places of all values, also of what VTK reads
legacy_*     legacy VTK (.vtk), read here in the same way where it is binary
text_numbers numbers in text, each checked
ply, stl     PLY, read here; STL, checked here before VTK reads it
vtk_*        formats that VTK reads: STL, text, structured grids and others; blocks: those of a .vtm
openfoam     OpenFOAM cases, read by VTK; messages: VTK's errors as exceptions
requests     what VTK reads is asked for here; guard: of a process with limits (limits), which runs
             reader_process and answers by messaging with the arrays of a loaded mesh
writing      a mesh written with arrays added: output_path, write_with_arrays; vtk_writing: by VTK,
             block_rows: which rows of the arrays are in which block; block_index: the .vtm of them
in_memory    pyvista objects and numpy arrays as meshes: mesh_of, with_arrays; as_pyvista: of a file
inputs       the meshes that a user names on a command line
regions      which patches of a case, or blocks of a .vtm, are read
"""

from slipstream.data.meshes.cells import area_vectors, face_centres, triangle_cells
from slipstream.data.meshes.in_memory import as_pyvista, mesh_of, units_of, with_arrays
from slipstream.data.meshes.inputs import MeshInput, find_inputs
from slipstream.data.meshes.limits import ReadLimits, read_within
from slipstream.data.meshes.mesh import (
    ArrayInfo,
    Location,
    Mesh,
    Wanted,
    mesh_info,
    read_mesh,
    resolve,
)
from slipstream.data.meshes.mesh_files import find_meshes, parts_of, patches_of
from slipstream.data.meshes.openfoam import field_unit, is_case
from slipstream.data.meshes.regions import INTERNAL
from slipstream.data.meshes.vtk_files import SUFFIXES
from slipstream.data.meshes.writing import output_path, write_with_arrays

__all__ = [
    "ArrayInfo",
    "INTERNAL",
    "Location",
    "Mesh",
    "MeshInput",
    "ReadLimits",
    "SUFFIXES",
    "Wanted",
    "area_vectors",
    "as_pyvista",
    "face_centres",
    "field_unit",
    "find_inputs",
    "find_meshes",
    "is_case",
    "mesh_info",
    "mesh_of",
    "output_path",
    "parts_of",
    "patches_of",
    "read_mesh",
    "read_within",
    "resolve",
    "triangle_cells",
    "units_of",
    "with_arrays",
    "write_with_arrays",
]
