"""`data make stokes-surface --meshes`: the bodies as a user's own meshes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.store import open_store
from slipstream.evaluation.locality import find_locality

from ..conftest import Command

pytest.importorskip("pyvista")


def test_forces_of_the_meshes_are_those_of_the_solver(tmp_path: Path, command: Command) -> None:
    store, meshes = tmp_path / "store", tmp_path / "meshes"
    options = ("--samples", 3, "--points", 500, "--set", "panels=180", "--set", "inflow=varying")
    made = command("data", "make", "stokes-surface", *options, "--out", store, "--meshes", meshes)
    assert made.code == 0
    said = command("forces", meshes, "--json")
    assert said.code == 0
    samples = open_store(store).manifest.samples
    forces = {one["mesh"]: one for one in json.loads(said.out)["forces"]}
    assert forces.keys() == samples.keys()
    for name, one in forces.items():
        total = np.add(one["pressure"], one["friction"])
        force = samples[name].parameters["force"]
        np.testing.assert_allclose(total, force, rtol=1e-6, atol=1e-6 * np.linalg.norm(force))
        assert one["unit"] == "N" and total[0] > 1 and one["friction"][0] > one["pressure"][0] / 2
        assert one["wetted"] == pytest.approx(samples[name].parameters["area"], rel=1e-6)
    again = tmp_path / "again"
    card = ("--card", meshes / "card.yaml")
    assert command("data", "ingest", "mesh", meshes, again, *card).code == 0
    read = open_store(again)
    assert [field.name for field in read.schema.targets] == ["pressure", "wall_shear"]
    rows = read.array("000001")
    stream = [rows[0, read.schema.columns(f"freestream_{axis}")][0] for axis in "xyz"]
    first = open_store(store).array("000001")[0]
    np.testing.assert_allclose(stream, first[open_store(store).schema.columns("freestream")])
    assert len(rows) == 180
    assert find_locality(read) is None, (
        "evaluate asks for it, and takes no other name for the stream"
    )


def test_meshes_of_another_problem(tmp_path: Path, command: Command) -> None:
    done = command("data", "make", "poisson", "--out", tmp_path / "s", "--meshes", tmp_path / "m")
    assert done.code == 2 and not (tmp_path / "s").exists()
    assert "--meshes must be given with stokes-surface only, got poisson" in done.err
