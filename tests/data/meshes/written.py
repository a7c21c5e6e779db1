"""What must be true of a mesh that was written once more, by what pyvista reads of both files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray

from slipstream.data.meshes import INTERNAL, Wanted, read_mesh, units_of, write_with_arrays

NAME, CELL_NAME = 'p̂ <pred> & "q" [Pa]', "heat flux (new)"
UNITS = {NAME: "kg/(m·s²) <&>", CELL_NAME: "W/m²"}
TEXT = {"made by <&>": 'a "model",\n\tsecond line ü'}


def field(x: NDArray[Any]) -> NDArray[np.float64]:
    """A function of the place, other at every place."""
    x = np.asarray(x, np.float64)
    return 3 * x[:, 0] + 2 * x[:, 1] - x[:, 2]


def vectors(x: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(x, np.float64) * (1, -2, 3)


def write_fields(
    source: Path, out: Path, *, regions: Sequence[str] = (INTERNAL,), **options: Any
) -> Path:
    """The mesh with `field` at points and `vectors` at cells, at the places of `read_mesh`."""
    mesh = read_mesh(source, regions=regions)
    return write_with_arrays(
        source,
        out,
        point_arrays={NAME: field(mesh.locations("point"))},
        cell_arrays={CELL_NAME: vectors(mesh.locations("cell"))},
        units=UNITS,
        field_text=TEXT,
        regions=regions,
        **options,
    )


def corners_of(mesh: Any) -> list[list[int]]:
    return [list(mesh.get_cell(i).point_ids) for i in range(mesh.n_cells)]


def check_fields(mesh: Any) -> None:
    """The added arrays are at the places of the mesh, by pyvista's points and corners of cells."""
    np.testing.assert_allclose(mesh.point_data[NAME], field(mesh.points), rtol=1e-6, atol=1e-6)
    x = np.asarray(mesh.points, np.float64)
    centres = np.array([x[corners].mean(0) for corners in corners_of(mesh)]).reshape(-1, 3)
    np.testing.assert_allclose(mesh.cell_data[CELL_NAME], vectors(centres), rtol=1e-5, atol=1e-6)
    got = units_of(mesh)
    assert {name: got[name] for name in UNITS} == UNITS
    for name, text in TEXT.items():
        assert list(mesh.field_data[name]) == [text]


def check_kept(got: Any, old: Any) -> None:
    """Points, cells and arrays of the old mesh are in the new one as they were."""
    assert type(got) is type(old)
    assert np.array_equal(got.points, old.points) and got.points.dtype == old.points.dtype
    assert corners_of(got) == corners_of(old)
    kinds = [[mesh.get_cell(i).type for i in range(mesh.n_cells)] for mesh in (got, old)]
    assert kinds[0] == kinds[1]
    for number, kind in enumerate(kinds[0]):
        if kind == pv.CellType.POLYHEDRON:
            faces = [[f.point_ids for f in mesh.get_cell(number).faces] for mesh in (got, old)]
            assert faces[0] == faces[1] and len(faces[0]) >= 4
    if isinstance(old, pv.ImageData):
        assert got.dimensions == old.dimensions and got.direction_matrix.tolist() == (
            old.direction_matrix.tolist()
        )
    for new, before in (
        (got.point_data, old.point_data), (got.cell_data, old.cell_data),
        (got.field_data, old.field_data),
    ):  # fmt: skip
        assert set(before.keys()) <= set(new.keys())
        for name in before:
            assert np.array_equal(new[name], before[name]) and new[name].dtype == before[name].dtype
    for new, before in ((got.point_data, old.point_data), (got.cell_data, old.cell_data)):
        assert new.active_scalars_name == before.active_scalars_name
        assert new.active_vectors_name == before.active_vectors_name
        for name in before:
            array, was = (held.VTKObject.GetAbstractArray(name) for held in (new, before))
            components = range(was.GetNumberOfComponents())
            assert [array.GetComponentName(c) for c in components] == [
                was.GetComponentName(c) for c in components
            ]
    units = units_of(got)
    assert units_of(old).items() <= units.items()


def check_reads_again(out: Path, old: Path, regions: Sequence[str] = (INTERNAL,)) -> None:
    """`read_mesh` finds the same mesh in the new file, with the added arrays."""
    before = read_mesh(old, regions=regions)
    pressure, heat = Wanted(NAME, "point", 1), Wanted(CELL_NAME, "cell", 3)
    mesh = read_mesh(out, [pressure, heat])
    assert np.array_equal(mesh.points(), before.points())
    assert np.array_equal(mesh.array(pressure), field(before.locations("point")))
    assert np.array_equal(mesh.array(heat), vectors(before.locations("cell")))
    assert np.array_equal(mesh.locations("cell"), before.locations("cell"))
