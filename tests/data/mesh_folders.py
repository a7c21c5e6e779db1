"""Small real mesh files whose arrays are known functions of the position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray


def pressure(x: NDArray[Any]) -> NDArray[Any]:
    return 50 * x[:, 0] + 7 * x[:, 1]


def shear(x: NDArray[Any]) -> NDArray[Any]:
    return np.stack([x[:, 1], -x[:, 0], 1 + x[:, 2]], 1)


def ball(radius: float = 1.0) -> pv.PolyData:
    """A closed surface of 162 triangles' corners, faces turned outward."""
    sphere = pv.Icosphere(radius=radius, nsub=2)
    return pv.PolyData(sphere.points.astype(np.float32), sphere.faces)


def block(origin: float = 0.0) -> pv.UnstructuredGrid:
    """A volume of 4 x 3 x 2 hexahedra with edges of 1."""
    axes = np.arange(5.0) + origin, np.arange(4.0), np.arange(3.0)
    return pv.StructuredGrid(*np.meshgrid(*axes, indexing="ij")).cast_to_unstructured_grid()


def with_fields(mesh: Any, location: str = "point", **arrays: NDArray[Any]) -> Any:
    """The mesh with p and tau, or the given arrays instead, at its points or cells."""
    mesh = mesh.copy()
    x = np.asarray(mesh.points if location == "point" else mesh.cell_centers().points)
    data = mesh.point_data if location == "point" else mesh.cell_data
    for name, values in (arrays or {"p": pressure(x), "tau": shear(x)}).items():
        data[name] = values.astype(np.float32) if values.dtype.kind == "f" else values
    return mesh


def shuffled(surface: pv.PolyData, seed: int = 0) -> pv.PolyData:
    """The same surface with points and triangles in another order, and their arrays."""
    draw = np.random.default_rng(seed)
    points, cells = draw.permutation(surface.n_points), draw.permutation(surface.n_cells)
    triangles = np.argsort(points)[surface.regular_faces[cells]]
    mesh = pv.PolyData.from_regular_faces(surface.points[points], triangles)
    for name, values in surface.point_data.items():
        mesh.point_data[name] = np.asarray(values)[points]
    for name, values in surface.cell_data.items():
        mesh.cell_data[name] = np.asarray(values)[cells]
    return mesh


def save(mesh: Any, path: Path, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    mesh.save(path, **options)
    return path


def write_case(case: Path, pressure: tuple[float, float] = (3.0, 5.0)) -> None:
    """An OpenFOAM case: two cubes in a row along x, at the times 0 and 10."""
    points = [(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1, 2)]
    inner = [(1, 4, 10, 7)]
    wall = [(0, 1, 7, 6), (1, 2, 8, 7), (3, 9, 10, 4), (4, 10, 11, 5)]
    wall += [(0, 3, 4, 1), (1, 4, 5, 2), (6, 7, 10, 9), (7, 8, 11, 10)]
    ends = [(0, 6, 9, 3), (2, 5, 11, 8)]
    faces = [f"4({' '.join(map(str, face))})" for face in (*inner, *wall, *ends)]
    patches = {"wall": (8, 1), "ends": (2, 9)}
    bounds = [f"{n} {{ type patch; nFaces {k}; startFace {s}; }}" for n, (k, s) in patches.items()]
    owner = [0, *(0, 1) * 4, 0, 1]
    mesh = case / "constant" / "polyMesh"
    _foam(mesh / "points", "vectorField", _list([f"({x} {y} {z})" for x, y, z in points]))
    _foam(mesh / "faces", "faceList", _list(faces))
    _foam(mesh / "owner", "labelList", _list(owner))
    _foam(mesh / "neighbour", "labelList", _list([1]))
    _foam(mesh / "boundary", "polyBoundaryMesh", _list(bounds))
    _foam(case / "system" / "controlDict", "dictionary", "application simpleFoam;")
    for time, factor in (("0", 0.0), ("10", 1.0)):
        values = {"p": [factor * p for p in pressure], "U": ["(1 2 3)", "(4 5 6)"]}
        for name, kind in (("p", "scalar"), ("U", "vector")):
            zero = "0" if kind == "scalar" else "(0 0 0)"
            sides = " ".join(f"{p} {{ type fixedValue; value uniform {zero}; }}" for p in patches)
            inside = f"internalField nonuniform List<{kind}> {_list(values[name])};"
            text = f"dimensions [0 0 0 0 0 0 0];\n{inside}\nboundaryField {{ {sides} }}"
            _foam(case / time / name, f"vol{kind.capitalize()}Field", text)


def _list(items: Any) -> str:
    lines = [str(item) for item in items]
    return f"{len(lines)}\n(\n" + "\n".join(lines) + "\n)\n"


def _foam(path: Path, kind: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"FoamFile {{ version 2.0; format ascii; class {kind}; object {path.name}; }}\n"
    path.write_text(head + text)
