"""The inspection of single files: runs that diverged, surfaces that are closed in part."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.cards import draft_card, look_at, look_at_file
from slipstream.data.cards.shape import Parts

from ..mesh_folders import ball, block, save, with_fields


@pytest.mark.parametrize("value", [1e300, 1.7e308, np.inf, -np.inf, np.nan, 1e-200])
def test_a_run_that_diverged(value: float, tmp_path: Path) -> None:
    """1e300 squared overflows and 1e-200 squared is 0; numbers of a file may be anything."""
    grid, body = block(), ball()
    grid.point_data["U"] = np.full((60, 3), value)
    grid.point_data["p"] = np.linspace(-900, 900, 60)
    for name in ("p", "U", "wallShearStress", "Normals"):
        body.point_data[name] = np.full((162,) if name == "p" else (162, 3), value)
    points = np.asarray(body.points, np.float64)
    points[3] = value
    far = with_fields(pv.PolyData(points, body.faces), p=np.arange(162.0))
    away = with_fields(pv.PolyData(np.full((162, 3), value), body.faces), p=np.arange(162.0))
    for k, mesh in enumerate((grid, body, far, away)):
        look = look_at(save(mesh, tmp_path / f"{k}.{'vtu' if mesh is grid else 'vtp'}"))
        json.dumps(look.to_json(), allow_nan=False)
        assert "targets:" in draft_card(look)


def test_parts_that_are_closed_and_parts_that_are_open(tmp_path: Path) -> None:
    """A ball inside out, one with a hole of one triangle, and a sheet of 2 x 3 squares."""
    whole = ball()
    inward = pv.PolyData.from_regular_faces(whole.points, whole.regular_faces[:, ::-1])
    holed = pv.PolyData.from_regular_faces(whole.points + 5, whole.regular_faces[1:, ::-1])
    sheet = pv.Plane(center=(9, 9, 9), i_resolution=2, j_resolution=3).triangulate()
    both = inward.append_polydata(holed).append_polydata(sheet)
    look = look_at_file(save(both, tmp_path / "a.vtp"))
    shape = look.shape
    assert (shape.closed, shape.nearly_closed) == (Parts(1, 320, 0), Parts(1, 319, 3))
    assert shape.open == Parts(1, 12, 10) and shape.open_edges == 13
    assert shape.turned == 320 + 319 and len(look.warnings) == 2
    assert look.warnings[0] == (
        "639 of the 639 triangles of the closed parts turn inward; computed normals are turned"
        " outward there"
    )
    assert "not established for 3.9 % of the area" in look.warnings[1]
    alone = look_at_file(save(sheet, tmp_path / "b.vtp")).shape
    assert alone.closed == Parts(0, 0, 0) == alone.nearly_closed and alone.open == Parts(1, 12, 10)
    flat = np.append(whole.regular_faces, [(0, 0, 1)], axis=0)
    shape = look_at_file(
        save(pv.PolyData.from_regular_faces(whole.points, flat), tmp_path / "c.vtp")
    ).shape
    assert shape.closed is not None and shape.closed.count == 1 and shape.degenerate == 1
