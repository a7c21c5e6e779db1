"""From nothing to a drag coefficient: make data, train, drop an STL on the model, look at it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyvista as pv
import torch

from ..conftest import Command
from ..data.mesh_folders import save

SIZE = ("--set", "model.size.layers=2", "--set", "model.size.width=32",
        "--set", "model.size.heads=2", "--set", "model.size.slices=16")  # fmt: skip


def test_a_sphere_that_was_in_no_store(tmp_path: Path, command: Command) -> None:
    """Flow past random bodies is learned; on a sphere cp = 1 - 9/4 sin^2, and there is no drag."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = command("data", "make", "potential-flow-surface", "--samples", 40, "--points", 256,
                       "--set", "panels=320", "--out", tmp_path / "store")  # fmt: skip
        assert made.code == 0, made.err
        trained = command("train", "own", "--preset", "paper", "--store", tmp_path / "store",
                          "--out", tmp_path / "run", *SIZE, "--set", "steps=300",
                          "--set", "batch=4", "--set", "precision=fp32",
                          "--set", "evaluate_every=300", "--set", "optim.learning_rate=0.003",
                          "--device", "cpu")  # fmt: skip
        assert trained.code == 0, trained.err
        said = command("predict", tmp_path / "run", scrambled_sphere(tmp_path / "ball.stl"),
                       "--out", tmp_path / "out", "--forces", "--area", np.pi * 0.36,
                       "--json")  # fmt: skip
    finally:
        torch.set_num_threads(threads)
    assert said.code == 0, said.err
    (result,) = json.loads(said.out)["predictions"]
    mesh = pv.read(tmp_path / "out" / "ball.vtp")
    x = np.asarray(mesh.points) / np.linalg.norm(mesh.points, axis=1, keepdims=True)
    true = 1 - 2.25 * (1 - x[:, 0] ** 2)
    values = np.asarray(mesh.point_data["pressure_coefficient"])
    error = np.abs(values - true).sum() / np.abs(true).sum()
    assert error < 0.35, "0.11 to 0.2 were seen; the mean of the true values gives 0.78"
    coefficients = result["forces"]["coefficients"]
    assert abs(coefficients["cd"]) < 0.15 and abs(coefficients["cl"]) < 0.2
    assert any("turned outward" in sentence for sentence in result["how"])


def scrambled_sphere(path: Path) -> Path:
    """Radius 0.6, with every third facet turned inside out, as in files of real geometries."""
    sphere = pv.Icosphere(radius=0.6, nsub=3)
    faces = sphere.regular_faces.copy()
    faces[::3] = faces[::3, ::-1]
    return save(pv.PolyData.from_regular_faces(sphere.points, faces), path)
