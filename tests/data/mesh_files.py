"""Small meshes with known arrays, and how to write them in every way that files come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from vtkmodules.vtkFiltersParallel import vtkExtractPolyDataPiece, vtkExtractUnstructuredGridPiece
from vtkmodules.vtkIOLegacy import vtkPolyDataWriter, vtkUnstructuredGridWriter
from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter, vtkXMLUnstructuredGridWriter

from slipstream.data.meshes import ArrayInfo, Mesh, Wanted
from slipstream.data.meshes.mesh import MeshInfo

PRESSURE = Wanted("Pressure (", "point", 1, prefix=True)
VELOCITY = Wanted("U", "point", 3)
HEAT = Wanted("heat", "cell", 1)
FLUX = Wanted("flux", "cell", 3)
ALL = (PRESSURE, VELOCITY, HEAT, FLUX)


def with_arrays(mesh: Any) -> Any:
    draw = np.random.default_rng(mesh.n_points)
    mesh.point_data["Pressure (N/m²)"] = draw.normal(size=mesh.n_points).astype(np.float32)
    mesh.point_data["U"] = draw.normal(size=(mesh.n_points, 3))
    mesh.cell_data["heat"] = np.arange(mesh.n_cells, dtype=np.int32)
    mesh.cell_data["flux"] = draw.normal(size=(mesh.n_cells, 3)).astype(np.float32)
    return mesh


def volume(polyhedron: bool = True) -> pv.UnstructuredGrid:
    """A hexahedron, two tetrahedra, a wedge, a pyramid, a polyhedron and a polygon."""
    points = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    cube = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
    faces = [corner for face in cube for corner in (4, *(22 + c for c in face))]
    cells = [
        (12, range(8)), (10, (8, 9, 10, 11)), (10, (9, 10, 11, 12)), (13, range(13, 19)),
        (14, (0, 1, 2, 3, 19)), (42, (6, *faces)), (7, (0, 20, 21, 5, 6)),
    ]  # fmt: skip
    cells = [cell for cell in cells if polyhedron or cell[0] != 42]
    flat = np.concatenate([[len(corners), *corners] for _, corners in cells])
    return with_arrays(pv.UnstructuredGrid(flat, np.array([kind for kind, _ in cells]), points))


def surface() -> pv.PolyData:
    """A closed surface of triangles, quadrangles and a hexagon: a capped prism."""
    angle = np.arange(6) * np.pi / 3
    ring = np.stack((np.cos(angle), np.sin(angle)), 1)
    points = np.concatenate([np.insert(ring, 2, height, 1) for height in (0, 2)])
    points = np.concatenate((points, [[0, 0, 2]])).astype(np.float32)
    sides = [(4, i, (i + 1) % 6, 6 + (i + 1) % 6, 6 + i) for i in range(6)]
    top = [(3, 6 + i, 6 + (i + 1) % 6, 12) for i in range(6)]
    return with_arrays(pv.PolyData(points, np.concatenate([*sides, *top, (6, *range(5, -1, -1))])))


def mixed_surface() -> pv.PolyData:
    """Two vertices, two lines, a triangle, a quadrangle, a pentagon, two strips; double points."""
    draw = np.random.default_rng(1)
    points = draw.normal(size=(16, 3))
    points[11:14] = points[2:5]  # a seam: the same places once more
    mesh = pv.PolyData(points, faces=[3, 0, 1, 2, 4, 2, 3, 4, 5, 5, 11, 12, 13, 14, 15])
    mesh.verts = [1, 6, 1, 7]
    mesh.lines = [2, 0, 9, 3, 8, 7, 6]
    mesh.strips = [5, 0, 3, 6, 9, 10, 4, 10, 11, 12, 1]
    return with_arrays(mesh)


def quadratic_volume() -> pv.UnstructuredGrid:
    """A quadratic tetrahedron, a tetrahedron, a quadratic hexahedron and a voxel."""
    points = np.random.default_rng(2).normal(size=(40, 3))
    cells = [(24, range(10)), (10, (3, 12, 11, 10)), (25, range(12, 32)), (11, range(32, 40))]
    flat = np.concatenate([[len(corners), *corners] for _, corners in cells])
    return with_arrays(pv.UnstructuredGrid(flat, np.array([kind for kind, _ in cells]), points))


def odd_names(mesh: Any) -> Any:
    """The mesh with names that XML and legacy files must encode, units, text and field data."""
    draw = np.random.default_rng(3)
    mesh.point_data['T <"K"> & [ü] %20'] = draw.normal(size=mesh.n_points)
    mesh.cell_data["shear stress"] = draw.normal(size=(mesh.n_cells, 2)).astype(np.float32)
    stress = mesh.cell_data.VTKObject.GetArray("shear stress")
    stress.SetComponentName(0, "<x>")
    stress.SetComponentName(1, "y & z")
    stress.GetInformation().Set(stress.UNITS_LABEL(), "N/m²")
    mesh.cell_data["group"] = [f"wall <{i}> &" for i in range(mesh.n_cells)]
    mesh.field_data["time <s>"] = np.array([0.5, 1.5])
    mesh.field_data["solver"] = ["simple & <old>", "two words"]
    mesh.point_data.active_scalars_name = "Pressure (N/m²)"
    mesh.point_data.active_vectors_name = "U"
    mesh.cell_data.active_vectors_name = "flux"
    return mesh


def write_xml(
    mesh: Any,
    path: Path,
    *,
    mode: str = "Appended",
    encoded: bool = False,
    packed: str = "ZLib",
    order: str = "Little",
    header: int = 32,
    pieces: int = 1,
    block: int = 64,
) -> Path:
    """`block` is the length of what is compressed at once: small arrays have several."""
    polygons = isinstance(mesh, pv.PolyData)
    writer = vtkXMLPolyDataWriter() if polygons else vtkXMLUnstructuredGridWriter()
    split = vtkExtractPolyDataPiece() if polygons else vtkExtractUnstructuredGridPiece()
    split.SetInputData(mesh)
    split.CreateGhostCellsOff()
    if pieces > 1:
        writer.SetInputConnection(split.GetOutputPort())
    else:
        writer.SetInputData(mesh)
    writer.SetFileName(str(path))
    getattr(writer, f"SetDataModeTo{mode}")()
    writer.SetEncodeAppendedData(encoded)
    getattr(writer, f"SetCompressorTypeTo{packed}")()
    getattr(writer, f"SetByteOrderTo{order}Endian")()
    getattr(writer, f"SetHeaderTypeToUInt{header}")()
    writer.SetBlockSize(block)
    writer.SetNumberOfPieces(pieces)
    assert writer.Write()
    return path


def write_legacy(mesh: Any, path: Path, *, binary: bool, version: str) -> Path:
    polygons = isinstance(mesh, pv.PolyData)
    writer = vtkPolyDataWriter() if polygons else vtkUnstructuredGridWriter()
    writer.SetInputData(mesh)
    writer.SetFileName(str(path))
    (writer.SetFileTypeToBinary if binary else writer.SetFileTypeToASCII)()
    writer.SetFileVersion(int(version.replace(".", "")))
    assert writer.Write()
    return path


def write_parts(path: Path, cuts: Sequence[int]) -> list[Path]:
    """Cut a file into byte parts, as they are published."""
    whole = path.read_bytes()
    bounds = [0, *cuts, len(whole)]
    parts = []
    for number, (start, stop) in enumerate(zip(bounds, bounds[1:], strict=False)):
        parts.append(path.with_name(f"{path.name}.{number:02d}.part"))
        parts[-1].write_bytes(whole[start:stop])
    return parts


def write_case(folder: Path) -> Path:
    """An OpenFOAM case of two unit cubes in x, with walls, inlet and outlet, at times 0 and 10."""

    def write(name: str, kind: str, body: str) -> None:
        head = f"FoamFile {{ version 2.0; format ascii; class {kind}; object {Path(name).name}; }}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{head}\n{body}\n")

    def listed(items: Sequence[Any]) -> str:
        return f"{len(items)}\n(\n" + "\n".join(map(str, items)) + "\n)"

    def corner(i: int, j: int, k: int) -> int:
        return (2 * i + j) * 2 + k

    points = [f"({i} {j} {k})" for i in range(3) for j in (0, 1) for k in (0, 1)]
    across = [
        [corner(i, 0, 0), corner(i, 1, 0), corner(i, 1, 1), corner(i, 0, 1)] for i in range(3)
    ]
    walls = []
    for i in (0, 1):
        for j, k in ((0, None), (1, None), (None, 0), (None, 1)):
            ends = [(0, 0), (1, 0), (1, 1), (0, 1)]
            face = [corner(i + a, b if j is None else j, b if k is None else k) for a, b in ends]
            walls.append(face if (j == 0 or k == 1) else face[::-1])
    faces = [across[1], *walls, across[0][::-1], across[2]]
    write("constant/polyMesh/points", "vectorField", listed(points))
    write("constant/polyMesh/faces", "faceList",
          listed([f"4({' '.join(map(str, face))})" for face in faces]))  # fmt: skip
    write("constant/polyMesh/owner", "labelList", listed([0, *[0] * 4, *[1] * 4, 0, 1]))
    write("constant/polyMesh/neighbour", "labelList", listed([1]))
    patches = {"walls": (8, 1), "inlet": (1, 9), "outlet": (1, 10)}
    boundary = [
        f"{n} {{ type patch; nFaces {c}; startFace {s}; }}" for n, (c, s) in patches.items()
    ]
    write("constant/polyMesh/boundary", "polyBoundaryMesh", listed(boundary))
    write(
        "system/controlDict", "dictionary", "startTime 0; endTime 10; deltaT 1; writeInterval 10;"
    )
    for time in (0, 10):
        for name, kind, values, wall in (
            ("p", "Scalar", [time, time + 1], "zeroGradient;"),
            ("U", "Vector", [f"({time} 0 1)", f"({time + 1} 0 1)"],
             "fixedValue; value uniform (7 8 9);"),
        ):  # fmt: skip
            edges = "".join(f"{n} {{ type {wall} }}\n" for n in patches)
            write(
                f"{time}/{name}",
                f"vol{kind}Field",
                f"dimensions [0 0 0 0 0 0 0];\ninternalField nonuniform List<{kind.lower()}>\n"
                f"{listed(values)};\nboundaryField\n{{\n{edges}}}",
            )
    return folder


def check_same(mesh: Mesh, truth: Any) -> None:
    """Points, all arrays and the centres of cells are those of a mesh in memory."""
    assert np.array_equal(mesh.points(), truth.points) and mesh.points().dtype == truth.points.dtype
    for wanted, expected in (
        (PRESSURE, truth.point_data["Pressure (N/m²)"]),
        (VELOCITY, truth.point_data["U"]),
        (HEAT, truth.cell_data["heat"]),
        (FLUX, truth.cell_data["flux"]),
    ):
        got = mesh.array(wanted)
        assert np.array_equal(got, expected) and got.dtype == expected.dtype
    corners = [truth.points[truth.get_cell(i).point_ids] for i in range(truth.n_cells)]
    centres = [points.astype(np.float64).mean(0) for points in corners]
    np.testing.assert_allclose(mesh.cell_centres(), centres, rtol=1e-6, atol=1e-7)
    assert np.array_equal(mesh.locations("point"), mesh.points())
    assert np.array_equal(mesh.locations("cell"), mesh.cell_centres())


def info_of(truth: Any) -> MeshInfo:
    points, cells = truth.n_points, truth.n_cells
    arrays = (
        ArrayInfo("Pressure (N/m²)", "point", 1, points, "float32"),
        ArrayInfo("U", "point", 3, points, "float64"),
        ArrayInfo("heat", "cell", 1, cells, "int32"),
        ArrayInfo("flux", "cell", 3, cells, "float32"),
    )
    return MeshInfo(points, cells, arrays)


def spoil(path: Path, old: bytes, new: bytes) -> None:
    raw = path.read_bytes()
    assert old in raw
    path.write_bytes(raw.replace(old, new, 1))
