"""Every kind of mesh through `slipstream predict`, by value against the model called by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import units_of
from slipstream.runs.model_file import load_model

from ..conftest import Command
from ..data.mesh_folders import ball, save, shuffled, write_case
from .flows import body, centres, convex_normals, room

Make = Callable[[Path], Path]


def polygons() -> pv.PolyData:
    """A closed prism of quadrangles and hexagons, with every point twice."""
    angle = np.arange(6) * np.pi / 3
    ring = np.stack((np.cos(angle), np.sin(angle)), 1)
    points = np.concatenate([np.insert(ring, 2, height, 1) for height in (-1, 1)])
    sides = [(4, i, (i + 1) % 6 + 12, 18 + (i + 1) % 6, 6 + i) for i in range(6)]
    caps = [(6, *range(5, -1, -1)), (6, *range(18, 24))]
    mesh = pv.PolyData(np.concatenate((points, points)), np.concatenate([*sides, *caps]))
    mesh.cell_data["zone"] = np.arange(mesh.n_cells)
    return mesh


def turned(mesh: pv.PolyData) -> pv.PolyData:
    """Every second triangle inside out."""
    faces = mesh.regular_faces.copy()
    faces[::2] = faces[::2, ::-1]
    return pv.PolyData.from_regular_faces(mesh.points, faces)


def vtm(folder: Path) -> Path:
    blocks = pv.MultiBlock({"left": ball(1.0), "right": ball(0.5).translate((3, 0, 0))})
    return save(blocks, folder / "two.vtm")


SURFACES: dict[str, Make] = {
    "polygons.vtp": lambda folder: save(polygons(), folder / "prism.vtp"),
    "ascii.vtp": lambda folder: save(shuffled(ball(1.2)), folder / "ball.vtp", binary=False),
    "legacy.vtk": lambda folder: save(ball(1.2), folder / "ball.vtk"),
    "binary.stl": lambda folder: save(ball(1.2), folder / "ball.stl"),
    "text.stl": lambda folder: save(ball(1.2), folder / "ball.stl", binary=False),
    "turned.stl": lambda folder: save(turned(ball(1.2)), folder / "ball.stl"),
    "ball.ply": lambda folder: save(ball(1.2), folder / "ball.ply"),
}


def predicted(command: Command, run: Path, mesh: Path, out: Path, *more: Any) -> Any:
    said = command("predict", run, mesh, "--out", out, *more)
    assert said.code == 0, said.err
    files = [f for f in out.iterdir() if f.suffix in (".vtp", ".vtu", ".vtk", ".vtm", ".vti")]
    assert len(files) == 1
    return pv.read(files[0])


@pytest.mark.parametrize("kind", SURFACES)
def test_a_surface(kind: str, surface_run: Path, tmp_path: Path, command: Command) -> None:
    mesh = SURFACES[kind](tmp_path)
    data = predicted(command, surface_run, mesh, tmp_path / "out", "--set", "U_inf=21.5")
    original = pv.read(mesh)
    assert data.n_points == original.n_points or mesh.suffix == ".stl"
    np.testing.assert_allclose(centres(data), centres(original), atol=1e-6)
    for name, values in original.cell_data.items():
        np.testing.assert_array_equal(data.cell_data[name], values)
    expected = by_hand(surface_run, data, 21.5)
    np.testing.assert_allclose(data.cell_data["p"], expected[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(data.cell_data["tau"], expected[:, 1:], rtol=1e-4, atol=1e-4)
    assert np.ptp(expected[:, 0]) > 1
    cp = np.asarray(data.cell_data["p"]) / (0.5 * 21.5**2)
    np.testing.assert_allclose(data.cell_data["cp"], cp, rtol=1e-5)
    assert units_of(data) == {"p": "m^2/s^2", "tau": "m^2/s^2", "cp": "1", "cf": "1"}
    assert "21.5" in data.field_data["slipstream_parameters"][0]


def by_hand(run: Path, mesh: pv.PolyData, speed: float) -> Any:
    trained = load_model(run)
    return trained(centres(mesh), {"normal": convex_normals(mesh), "U_inf": speed})


def test_blocks(surface_run: Path, tmp_path: Path, command: Command) -> None:
    data = predicted(command, surface_run, vtm(tmp_path), tmp_path / "out", "--set", "U_inf=22")
    assert data.keys() == ["left", "right"]
    normals = np.concatenate([convex_normals(data[k]) for k in range(2)])
    places = np.concatenate([centres(data[k]) for k in range(2)])
    expected = load_model(surface_run)(places, {"normal": normals, "U_inf": 22.0})
    values = np.concatenate([data[k].cell_data["p"] for k in range(2)])
    np.testing.assert_allclose(values, expected[:, 0], rtol=1e-4, atol=1e-4)


def test_patches_of_a_case(surface_run: Path, tmp_path: Path, command: Command) -> None:
    write_case(tmp_path / "case")
    how = ("--set", "U_inf=20", "--patches", "wall", "--patches", "ends", "--location", "cell")
    data = predicted(command, surface_run, tmp_path / "case", tmp_path / "out", *how)
    assert data.keys() == ["wall", "ends"]
    places = np.concatenate([centres(data[k]) for k in range(2)])
    outward = np.zeros_like(places)
    middle = places - (1, 0.5, 0.5)
    axis = np.abs(middle / (1, 0.5, 0.5)).argmax(1)
    outward[np.arange(10), axis] = np.sign(middle[np.arange(10), axis])
    expected = load_model(surface_run)(places, {"normal": outward, "U_inf": 20.0})
    values = np.concatenate([data[k].cell_data["p_prediction"] for k in range(2)])
    np.testing.assert_allclose(values, expected[:, 0], rtol=1e-4, atol=1e-4)


VOLUMES: dict[str, Make] = {
    "hexahedra.vtu": lambda folder: save(room(), folder / "room.vtu"),
    "polyhedra.vtu": lambda folder: save(room(polyhedra=True), folder / "room.vtu"),
    "legacy.vtk": lambda folder: save(room(), folder / "room.vtk"),
    "image.vti": lambda folder: save(
        pv.ImageData(dimensions=(4, 5, 6), spacing=(0.5, 0.4, 0.3), origin=(-1, -1, -1)),
        folder / "room.vti",
    ),
}


@pytest.mark.parametrize("kind", VOLUMES)
def test_a_volume(kind: str, volume_run: Path, tmp_path: Path, command: Command) -> None:
    mesh, surface = VOLUMES[kind](tmp_path), save(body(), tmp_path / "geometry" / "room.stl")
    how = ("--surface", surface.parent / "{name}.stl")
    data = predicted(command, volume_run, mesh, tmp_path / "out", *how)
    assert data.n_cells == pv.read(mesh).n_cells
    if kind == "polyhedra.vtu":
        assert (data.celltypes == 42).all() and data.get_cell(0).n_faces == 6
    expected = load_model(volume_run)(centres(data), {"gap": gaps(centres(data))})
    np.testing.assert_allclose(data.cell_data["p"], expected[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(data.cell_data["U"], expected[:, 1:], rtol=1e-4, atol=1e-4)


def test_the_volume_of_a_case(volume_run: Path, tmp_path: Path, command: Command) -> None:
    write_case(tmp_path / "case")
    surface = save(body(), tmp_path / "body.stl")
    data = predicted(command, volume_run, tmp_path / "case", tmp_path / "out", "--surface", surface)
    expected = load_model(volume_run)(centres(data), {"gap": gaps(centres(data))})
    np.testing.assert_allclose(data.cell_data["p_prediction"], expected[:, 0], rtol=1e-4, atol=1e-4)
    error = expected[:, 0] - np.asarray(data.cell_data["p"])
    np.testing.assert_allclose(data.cell_data["p_error"], error, rtol=1e-4, atol=1e-4)


def gaps(places: Any) -> Any:
    """Distances to the surface of the small ball, by VTK."""
    return np.abs(pv.PolyData(np.asarray(places)).compute_implicit_distance(body())
                  .point_data["implicit_distance"])  # fmt: skip
