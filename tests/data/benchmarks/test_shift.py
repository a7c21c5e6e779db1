from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import pyvista

from slipstream.data.benchmarks import benchmark_source

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

SUV = "AeroSUV_full_scale_estate_transient"
WING = "OnShape_luminary_crm_version001"
PARAMS = {"alpha": 3.0, "mach": 0.85, "stream_velocity": 250.0, "air_density": 0.38,
          "pressure": 23842.0, "reynolds_number": 4e7}  # fmt: skip


def absolute(x: np.ndarray) -> np.ndarray:
    return pressure(x) + np.float32(101325)


def write_suv(raw: Path, run: int, *, inward: bool = False) -> Path:
    folder = raw / SUV / f"run_{run:05d}"
    surface = make_surface(inward=inward)
    normals = np.asarray(surface.face_normals) * (1 if run % 2 else -1)
    arrays = {"pressure_average": absolute, "wall_shear_stress_average": vector}
    add(surface, "cell", {**arrays, "Normals": normals})
    save(surface, folder / "merged_surfaces.vtp")
    volume = {"pressure_average": absolute, "velocity_average": vector}
    save(add(make_volume(), "point", volume), folder / "merged_volumes.vtu")
    save(make_surface(triangles=True), folder / "merged_surfaces_filled.stl")
    return folder


def write_wing(raw: Path, number: int, **params: object) -> Path:
    folder = raw / WING / f"sample_{number:06d}"
    arrays = {"Pressure (Pa)": pressure, "Wall Shear Stress (N/m²)": vector}
    surface = add(make_surface(triangles=True, inward=bool(number % 2)), "point", arrays)
    add(surface, "cell", {name: lambda x: np.zeros(len(x)) for name in arrays})
    save(surface, folder / "merged_surfaces.vtp")
    volume = {"Pressure (Pa)": pressure, "Velocity (m/s)": vector}
    save(add(make_volume(), "point", volume), folder / "merged_volumes.vtu")
    save(make_surface(triangles=True), folder / "merged_surfaces.stl")
    (folder / "params.json").write_text(json.dumps({**PARAMS, **params}))
    return folder


@pytest.mark.parametrize(("run", "inward"), [(1, False), (2, False), (3, True), (4, True)])
def test_suv_surface(tmp_path: Path, run: int, inward: bool) -> None:
    """Gauge pressure, at cells; normals of the file point out of the body whatever it says."""
    write_suv(tmp_path, run, inward=inward)
    source = benchmark_source("shift-suv-surface", tmp_path)
    assert source.schema.feature_dim == 3 and source.schema.field("pressure").unit == "Pa"
    (sample,) = source.ids()
    assert sample == f"run_{run:05d}"
    rows = rows_of(source, sample)
    assert len(rows["position"]) == make_surface().n_cells
    np.testing.assert_allclose(rows["pressure"][:, 0], pressure(rows["position"]), atol=0.02)
    np.testing.assert_allclose(rows["wall_shear_stress"], vector(rows["position"]), atol=1e-5)
    assert ((rows["normal"] * (rows["position"] - np.array([2, 0, 0.5]))).sum(1) > 0).all()
    assert source.read(sample).parameters["normals_flipped"] == ((run % 2 == 0) != inward)


def test_suv_normals_that_are_none(tmp_path: Path) -> None:
    folder = write_suv(tmp_path, 1)
    surface = pyvista.read(folder / "merged_surfaces.vtp")
    surface.cell_data["Normals"][[3, 5]] = 0
    save(surface, folder / "merged_surfaces.vtp")
    with pytest.raises(ValueError, match="Normals of merged_surfaces.vtp must not be 0, got 2"):
        benchmark_source("shift-suv-surface", tmp_path).read("run_00001")


def test_suv_volume_and_runs(tmp_path: Path) -> None:
    for run in (844, 846):
        write_suv(tmp_path, run)
    (tmp_path / SUV / "run_00845").mkdir()
    source = benchmark_source("shift-suv-volume", tmp_path)
    assert source.ids() == ["run_00844", "run_00846"] and source.schema.feature_dim == 1
    assert source.presence() == "2 of 998 designs are here"
    everything = benchmark_source("shift-suv-volume", tmp_path, options={"corrupted": []})
    assert len(everything.ids()) == 3
    inside = benchmark_source("shift-suv-volume", tmp_path / SUV, options={"folder": "."})
    assert inside.ids() == source.ids()
    rows = rows_of(source, "run_00844")
    np.testing.assert_array_equal(rows["position"], make_volume().points)
    np.testing.assert_allclose(rows["distance"][:, 0], distance(rows["position"]), atol=1e-5)
    np.testing.assert_allclose(rows["pressure"][:, 0], pressure(rows["position"]), atol=0.02)
    np.testing.assert_array_equal(rows["velocity"], vector(rows["position"]))
    assert f"{SUV}/run_00844/merged_surfaces_filled.stl" in source.files("run_00844")
    other = benchmark_source("shift-suv-volume", tmp_path, options={"folder": "AeroSUV_nowhere"})
    with pytest.raises(
        ValueError, match="AeroSUV_nowhere must be a folder with run_1.* the option folder"
    ):
        other.ids()


def test_wing_surface(tmp_path: Path) -> None:
    write_wing(tmp_path, 7)
    write_wing(tmp_path, 12, alpha=-2.5)
    source = benchmark_source("shift-wing-surface", tmp_path)
    assert source.ids() == ["sample_000007", "sample_000012"]
    assert source.schema.feature_dim == 8
    assert [f.unit for f in source.schema.features[1:]] == ["kg/m^3", *["m/s"] * 3, "Pa"]
    for sample, alpha in (("sample_000007", 3.0), ("sample_000012", -2.5)):
        rows, angle = rows_of(source, sample), math.radians(alpha)
        np.testing.assert_array_equal(rows["pressure"][:, 0], pressure(rows["position"]))
        np.testing.assert_array_equal(rows["wall_shear_stress"], vector(rows["position"]))
        assert ((rows["normal"] * (rows["position"] - np.array([2, 0, 0.5]))).sum(1) > 0).all()
        air = [0.38, 250 * math.cos(angle), 0, 250 * math.sin(angle), 23842]
        for name, value in zip(source.schema.features[1:], air, strict=True):
            assert (rows[name.name] == np.float32(value)).all()
    listed = tmp_path / "splits.json"
    listed.write_text('{"train": [12], "test": [7, 9]}')
    chosen = benchmark_source("shift-wing-surface", tmp_path, split=str(listed))
    assert chosen.splits() == {"train": ("sample_000012",), "test": ("sample_000007",)}
    by_name = {"freestream": ["mach", "alpha"]}
    other = benchmark_source("shift-wing-surface", tmp_path, options=by_name)
    assert [f.name for f in other.schema.features[1:]] == ["freestream_mach", "freestream_alpha"]
    assert (rows_of(other, "sample_000012")["freestream_alpha"] == -2.5).all()


def test_wing_volume_and_its_parameters(tmp_path: Path) -> None:
    folder = write_wing(tmp_path, 7)
    source = benchmark_source("shift-wing-volume", tmp_path)
    rows = rows_of(source, "sample_000007")
    np.testing.assert_allclose(rows["distance"][:, 0], distance(rows["position"]), atol=1e-5)
    np.testing.assert_array_equal(rows["velocity"], vector(rows["position"]))
    assert source.schema.feature_dim == 6 and len(source.files("sample_000007")) == 3
    params = folder / "params.json"
    params.write_text(json.dumps({k: v for k, v in PARAMS.items() if k != "air_density"}))
    with pytest.raises(
        ValueError, match="must have the number 'air_density', got none among alpha"
    ):
        source.read("sample_000007")
    for wrong in ("3", True):
        params.write_text(json.dumps({**PARAMS, "alpha": wrong}))
        with pytest.raises(ValueError, match=f"must have the number 'alpha', got {wrong!r}"):
            source.read("sample_000007")
    params.write_text("{")
    with pytest.raises(ValueError, match="params.json must be a JSON object"):
        source.read("sample_000007")
