"""Structured grids are read as points and cells: legacy VTK and VTK XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import mesh_info, read_mesh
from slipstream.data.meshes.vtk_data import info_of

from ..cards.test_mesh_source import P, columns, source_of
from ..mesh_files import ALL, FLUX, check_same, spoil, with_arrays


def grids() -> dict[str, Any]:
    x, y, z = np.array([0, 1, 3.0]), np.array([0, 0.5]), np.array([0, 1, 2, 4.0])
    curved = pv.StructuredGrid(*np.meshgrid(x, y, z, indexing="ij"))
    curved.points = (curved.points + 0.1 * curved.points**2).astype(np.float32)
    return {
        "vti": pv.ImageData(dimensions=(3, 4, 2), spacing=(0.1, 1, 2), origin=(5, 0, 0)),
        "vtr": pv.RectilinearGrid(x, y, z),
        "vts": curved,
        "flat": pv.ImageData(dimensions=(3, 4, 1)),
        "line": pv.ImageData(dimensions=(1, 4, 1)),
    }


@pytest.mark.parametrize("kind", grids())
@pytest.mark.parametrize("binary", [True, False])
def test_legacy_structured_grids(kind: str, binary: bool, tmp_path: Path) -> None:
    grid = with_arrays(grids()[kind])
    path = tmp_path / "grid.vtk"
    grid.save(path, binary=binary)
    truth = grid.cast_to_unstructured_grid()
    mesh = read_mesh(path, ALL)
    if binary:
        check_same(mesh, _as_listed(truth, grid))
    np.testing.assert_allclose(mesh.points(), truth.points, rtol=1e-6)
    held = mesh_info(path)
    assert (held.points, held.cells) == (truth.n_points, truth.n_cells)
    assert set(held.arrays) == set(mesh.info.arrays)


def _as_listed(truth: Any, grid: Any) -> Any:
    """Points that are only given by numbers along the axes are double."""
    if not isinstance(grid, pv.StructuredGrid):
        truth.points = np.asarray(grid.points, np.float64)
    return truth


@pytest.mark.parametrize("kind", ["vti", "vtr", "vts"])
@pytest.mark.parametrize("binary", [True, False])
def test_xml_structured_grids(kind: str, binary: bool, tmp_path: Path) -> None:
    grid = with_arrays(grids()[kind])
    path = tmp_path / f"grid.{kind}"
    grid.save(path, binary=binary)
    mesh, held = read_mesh(path, [FLUX]), mesh_info(path)
    assert (held.points, held.cells) == (grid.n_points, grid.n_cells)
    assert {(a.name, a.location, a.rows) for a in held.arrays} == {
        (a.name, a.location, a.rows) for a in info_of(grid).arrays
    }
    assert np.array_equal(mesh.array(FLUX), grid.cell_data["flux"])
    np.testing.assert_allclose(mesh.points(), grid.points, rtol=1e-6)
    np.testing.assert_allclose(mesh.cell_centres(), grid.cell_centers().points, rtol=1e-5)


def test_a_card_of_legacy_structured_grids(tmp_path: Path) -> None:
    grid = grids()["vti"]
    grid.point_data["p"] = np.asarray(grid.points)[:, 0] * 2
    (tmp_path / "raw").mkdir()
    grid.save(tmp_path / "raw" / "a.vtk")
    source = source_of(tmp_path / "raw", files={"mesh": "{id}.vtk"}, targets=[P])
    found = columns(source, "a")
    np.testing.assert_allclose(found["p"][:, 0], found["position"][:, 0] * 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        ("vts", b"DIMENSIONS 3", b"DIMENSIONS 4", "got 24 points, not the 32 of its DIMENSIONS"),
        ("vti", b"DIMENSIONS 3 4 2", b"", "got STRUCTURED_POINTS without DIMENSIONS"),
        ("vti", b"DIMENSIONS 3", b"DIMENSIONS 9", "got POINT_DATA of 24 rows, not the 72 of its"),
        ("vtr", b"DIMENSIONS 3", b"DIMENSIONS 2", r"coordinates \[3, 2, 4\], not the \(2, 2, 4\)"),
        ("vtr", b"RECTILINEAR", b"RECTANGULAR", "not POLYDATA, UNSTRUCTURED_GRID, STRUCTURED_PO"),
    ],
)
def test_spoilt_structured_grids(
    kind: str, old: bytes, new: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "grid.vtk"
    with_arrays(grids()[kind]).save(path)
    spoil(path, old, new)
    with pytest.raises(ValueError, match=says) as caught:
        read_mesh(path, ALL)
    assert "\n" not in str(caught.value)
