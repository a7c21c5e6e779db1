"""The mesh of the benchmark is what it says: VTK reads it, and the card's way gives its values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pyvista

from slipstream.bench.mesh import Grid, measure_mesh, write_vtu
from slipstream.data.store import open_store


def test_vtk_reads_a_cube_of_hexahedra(tmp_path: Path) -> None:
    write_vtu(tmp_path / "cube.vtu", Grid(5))
    mesh = pyvista.read(tmp_path / "cube.vtu")
    assert (mesh.n_points, mesh.n_cells) == (125, 64) and set(mesh.celltypes) == {12}
    assert mesh.bounds == pytest.approx((0, 1, 0, 1, 0, 1)) and mesh.volume == pytest.approx(1)
    assert (mesh.compute_cell_sizes()["Volume"] > 0).all()
    velocity = np.sin(7 * mesh.points[:, (1, 2, 0)])
    np.testing.assert_allclose(mesh["velocity"], velocity, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mesh["pressure"], 1 - (velocity**2).sum(1), rtol=1e-5, atol=1e-6)


def test_its_values_get_into_the_store(tmp_path: Path) -> None:
    found = measure_mesh(tmp_path, points=1000)
    assert found["points"] == 1000 and found["uncompressed_bytes"] == 28_000 + 729 * (72 + 1)
    rows = open_store(tmp_path / "store").array("cube")
    velocity = np.sin(7 * rows[:, (1, 2, 0)])
    np.testing.assert_allclose(rows[:, 4:], velocity, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(rows[:, 3], 1 - (velocity**2).sum(1), rtol=1e-5, atol=1e-6)
    assert len(np.unique(rows[:, :3], axis=0)) == 1000


def test_too_few_points(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="points of a mesh must be a whole number of at least 8"):
        measure_mesh(tmp_path, points=7)
