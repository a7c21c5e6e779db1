"""Legacy VTK, text and binary, old and new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from vtkmodules.vtkCommonCore import vtkBitArray

from slipstream.data.meshes import Wanted, mesh_info, read_mesh

from ..mesh_files import (
    ALL,
    FLUX,
    PRESSURE,
    VELOCITY,
    check_same,
    info_of,
    spoil,
    surface,
    volume,
    with_arrays,
    write_legacy,
)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("version", ["4.2", "5.1"])
def test_legacy_files(tmp_path: Path, binary: bool, version: str) -> None:
    """One of each: scalars, vectors, the rest as fields; and text, which no reader wants."""
    points = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    faces = [[4, 0, 1, 2, 3], [3, 4, 5, 6], [5, 7, 8, 9, 10, 11]]  # of 4 corners in the mean
    uneven = with_arrays(pv.PolyData(points, np.concatenate(faces)))
    truths = [surface(), uneven, with_arrays(pv.Icosphere(nsub=1)), volume(polyhedron=False)]
    if version == "5.1":
        truths.append(volume())
    for truth in truths:
        truth.point_data.active_scalars_name = "Pressure (N/m²)"
        truth.point_data.active_vectors_name = "U"
        truth.field_data["note"] = ["some text", "a" * 100]
        path = write_legacy(truth, tmp_path / "mesh.vtk", binary=binary, version=version)
        text = path.read_bytes()
        assert f"Version {version}".encode() in text and b"FIELD" in text and b"VECTORS" in text
        assert set(mesh_info(path).arrays) >= set(info_of(truth).arrays)
        assert (mesh_info(path).points, mesh_info(path).cells) == (truth.n_points, truth.n_cells)
        mesh = read_mesh(path, [PRESSURE, FLUX])
        assert type(mesh).__name__ == ("_FileMesh" if binary else "Mesh")
        assert {array.name for array in mesh.info.arrays} == {"Pressure (N/m²)", "flux"}
        if binary:
            check_same(read_mesh(path, ALL), truth)
        else:
            close = read_mesh(path, ALL).array(VELOCITY)
            np.testing.assert_allclose(close, truth.point_data["U"], rtol=1e-5, atol=1e-5)


def test_legacy_files_of_other_hands(tmp_path: Path) -> None:
    """Sections in any order, data on the line of their header, sections nobody asks for."""
    path = tmp_path / "mesh.vtk"
    path.write_text(
        "# vtk DataFile Version 3.0\nby hand\nASCII\nDATASET POLYDATA\n"
        "FIELD FieldData 1\nTIME 1 1 double 7\n"
        "POINTS 4 double 0 0 0  1 0 0\n1 1 0  0 1 0\n\nPOLYGONS 2 8\n3 0 1 2 3 0 2 3\n"
        "CELL_DATA 2\nSCALARS area float\nLOOKUP_TABLE mine\n0.5\n0.5\n"
        "LOOKUP_TABLE mine 2\n0 0 0 1\n1 1 1 1\nCOLOR_SCALARS paint 2\n0 1 0 1\n"
        "POINT_DATA 4\nNORMALS n float\n0 0 1 0 0 1 0 0 1 0 0 1\n"
        "TEXTURE_COORDINATES t 2 float\n0 0 1 0 1 1 0 1\n"
        "TENSORS s float\n" + "1 2 3 4 5 6 7 8 9\n" * 4 + "FIELD attributes 2\n"
        "p 1 4 float\n1 2 3 4\nMETADATA\nCOMPONENT_NAMES\nwhat\n\n"
        "wall%20shear 3 4 double\n1 2 3 4 5 6 7 8 9 10 11 12\n"
    )
    assert [(a.name, a.components, a.rows, a.dtype) for a in mesh_info(path).arrays] == [
        ("area", 1, 2, "float32"), ("paint", 2, 2, "uint8"), ("n", 3, 4, "float32"),
        ("t", 2, 4, "float32"), ("s", 9, 4, "float32"), ("p", 1, 4, "float32"),
        ("wall shear", 3, 4, "float64"),
    ]  # fmt: skip
    shear = Wanted("wall shear", "point", 3)
    mesh = read_mesh(path, [shear])
    assert np.array_equal(mesh.array(shear), np.arange(1, 13).reshape(4, 3))
    assert mesh.triangles()[1].tolist() == [[0, 1, 2], [0, 2, 3]]
    spoil(path, b"p 1 4 float\n1 2 3 4", b"p 1 3 float\n1 2 3")
    with pytest.raises(
        ValueError, match="'p' of mesh.vtk must have a row for each of the 4 points"
    ):
        read_mesh(path, [Wanted("p", "point", 1)])


def test_bits_and_short_arrays_of_legacy_files(tmp_path: Path) -> None:
    ball = with_arrays(pv.Icosphere(nsub=1))
    bits = vtkBitArray()
    bits.SetName("a bit")
    for value in np.arange(ball.n_points) % 3 == 0:
        bits.InsertNextValue(int(value))
    ball.GetPointData().AddArray(bits)
    path = write_legacy(ball, tmp_path / "mesh.vtk", binary=True, version="5.1")
    check_same(read_mesh(path, ALL), ball)
    flags = Wanted("a bit", "point", 1)
    assert read_mesh(path, [flags]).array(flags).tolist() == [i % 3 == 0 for i in range(42)]
    raw = path.read_bytes()
    begin = raw.index(b"flux 3 80 float\n")  # as if it had a row less
    cut = raw[:begin] + b"flux 3 79 float\n" + raw[begin + 16 : begin + 16 + 79 * 12]
    path.write_bytes(cut + raw[begin + 16 + 80 * 12 :])
    with pytest.raises(
        ValueError, match="'flux' of mesh.vtk must have a row for each of the 80 ce"
    ):
        read_mesh(path, [FLUX])
