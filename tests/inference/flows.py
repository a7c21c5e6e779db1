"""Small models of real meshes, and their inputs computed by hand from pyvista's geometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray

from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import ingest
from slipstream.training.session import train

from ..data.mesh_folders import ball, pressure, save, shear, with_fields
from ..training.small import small

SURFACE = """
schema: 1
name: balls
files: {mesh: "run_{id}.vtp"}
location: cell
coords: {name: position, unit: m}
features:
  - {name: normal, computed: normals}
targets:
  - {name: p, unit: m^2/s^2, from: {file: mesh, array: p}}
  - {name: tau, unit: m^2/s^2, from: {file: mesh, array: tau, components: 3}}
parameters:
  - {file: designs.csv, id: run, features: [{name: U_inf, unit: m/s, from: U}]}
splits: {lists: {train: ["0", "1", "2"], val: ["3"]}}
"""
VOLUME = """
schema: 1
name: rooms
files: {mesh: "run_{id}.vtu", body: "body.stl"}
location: cell
coords: {name: position, unit: m}
features:
  - {name: gap, computed: distance, to: body}
targets:
  - {name: p, unit: Pa, from: {file: mesh, array: p}}
  - {name: U, unit: m/s, from: {file: mesh, array: U, components: 3}}
splits: {lists: {train: ["0", "1", "2"], val: ["3"]}}
"""


def surface_run(folder: Path) -> Path:
    """A model of pressure and shear on the cells of balls with radii 1 to 1.3; U from 20 to 23."""
    for k in range(4):
        body = with_fields(ball(1 + 0.1 * k), "cell")
        save(body, folder / "raw" / f"run_{k}.vtp")
    table = ["run,U", *(f"{k},{20 + k}" for k in range(4))]
    (folder / "raw" / "designs.csv").write_text("\n".join(table))
    return _trained(folder, SURFACE)


def room(cells: int = 4, polyhedra: bool = False) -> pv.UnstructuredGrid:
    """A cube from -1 to 1 of hexahedra, or of polyhedra with the same corners."""
    axis = np.linspace(-1, 1, cells + 1)
    grid = pv.StructuredGrid(*np.meshgrid(axis, axis, axis, indexing="ij"))
    cube = grid.cast_to_unstructured_grid()
    if not polyhedra:
        return cube
    streams = []
    for cell in cube.cells_dict[12]:
        faces = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
        stream = [6, *(number for face in faces for number in (4, *cell[face]))]
        streams += [len(stream), *stream]
    return pv.UnstructuredGrid(np.array(streams), np.full(cube.n_cells, 42), cube.points)


def body() -> pv.PolyData:
    return ball(0.2)


def volume_run(folder: Path) -> Path:
    """A model of pressure and velocity in the cells of rooms, by their distance to a small ball."""
    for k in range(4):
        mesh = room(3 + k)
        x = np.asarray(mesh.cell_centers().points)
        save(with_fields(mesh, "cell", p=pressure(x), U=shear(x)), folder / "raw" / f"run_{k}.vtu")
    save(body(), folder / "raw" / "body.stl")
    return _trained(folder, VOLUME)


def _trained(folder: Path, card: str) -> Path:
    (folder / "card.yaml").write_text(card)
    store = folder / "store"
    ingest(MeshSource(folder / "raw", read_card(folder / "card.yaml")), store)
    config = small(
        data__problem=None, data__builtin=None, data__store=str(store), data__points=None,
        batch=1, steps=8, optim__learning_rate=0.02,
    )  # fmt: skip
    train(config, folder / "run", device="cpu")
    return folder / "run"


def area_vectors(mesh: pv.PolyData) -> NDArray[np.float64]:
    """Of polygons as they are, by the sum over their edges about the mean corner, one by one."""
    vectors = []
    for k in range(mesh.n_cells):
        corners = np.asarray(mesh.get_cell(k).points, np.float64)
        around = corners - corners.mean(0)
        vectors.append(0.5 * np.cross(around, np.roll(around, -1, 0)).sum(0))
    return np.array(vectors)


def centres(mesh: Any) -> NDArray[np.float64]:
    """The mean corner of every cell, one by one."""
    cells = range(mesh.n_cells)
    return np.array([np.asarray(mesh.get_cell(k).points, np.float64).mean(0) for k in cells])


def convex_normals(mesh: pv.PolyData) -> NDArray[np.float64]:
    """Unit normals away from the middle of a convex body, whichever way its faces turn."""
    vectors = area_vectors(mesh)
    away = ((centres(mesh) - np.asarray(mesh.points, np.float64).mean(0)) * vectors).sum(1)
    vectors = vectors * np.sign(away)[:, None]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
