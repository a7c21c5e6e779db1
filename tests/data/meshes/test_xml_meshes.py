"""VTK XML: every encoding, pieces, and only what is wanted."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import mesh_info, read_mesh

from ..mesh_files import (
    ALL,
    HEAT,
    PRESSURE,
    VELOCITY,
    check_same,
    info_of,
    spoil,
    surface,
    volume,
    with_arrays,
    write_legacy,
    write_xml,
)


def test_every_way_to_write_xml(tmp_path: Path) -> None:
    """Read here or by VTK: what was written comes back."""
    ways = [
        {"mode": mode, "encoded": encoded, "packed": packed, "order": order, "header": header}
        for (mode, encoded), packed, (order, header) in itertools.product(
            [("Ascii", False), ("Binary", False), ("Appended", False), ("Appended", True)],
            ["None", "ZLib", "LZMA", "LZ4"],
            [("Little", 64), ("Big", 32)],
        )
    ]
    for make, suffix in ((volume, "vtu"), (surface, "vtp")):
        truth = make()
        for way in ways:
            path = write_xml(truth, tmp_path / f"mesh.{suffix}", **way)
            assert mesh_info(path) == info_of(truth), way
            mesh = read_mesh(path, ALL)
            check_same(mesh, truth)
            read_here = way["mode"] != "Ascii"
            assert type(mesh).__name__ == ("_FileMesh" if read_here else "Mesh")
            assert len(mesh.volumes()) == truth.n_cells
            assert mesh.info == mesh_info(path)


def test_pieces_are_one_mesh(tmp_path: Path) -> None:
    truth = with_arrays(pv.ImageData(dimensions=(3, 4, 5)).cast_to_unstructured_grid())
    for mode in ("Appended", "Ascii"):  # read here, and by VTK
        path = write_xml(truth, tmp_path / "mesh.vtu", pieces=3, mode=mode)
        assert path.read_text("latin-1").count("<Piece") == 3
        mesh = read_mesh(path, ALL)
        assert mesh_info(path).cells == mesh.info.cells == truth.n_cells
        assert mesh_info(path).points == len(mesh.points()) > truth.n_points  # shared ones twice
        assert sorted(mesh.array(HEAT)) == list(range(truth.n_cells))
        centres = truth.cell_centers().points[mesh.array(HEAT)]
        np.testing.assert_allclose(mesh.cell_centres(), centres, atol=1e-6)


def test_lines_and_polygons_in_one_file(tmp_path: Path) -> None:
    """VTK gives them its own order, here too."""
    points = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    truth = with_arrays(pv.PolyData(points, faces=[3, 0, 1, 2, 4, 2, 3, 4, 5], lines=[2, 0, 5]))
    check_same(read_mesh(write_xml(truth, tmp_path / "mesh.vtp"), ALL), truth)
    path = write_legacy(truth, tmp_path / "mesh.vtk", binary=True, version="5.1")
    check_same(read_mesh(path, ALL), truth)


def test_only_the_wanted_is_read(tmp_path: Path) -> None:
    """Spoil the values of everything else: nobody notices until it is asked for."""
    truth = volume()
    path = write_xml(truth, tmp_path / "mesh.vtu")
    raw = path.read_bytes()
    header, values = raw.split(b'<AppendedData encoding="raw">')
    offsets = [int(part.split(b'"')[0]) for part in header.split(b'offset="')[1:]]
    start = len(raw) - len(values) + values.index(b"_") + 1
    spoilt = bytearray(raw)
    for offset in [offsets[0], *offsets[2:4], *offsets[5:]]:  # all but U and the points
        first = int.from_bytes(raw[start + offset : start + offset + 4], "little")
        begin = start + offset + 4 * (3 + first)
        spoilt[begin : begin + 12] = b"\xff" * 12
    path.write_bytes(spoilt)
    mesh = read_mesh(path, [VELOCITY])
    assert np.array_equal(mesh.array(VELOCITY), truth.point_data["U"])
    assert np.array_equal(mesh.points(), truth.points)
    assert [array.name for array in mesh.info.arrays] == ["U"]
    assert mesh_info(path) == info_of(truth)
    with pytest.raises(ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got"):
        read_mesh(path, [PRESSURE])
    later = read_mesh(path, [VELOCITY, PRESSURE], later=True)
    assert np.array_equal(later.array(VELOCITY), truth.point_data["U"])
    with pytest.raises(ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got"):
        later.array(PRESSURE)
    with pytest.raises(ValueError, match="'offsets' of mesh.vtu must be whole, got Error -3"):
        mesh.cell_centres()
    with pytest.raises(ValueError, match="mesh.vtu must have point data 'Pressure .'..., got poi"):
        mesh.array(PRESSURE)
    blocks = start + offsets[0]
    path.write_bytes(raw[:blocks] + b"\xff" * 4 + raw[blocks + 4 :])
    with pytest.raises(
        ValueError, match=r"'Pressure \(N/m²\)' of mesh.vtu must be whole, got the "
    ):
        read_mesh(path, [PRESSURE])  # of 4 billion blocks
    for encoded in (False, True):
        write_xml(truth, path, packed="None", header=64, encoded=encoded)
        raw = path.read_bytes()
        blocks = raw.index(b"_", raw.index(b"<AppendedData")) + 1
        path.write_bytes(raw[:blocks] + (b"//////" if encoded else b"\xff" * 7) + raw[blocks + 6 :])
        with pytest.raises(ValueError, match="of mesh.vtu must be whole, got the end of its data"):
            read_mesh(path, [PRESSURE])  # of 2 ** 56 bytes
    path = write_xml(truth, tmp_path / "mesh.vtu", mode="Ascii")
    spoil(path, b"0 1 2 3 4 5", b"x 1 2 3 4 5")
    assert read_mesh(path, [VELOCITY]).array(VELOCITY).shape == (30, 3)


def test_points_need_no_name(tmp_path: Path) -> None:
    bare = surface()
    bare.clear_data()
    path = write_xml(bare, tmp_path / "a.vtp", packed="None")
    raw = path.read_bytes().replace(b'Name="Points"', b"             ", 1)
    path.write_bytes(raw)
    assert np.array_equal(read_mesh(path).points(), surface().points)
    path.write_bytes(raw.replace(b'NumberOfPoints="13"', b'NumberOfPoints="14"', 1))
    with pytest.raises(ValueError, match="^the points of a.vtp must have 42 values, as the header"):
        read_mesh(path)
