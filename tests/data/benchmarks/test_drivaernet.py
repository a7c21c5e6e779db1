from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista
from numpy.typing import NDArray

from slipstream.data.benchmarks import benchmark_source
from slipstream.data.benchmarks.flow import outward_normals
from slipstream.data.benchmarks.row_blocks import is_half
from slipstream.data.meshes import Location, read_mesh
from slipstream.data.store import check_store, ingest, open_store

from ..flows import (
    add,
    distance,
    make_surface,
    make_volume,
    pressure,
    rows_of,
    save,
    vector,
)

FOLDER = "F_D_WM_WW_1"


def shuffled(surface: pyvista.PolyData, seed: int = 0) -> pyvista.PolyData:
    """The same surface with its points in another order."""
    order = np.random.default_rng(seed).permutation(surface.n_points)
    place = np.argsort(order)
    return pyvista.PolyData(
        surface.points[order], np.insert(place[surface.regular_faces], 0, 4, axis=1)
    )


def write_surface(raw: Path, design: str, shear: pyvista.PolyData | None = None) -> None:
    mesh = add(make_surface(), "point", {"p": pressure, "patchID": lambda x: np.arange(len(x))})
    save(mesh, raw / f"PressureVTK/{FOLDER}/{design}.vtk")
    other = shear or add(shuffled(make_surface()), "point", {"wallShearStress": vector})
    save(other, raw / f"WallShearStressVTK_Updated/{FOLDER}/{design}.vtk")


def test_files_in_different_order(tmp_path: Path) -> None:
    write_surface(tmp_path, "d1")
    source = benchmark_source("drivaernet-surface", tmp_path)
    assert source.schema.feature_dim == 8 and source.schema.target_dim == 4
    assert {field.unit for field in source.schema.targets} == {"m^2/s^2"}
    assert sorted(source.files("d1")) == [
        f"PressureVTK/{FOLDER}/d1.vtk", f"WallShearStressVTK_Updated/{FOLDER}/d1.vtk",
    ]  # fmt: skip
    rows = rows_of(source, "d1")
    np.testing.assert_array_equal(rows["position"], make_surface().points)
    np.testing.assert_array_equal(rows["pressure"][:, 0], pressure(rows["position"]))
    np.testing.assert_array_equal(rows["wall_shear_stress"], vector(rows["position"]))
    assert ((rows["normal"] * (rows["position"] - np.array([2, 0, 0.5]))).sum(1) > 0).all()
    np.testing.assert_array_equal(
        np.unique([rows[f.name] for f in source.schema.features[1:]], axis=1)[:, 0, 0],
        np.float32([1.2, 30, 0, 0, 0]),
    )


def test_points_that_coincide(tmp_path: Path) -> None:
    """Patches of OpenFOAM do not share points: those of a border are there for each patch."""
    unmerged = make_surface().separate_cells().extract_surface(algorithm="dataset_surface")
    save(add(unmerged, "point", {"p": pressure}), tmp_path / f"PressureVTK/{FOLDER}/d1.vtk")
    other = add(shuffled(unmerged), "point", {"wallShearStress": vector})
    save(other, tmp_path / f"WallShearStressVTK_Updated/{FOLDER}/d1.vtk")
    rows = rows_of(benchmark_source("drivaernet-surface", tmp_path), "d1")
    assert len(rows["position"]) == 4 * make_surface().n_cells
    np.testing.assert_array_equal(rows["wall_shear_stress"], vector(rows["position"]))


def test_traps_of_the_shear_files(tmp_path: Path) -> None:
    """Other meshes and NaN are left out with the reason; cell data are averaged to points."""
    raw = tmp_path / "raw"
    fewer = make_surface().extract_cells(range(20)).extract_surface(algorithm="dataset_surface")
    moved = shuffled(make_surface())
    moved.points[5] += 0.25
    of_cells = add(shuffled(make_surface(), 1), "cell", {"wallShearStress": vector})
    holes = add(shuffled(make_surface()), "point", {"wallShearStress": vector})
    holes["wallShearStress"][[4, 9]] = np.nan
    meshes = {"d1": None, "d2": of_cells, "d3": holes, "d4": moved, "d5": fewer, "d6": None}
    for name in ("d4", "d5"):
        add(meshes[name], "point", {"wallShearStress": vector})
    for design, mesh in meshes.items():
        write_surface(raw, design, mesh)
    (raw / f"WallShearStressVTK_Updated/{FOLDER}/d6.vtk").unlink()
    source = benchmark_source("drivaernet-surface", raw)
    report = ingest(source, tmp_path / "store", fractions={"train": 1.0})
    assert set(report.written) == {"d1", "d2"}
    reasons = dict(report.quarantined)
    assert "2 NaN" not in reasons["d3"] and "6 NaN" in reasons["d3"]
    assert "d3.vtk" in reasons["d3"] and "rows 4, 9" in reasons["d3"]
    assert "d4.vtk" in reasons["d4"] and "a point at" in reasons["d4"]
    assert "d5.vtk" in reasons["d5"] and str(make_surface().n_points) in reasons["d5"]
    assert reasons["d6"] == "WallShearStressVTK_Updated must have a file of d6, got none"
    assert check_store(tmp_path / "store") == []
    samples = open_store(tmp_path / "store").manifest.samples
    assert [samples[d].parameters["cell_to_point"] for d in ("d1", "d2")] == [0, 1]
    averaged = add(make_surface(), "cell", {"tau": vector}).cell_data_to_point_data()["tau"]
    rows = rows_of(source, "d2")
    np.testing.assert_allclose(rows["wall_shear_stress"], averaged, atol=1e-6)
    strict = benchmark_source("drivaernet-surface", raw, options={"cell_to_point": False})
    with pytest.raises(ValueError, match="d2.vtk must have 'wallShearStress' as point data"):
        strict.read("d2")


def write_volume(raw: Path, design: str, *, half: bool, part: int = 1) -> NDArray[Any]:
    volume = add(make_volume(half=half), "point", {"p": pressure, "U": vector})
    add(volume, "point", {"cellID": lambda x: np.arange(len(x))})
    save(volume, raw / f"CFD/{FOLDER}_part{part}/{design}.vtk")
    save(make_surface(triangles=True), raw / f"3DMeshesSTL/{FOLDER}/{design}.stl")
    return np.asarray(volume.points)


def test_volumes_and_half_domains(tmp_path: Path) -> None:
    points = write_volume(tmp_path, "half", half=True)
    write_volume(tmp_path, "whole", half=False, part=2)
    source = benchmark_source("drivaernet-volume", tmp_path)
    assert source.ids() == ["half", "whole"] and source.schema.feature_dim == 6
    rows = rows_of(source, "half")
    np.testing.assert_array_equal(rows["position"], points)
    np.testing.assert_allclose(rows["distance"][:, 0], distance(points), atol=1e-5)
    np.testing.assert_array_equal(rows["velocity"], vector(points))
    mirrored = benchmark_source("drivaernet-volume", tmp_path, options={"mirror": True})
    assert mirrored.read("half").parameters["mirrored"] == 1
    assert mirrored.read("whole").parameters["mirrored"] == 0
    both = rows_of(mirrored, "half")
    image = points[points[:, 1] > 0] * np.float32([1, -1, 1])
    assert is_half(points) and is_half(-points) and not is_half(both["position"])
    assert 0 < len(image) < len(points) and len(both["position"]) == len(points) + len(image)
    np.testing.assert_array_equal(both["position"][len(points) :], image)
    behind = image * np.float32([1, -1, 1])
    np.testing.assert_array_equal(both["pressure"][len(points) :, 0], pressure(behind))
    np.testing.assert_array_equal(
        both["velocity"][len(points) :], vector(behind) * np.float32([1, -1, 1])
    )
    np.testing.assert_allclose(both["distance"][:, 0], distance(both["position"]), atol=1e-5)
    np.testing.assert_array_equal(
        rows_of(mirrored, "whole")["position"], rows_of(source, "whole")["position"]
    )
    cut = {"mirror": True, "box": [[-9, -9, -9], [9, 1.5, 9]]}
    kept = rows_of(benchmark_source("drivaernet-volume", tmp_path, options=cut), "half")["position"]
    wanted = both["position"][(both["position"] <= np.array([9, 1.5, 9])).all(1)]
    np.testing.assert_array_equal(np.unique(kept, axis=0), np.unique(wanted, axis=0))
    assert len(kept) == len(wanted)


def test_sorted_splits_and_lists(tmp_path: Path) -> None:
    raw, lists = tmp_path / "raw", tmp_path / "lists"
    for k in range(20):
        path = raw / f"PressureVTK/{FOLDER}/car_{k:02d}.vtk"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (raw / "WallShearStressVTK_Updated").mkdir()
    (raw / "WallShearStressVTK_Updated/car_00.vtk").touch()
    source = benchmark_source("drivaernet-surface", raw)
    splits = source.splits()
    assert [len(splits[s]) for s in ("train", "val", "test")] == [14, 3, 3]
    assert sum(splits.values(), ()) == tuple(f"car_{k:02d}" for k in range(20))
    assert source.presence() == "20 of 8127 designs are here"
    lists.mkdir()
    (lists / "train_design_ids.txt").write_text("car_03\ncar_01\nmissing")
    (lists / "val_design_ids.txt").write_text("car_00")
    (lists / "test_design_ids.txt").write_text("car_19.vtk\n")
    listed = benchmark_source("drivaernet-surface", raw, split=str(lists))
    assert listed.ids() == ["car_00", "car_01", "car_03", "car_19"]
    assert listed.splits() == {
        "train": ("car_03", "car_01"), "val": ("car_00",), "test": ("car_19",),
    }  # fmt: skip
    assert listed.presence().startswith("4 of 5 designs are here, left out as in no split 16")
    (lists / "test_more.txt").touch()
    with pytest.raises(ValueError, match="must hold one test.*txt, got test_design_ids.txt, test_"):
        benchmark_source("drivaernet-surface", raw, split=str(lists)).ids()


def test_folders_that_are_links(tmp_path: Path) -> None:
    """As those that did not fit on a disk."""
    raw, disk = tmp_path / "raw", tmp_path / "disk"
    for design in ("d1", "d2"):
        write_surface(raw, design)
        write_surface(disk, f"{design}_more")
    for kind in ("PressureVTK", "WallShearStressVTK_Updated"):
        (raw / kind / "F_D_WM_WW_2").symlink_to(disk / kind / FOLDER)
        (disk / kind / FOLDER / "back").symlink_to(raw)
    source = benchmark_source("drivaernet-surface", raw)
    assert source.designs == ("d1", "d1_more", "d2", "d2_more")
    assert list(source.files("d2_more"))[0] == "PressureVTK/F_D_WM_WW_2/d2_more.vtk"
    assert len(ingest(source, tmp_path / "store").written) == 4


def test_points_without_cells(tmp_path: Path) -> None:
    """Nothing can be averaged to a point that is in no cell."""
    surface = add(shuffled(make_surface()), "cell", {"wallShearStress": vector})
    loose = pyvista.PolyData(np.vstack([surface.points, [[9, 9, 9]]]), surface.faces)
    loose.cell_data["wallShearStress"] = surface["wallShearStress"]
    write_surface(tmp_path, "d1", loose)
    with pytest.raises(ValueError, match="every point of d1.vtk must be in a cell .* got 1 that"):
        benchmark_source("drivaernet-surface", tmp_path).read("d1")


@pytest.mark.parametrize("location", ["point", "cell"])
@pytest.mark.parametrize("inward", [False, True])
def test_normals_of_half_a_body(tmp_path: Path, inward: bool, location: Location) -> None:
    """Outward though the surface is open, and far from the origin."""
    body = make_surface(inward=inward).translate((0, -50, 0))
    half = body.extract_cells(np.flatnonzero(body.cell_centers().points[:, 1] > -50))
    path = save(half.extract_surface(algorithm="dataset_surface"), tmp_path / "half.vtk")
    mesh = read_mesh(path)
    normals, flipped = outward_normals(mesh, location)
    assert flipped == inward
    assert ((mesh.locations(location) - np.array([2, -50, 0.5])) * normals).sum(1).min() > 0
