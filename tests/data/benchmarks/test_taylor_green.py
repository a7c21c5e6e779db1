from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.data.benchmarks import RawSource, benchmark_source
from slipstream.data.store import Cloud, check_store, ingest, open_store

N, STATES = 4, 26


def make_velocity(trajectories: int, states: int = STATES) -> NDArray[Any]:
    """(trajectory, time, channel, x, y, z): a number that tells all six."""
    axes = (trajectories, states, 3, N, N, N)
    return np.arange(np.prod(axes), dtype=np.float32).reshape(axes) / 1000


def write_netcdf(path: Path, velocity: NDArray[Any]) -> None:
    with h5py.File(path, "w") as file:
        for channel, name in enumerate("uvw"):
            file[name] = velocity[:, :, channel]
        file["time"] = np.arange(velocity.shape[1]) * 0.08


def write_hdf5(path: Path, velocity: NDArray[Any], name: str = "data/solution") -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=velocity, chunks=True, compression="gzip")


def read(source: RawSource, sample: str) -> Cloud:
    found = source.read(sample)
    assert isinstance(found, Cloud)
    return found


@pytest.mark.parametrize("layout", ["netcdf", "hdf5", "hdf5 of five channels"])
def test_pairs(tmp_path: Path, layout: str) -> None:
    velocity = make_velocity(3)
    if layout == "netcdf":
        write_netcdf(tmp_path / "tg.nc", velocity)
    elif layout == "hdf5":
        write_hdf5(tmp_path / "tg.h5", velocity)
    else:
        filler = np.zeros_like(velocity[:, :, :1])
        write_hdf5(tmp_path / "tg.h5", np.concatenate([filler + 1, velocity, filler], 2))
    source = benchmark_source("taylor-green", tmp_path)
    assert source.ids() == ["tg-000000", "tg-000001", "tg-000002"]
    ingest(source, tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert len(store.ids("train")) == 3 * 161 == len(set(store.ids("train")))
    assert store.schema.channels[3:] == (
        "density", "velocity[0]", "velocity[1]", "velocity[2]", "pressure", "lead_time",
        "later_density", "later_velocity[0]", "later_velocity[1]", "later_velocity[2]",
        "later_pressure",
    )  # fmt: skip
    assert store.schema.target_groups == {"density": (0,), "velocity": (1, 2, 3)}
    found = in_order_of_the_grid(store, "tg-000002-07-04")
    np.testing.assert_array_equal(found["velocity"].T, velocity[2, 7].reshape(3, -1))
    np.testing.assert_array_equal(found["later_velocity"].T, velocity[2, 11].reshape(3, -1))
    for prefix in ("", "later_"):
        assert (found[f"{prefix}density"] == 1).all() and (found[f"{prefix}pressure"] == 0).all()
    np.testing.assert_allclose(found["lead_time"], 4 / 6, rtol=1e-6)
    edge = 2 * np.pi / N
    np.testing.assert_allclose(
        found["position"][1 + 2 * N + 3 * N * N], [3 * edge, 2 * edge, edge], rtol=1e-6
    )
    same = in_order_of_the_grid(store, "tg-000000-25-00")
    np.testing.assert_array_equal(same["velocity"], same["later_velocity"])


def in_order_of_the_grid(store: Store, sample: str) -> dict[str, NDArray[Any]]:
    rows = store.array(sample)
    rows = rows[np.lexsort(np.round(rows[:, [2, 1, 0]].T, 3))]
    return {field.name: rows[:, store.schema.columns(field.name)] for field in store.schema.fields}


def test_splits_are_of_trajectories(tmp_path: Path) -> None:
    """Counts as published where all are here: 9640, 120 and 240 of 10,000."""
    write_netcdf(tmp_path / "b.nc", make_velocity(15, states=2))
    write_hdf5(tmp_path / "a.h5", make_velocity(10, states=2))
    options = {"states": 2, "lags": [1]}
    source = benchmark_source("taylor-green", tmp_path, options=options)
    splits = source.splits()
    assert [len(splits[s]) for s in ("train", "val", "test")] == [24, 0, 1]
    assert splits["train"][0] == "a-000000" and splits["test"] == ("b-000014",)
    with h5py.File(tmp_path / "b.nc", "r+") as file:  # as many as published, without their values
        for name in "uvw":
            del file[name]
            file.create_dataset(name, (9990, 2, N, N, N), np.float32, chunks=(1, 2, N, N, N))
    splits = benchmark_source("taylor-green", tmp_path, options=options).splits()
    assert [len(splits[s]) for s in ("train", "val", "test")] == [9640, 120, 240]


def test_through_the_store(tmp_path: Path) -> None:
    velocity = make_velocity(4, states=4)
    velocity[1, 2, 0, 1, 1, 1] = np.nan
    write_netcdf(tmp_path / "tg.nc", velocity)
    options = {"states": 4, "lags": [0, 1, 2]}
    source = benchmark_source("taylor-green", tmp_path / "tg.nc", options=options)
    report = ingest(source, tmp_path / "store", hash_files=False)
    assert len(report.written) == 3 and list(report.quarantined) == ["tg-000001"]
    assert "velocity@2" in report.quarantined["tg-000001"]
    assert check_store(tmp_path / "store") == []
    store = open_store(tmp_path / "store")
    columns = store.schema.columns("later_density")
    assert store.statistics.mean[columns.start] == 1 and store.statistics.std[columns.start] == 0
    assert store.rows("tg-000000-00-00") == N**3 and len(store.ids("train")) == 3 * 9


@pytest.mark.parametrize(
    ("name", "velocity", "options", "sentence"),
    [
        ("u", np.zeros((1, 26, 3, 4, 4)), {}, "u, v and w, or one array with six axes, got u"),
        ("x", make_velocity(1, 9), {}, r"x must have the axes .* with 26 states, got \(1, 9, 3"),
        ("x", make_velocity(1)[:, :, :2], {}, "3 or 5 channels"),
        ("x", make_velocity(1), {"array": "y"}, r"must have the array 'y', got x \(1, 26, 3"),
        ("x", make_velocity(1) * 1j, {}, "x must hold real numbers, got complex64"),
        ("x", make_velocity(1).astype("S4"), {}, r"x must hold real numbers, got \|S4"),
        ("x", make_velocity(1), {"lags": [0]}, "the largest lag must be from 1 to 25, got 0"),
        ("x", make_velocity(1), {"lags": [26]}, "the largest lag must be from 1 to 25, got 26"),
    ],
)  # fmt: skip
def test_bad_files(
    tmp_path: Path, name: str, velocity: NDArray[Any], options: dict[str, Any], sentence: str
) -> None:
    write_hdf5(tmp_path / "tg.h5", velocity, name)
    with pytest.raises(ValueError, match=sentence):
        benchmark_source("taylor-green", tmp_path, options=options).ids()


def test_names_of_files(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "TG.NC", make_velocity(2))
    assert benchmark_source("taylor-green", tmp_path).ids() == ["TG-000000", "TG-000001"]
    write_hdf5(tmp_path / "TG.h5", make_velocity(1))
    with pytest.raises(ValueError, match="must hold one file called TG, got TG.NC and TG.h5"):
        benchmark_source("taylor-green", tmp_path).ids()
    assert benchmark_source("taylor-green", tmp_path / "TG.h5").ids() == ["TG-000000"]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a file or a folder of .nc, .h5"):
        benchmark_source("taylor-green", tmp_path).ids()
    (tmp_path / "tg.nc").write_bytes(b"CDF\x01 an old NetCDF")
    with pytest.raises(ValueError, match="tg.nc must be a whole HDF5 or NetCDF4 file, got"):
        benchmark_source("taylor-green", tmp_path).ids()
