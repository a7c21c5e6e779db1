"""Mesh files: their formats, and what is needed to read no more of them than is wanted.

    arrays       what a file holds, what is wanted of it
    parts        files in byte parts
    xml_*        VTK XML (.vtp, .vtu), read here: points and arrays, cells some at a time
    legacy_*     legacy VTK (.vtk), the same where it is binary
    ply, stl     PLY, read here; STL, checked for VTK
    vtk_*        what VTK reads: STL, text, structured grids, blocks (.vtm), and what else is left
    openfoam     OpenFOAM cases, by VTK
    cells        corners of cells, however they are stored

`slipstream.data.readers.vtk` is the front of all this.
"""
