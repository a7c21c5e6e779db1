"""Grids round airfoils and their meshes: closed, of positive volume, in OpenFOAM's order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstream.physics.openfoam.airfoils import Curve, Numbers, enclosed_area, naca
from slipstream.physics.openfoam.c_grid import CGrid, GridShape, cell_areas, make_grid
from slipstream.physics.openfoam.poly_mesh import FAR, WALL, extruded

COARSE = GridShape(
    around=60, wake=16, first=8e-4, growth=1.3, far=20.0, leading=0.004, trailing=0.01
)


@pytest.mark.parametrize("name", ["0006", "0012", "6409", "23018", "4424"])
@pytest.mark.parametrize("incidence", [-10.0, 0.0, 15.0])
@pytest.mark.parametrize("shape", [COARSE, GridShape()])
def test_cells_are_positive_and_fill_what_the_boundary_encloses(
    name: str, incidence: float, shape: GridShape
) -> None:
    grid = make_grid(naca(name), shape, incidence=incidence)
    assert _non_orthogonality(grid) < 65
    areas = cell_areas(grid.points)
    outside = enclosed_area(np.concatenate((grid.points[:, -1], grid.points[-1, ::-1])))
    ends = grid.points[0, ::-1]
    whole = np.concatenate((grid.points[:, -1], grid.points[-1, ::-1], grid.points[0]))
    wall = grid.points[grid.wake : len(grid.points) - grid.wake, 0]
    assert len(ends) and outside > 0
    assert areas.sum() == pytest.approx(enclosed_area(whole) - enclosed_area(wall), rel=1e-9)
    assert (grid.points == grid.points.astype(np.float32)).all()


def _non_orthogonality(grid: CGrid) -> float:
    """The largest angle, in degrees, between a face's normal and the line through the centres."""
    p = grid.points
    centre = (p[1:, 1:] + p[:-1, 1:] + p[1:, :-1] + p[:-1, :-1]) / 4
    worst = 0.0
    for line, face in (
        (np.diff(centre, axis=0), np.diff(p[1:-1], axis=1)),
        (np.diff(centre, axis=1), np.diff(p[:, 1:-1], axis=0)),
    ):
        sine = np.abs(line[..., 0] * face[..., 1] - line[..., 1] * face[..., 0])
        cosine = sine / np.linalg.norm(line, axis=-1) / np.linalg.norm(face, axis=-1)
        worst = max(worst, float(np.degrees(np.arccos(cosine.min()))))
    return worst


def test_the_mesh_is_closed_in_order_and_faces_outwards() -> None:
    grid = make_grid(naca("2412"), COARSE, incidence=5.0)
    mesh = extruded(grid, 0.5)
    volumes, inside = mesh.volumes(), len(mesh.neighbour)
    assert volumes == pytest.approx(cell_areas(grid.points).ravel() * 0.5, rel=1e-6)
    assert np.abs(mesh.gaps()).max() < 1e-12
    pairs = np.stack((mesh.owner[:inside], mesh.neighbour), 1)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert (np.lexsort((pairs[:, 1], pairs[:, 0])) == np.arange(inside)).all()
    assert len(np.unique(pairs, axis=0)) == inside
    assert [patch.start for patch in mesh.patches] == [
        inside, inside + 60, inside + 60 + mesh.patches[1].count
    ]  # fmt: skip
    assert sum(patch.count for patch in mesh.patches) + inside == len(mesh.faces)
    vectors = mesh.area_vectors()
    by_patch = {p.name: vectors[p.start : p.start + p.count] for p in mesh.patches}
    assert np.abs(by_patch[WALL].sum(0)).max() < 1e-7  # a closed airfoil
    middles = mesh.points[mesh.patch_faces(FAR)].mean(1)
    assert ((by_patch[FAR] * middles).sum(1) > 0).all()


def test_spacings_are_those_of_the_shape() -> None:
    grid = make_grid(naca("0012"), COARSE)
    wall = slice(grid.wake, len(grid.points) - grid.wake)
    first = np.linalg.norm(grid.points[wall, 1] - grid.points[wall, 0], axis=1)
    assert first == pytest.approx(COARSE.first, rel=0.01)
    assert grid.points[[0, -1], :, 0] == pytest.approx(1 + COARSE.far, rel=1e-6)
    assert np.array_equal(grid.points[: grid.wake, 0], grid.points[::-1][: grid.wake, 0])


def test_a_folded_grid_is_refused() -> None:
    class Cusp:
        """So concave on its upper side that lines along the normals meet."""

        def at(self, t: Numbers) -> Curve:
            x = t * t
            dent = 0.3 * np.exp(-(((x - 0.5) / 0.02) ** 2)) * (t > 0)
            return np.stack((x, np.sign(t) * 0.2 * np.sqrt(x) * (1 - x) - dent * x), -1)

    with pytest.raises(ValueError, match="must have a positive area, got .* that overlap"):
        make_grid(Cusp(), COARSE)


def test_shapes_that_cannot_be(tmp_path: Path) -> None:
    for settings, sentence in (
        ({"around": 61}, "around must be even"),
        ({"growth": 3.0}, "growth must be from 1.02 to 2"),
        ({"wake": 2}, "wake must be"),
    ):
        with pytest.raises(ValueError, match=sentence):
            GridShape(**settings)  # type: ignore[arg-type]
