from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.data.benchmarks import benchmark_source
from slipstream.data.benchmarks.drivaerml import ABSENT, published_splits
from slipstream.data.store import check_store, ingest, open_store

from ..flows import (
    add,
    distance,
    make_surface,
    make_volume,
    pressure,
    rows_of,
    save,
    save_parts,
    vector,
)

FREESTREAM = (1.2041, 38.889, 0, 0, 0)


def write_run(raw: Path, run: int, *, part: str = "surface") -> Path:
    folder = raw / f"run_{run}"
    if part == "surface":
        arrays = {"pMeanTrim": pressure, "wallShearStressMeanTrim": vector}
        surface = add(make_surface(inward=True), "cell", arrays)
        add(surface, "cell", {"CpMeanTrim": lambda x: np.full(len(x), np.nan)})  # not to be read
        save(surface, folder / f"boundary_{run}.vtp")
    else:
        volume = add(make_volume(), "cell", {"pMeanTrim": pressure, "UMeanTrim": vector})
        add(volume, "point", {"pMeanTrim": lambda x: pressure(x) + 1, "UMeanTrim": vector})
        save_parts(volume, folder / f"volume_{run}.vtu")
        save(make_surface(triangles=True), folder / f"drivaer_{run}.stl")
    return folder


def test_the_published_split() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    splits = published_splits()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(42)
    drawn = [int(i) for i in torch.randperm(500) + 1 if int(i) not in ABSENT]
    runs = {split: [int(run[4:]) for run in members] for split, members in splits.items()}
    assert {split: len(members) for split, members in runs.items()} == {
        "train": 400, "val": 34, "test": 50,
    }  # fmt: skip
    assert runs["train"] + runs["test"] + runs["val"] == drawn and len(set(drawn)) == 484
    assert {472, 108} <= set(runs["test"])


def test_which_runs_are_here(tmp_path: Path) -> None:
    """In the order of their numbers; one that was never published is in no split."""
    for run in (472, 33, 108, 9, 423, 167):
        (tmp_path / f"run_{run}").mkdir()
    (tmp_path / "run_x").mkdir()
    source = benchmark_source("drivaerml-surface", tmp_path)
    assert source.ids() == ["run_9", "run_33", "run_108", "run_423", "run_472"]
    splits = source.splits()
    assert set(splits["test"]) == {"run_472", "run_108"} and splits["val"] == ("run_423",)
    assert set(splits["train"]) == {"run_9", "run_33"}
    assert source.presence().startswith("5 of 484 designs are here, left out as in no split 1")
    by_number = benchmark_source("drivaerml-surface", tmp_path, split="sorted").splits()
    assert by_number["train"] == ("run_9", "run_33", "run_108", "run_167", "run_423")


def test_surface(tmp_path: Path) -> None:
    write_run(tmp_path, 33)
    source = benchmark_source("drivaerml-surface", tmp_path)
    assert source.schema.channels == (
        "position[0]", "position[1]", "position[2]",
        "normal[0]", "normal[1]", "normal[2]",
        "freestream_air_density", "freestream_velocity_x", "freestream_velocity_y",
        "freestream_velocity_z", "freestream_pressure",
        "pressure", "wall_shear_stress[0]", "wall_shear_stress[1]", "wall_shear_stress[2]",
    )  # fmt: skip
    assert list(source.files("run_33")) == ["run_33/boundary_33.vtp"]
    read = source.read("run_33")
    assert read.parameters["normals_flipped"] == 1 and read.parameters["cell_to_point"] == 0
    rows = rows_of(source, "run_33")
    assert len(rows["position"]) == make_surface().n_cells
    np.testing.assert_allclose(rows["pressure"][:, 0], pressure(rows["position"]), rtol=1e-5)
    np.testing.assert_allclose(rows["wall_shear_stress"], vector(rows["position"]), atol=1e-5)
    outward = rows["position"] - np.array([2, 0, 0.5])
    assert ((rows["normal"] * outward).sum(1) > 0).all()
    np.testing.assert_allclose(np.abs(rows["normal"]).max(1), 1, rtol=1e-6)
    for value, channel in zip(FREESTREAM, source.schema.features[1:], strict=True):
        assert (rows[channel.name] == np.float32(value)).all()


def test_vertices_and_other_options(tmp_path: Path) -> None:
    write_run(tmp_path, 33)
    options = {"location": "point", "freestream": [1, 2, 3, 4, 5], "pressure_offset": 3.0}
    options["box"] = [[-1, -2, -1], [2, 2, 2]]
    source = benchmark_source("drivaerml-surface", tmp_path, options=options)
    assert pickle.loads(pickle.dumps(source)).options == source.options
    rows, surface = rows_of(source, "run_33"), make_surface()
    inside = surface.points[:, 0] <= 2
    np.testing.assert_array_equal(rows["position"], surface.points[inside])
    add(surface, "cell", {"p": pressure})
    averaged = surface.cell_data_to_point_data()["p"][inside]
    np.testing.assert_allclose(rows["pressure"][:, 0], averaged - 3, rtol=1e-5)
    assert source.read("run_33").parameters["cell_to_point"] == 1
    assert (rows["freestream_pressure"] == 5).all() and (rows["freestream_air_density"] == 1).all()
    np.testing.assert_allclose(np.linalg.norm(rows["normal"], axis=1), 1, rtol=1e-6)
    options["cell_to_point"] = False
    with pytest.raises(ValueError, match="as point data, got it as cell data"):
        benchmark_source("drivaerml-surface", tmp_path, options=options).read("run_33")


def test_volume_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.data.benchmarks.row_blocks._BLOCK_ROWS", 100)
    folder = write_run(tmp_path, 33, part="volume")
    source = benchmark_source("drivaerml-volume", tmp_path)
    assert sorted(source.files("run_33")) == [
        "run_33/drivaer_33.stl", "run_33/volume_33.vtu.00.part", "run_33/volume_33.vtu.01.part",
    ]  # fmt: skip
    assert source.schema.feature_dim == 6 and source.schema.features[0].name == "distance"
    rows = rows_of(source, "run_33")
    centres = make_volume().cell_centers().points
    low, high = (-3.5, -2.25, -0.32), (8.5, 2.25, 3.0)
    inside = ((centres >= low) & (centres <= high)).all(1)
    assert 0 < inside.sum() < len(centres)
    np.testing.assert_allclose(rows["position"], centres[inside], atol=1e-6)
    np.testing.assert_allclose(rows["distance"][:, 0], distance(centres[inside]), rtol=1e-5)
    np.testing.assert_allclose(rows["pressure"][:, 0], pressure(centres[inside]), atol=1e-4)
    np.testing.assert_allclose(rows["velocity"], vector(centres[inside]), rtol=1e-4, atol=1e-5)
    everywhere = {"location": "point", "box": None}
    whole = rows_of(benchmark_source("drivaerml-volume", tmp_path, options=everywhere), "run_33")
    np.testing.assert_array_equal(whole["position"], make_volume().points)
    np.testing.assert_allclose(whole["pressure"][:, 0], pressure(whole["position"]) + 1, atol=1e-4)
    with pytest.raises(ValueError, match="volume_33.vtu.*: box must hold some of the .* points"):
        far = {"box": [[90, 90, 90], [91, 91, 91]]}
        benchmark_source("drivaerml-volume", tmp_path, options=far).read("run_33")
    whole_file = folder / "volume_33.vtu"
    parts = sorted(folder.glob("*.part"))
    whole_file.write_bytes(b"".join(part.read_bytes() for part in parts))
    for part in parts:
        part.unlink()
    assert "run_33/volume_33.vtu" in source.files("run_33")
    np.testing.assert_array_equal(rows_of(source, "run_33")["pressure"], rows["pressure"])


def test_bad_runs_are_left_out(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for run in (33, 43, 121, 423, 108):
        write_run(raw, run, part="volume")
    (raw / "run_43/volume_43.vtu.01.part").unlink()
    part = raw / "run_121/volume_121.vtu.01.part"
    part.write_bytes(part.read_bytes()[:100])
    (raw / "run_472").mkdir()
    report = ingest(benchmark_source("drivaerml-volume", raw), tmp_path / "store")
    assert set(report.written) == {"run_33", "run_423", "run_108"}
    reasons: dict[str, Any] = dict(report.quarantined)
    assert "run_43/volume_43.vtu.01.part must exist" in reasons.pop("run_43")
    assert "run_472/volume_472.vtu.00.part must exist" in reasons.pop("run_472")
    assert "volume_121.vtu" in reasons.pop("run_121") and not reasons
    assert check_store(tmp_path / "store") == []
    assert open_store(tmp_path / "store").splits == {
        "train": ("run_33",), "val": ("run_423",), "test": ("run_108",),
    }  # fmt: skip
