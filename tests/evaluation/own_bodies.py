"""A folder of ellipsoids with pressure and shear on their cells, a store of them and a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from slipstream.core.configs import overlay
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import ingest
from slipstream.experiments import experiment
from slipstream.training.session import train

from ..data.mesh_folders import ball, save, with_fields

SPEED, DENSITY, AREA = 30.0, 1.2, 2.5
SMALL = {
    "steps": 2,
    "batch": 1,
    "evaluate_every": 1,
    "data.points": 60,
    "precision": "fp32",
    "data.workers": 0,
    "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
}
SPLITS = {"train": ["0", "1", "2"], "val": ["3"], "test": ["4", "5", "6"]}


def body(number: int) -> Any:
    """An ellipsoid that is longer with its number, of 320 triangles that turn outward."""
    mesh = ball()
    mesh.points *= np.float32([1 + number / 10, 1, 0.8])
    return mesh


def stresses(x: NDArray[Any], number: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pressure in m^2/s^2 and shear on the body in Pa, at places."""
    pressure = -(SPEED**2) / 4 * (x[:, 0] + 0.3 * x[:, 2]) * (1 + number / 7)
    shear = np.stack([3 + x[:, 0] ** 2, 0.2 * x[:, 1], 0 * x[:, 2]], 1)
    return pressure, shear


def make_meshes(folder: Path, location: str = "cell") -> Path:
    for number in range(7):
        mesh = body(number)
        places = np.asarray(mesh.points if location == "point" else mesh.cell_centers().points)
        pressure, shear = stresses(places.astype(np.float64), number)
        save(with_fields(mesh, location, p=pressure, tau=shear), folder / f"{number}.vtp")
    return folder


def make_run(folder: Path, location: str = "cell", **card: Any) -> Path:
    """RUN with STORE and RAW beside it; the card names reference values unless it is changed."""
    raw = make_meshes(folder / "raw", location)
    given = {
        "schema": 1,
        "name": "ellipsoids",
        "files": {"mesh": "{id}.vtp"},
        "location": location,
        "coords": {"name": "position", "unit": "m"},
        "features": [{"name": "normal", "computed": "normals"}],
        "targets": [
            {"name": "p", "unit": "m^2/s^2", "from": {"array": "p"}},
            {"name": "wallShearStress", "unit": "Pa", "from": {"array": "tau", "components": 3}},
        ],
        "splits": {"lists": SPLITS},
        **card,
    }
    (folder / "card.yaml").write_text(yaml.safe_dump(given), "utf-8")
    ingest(MeshSource(raw, read_card(folder / "card.yaml")), folder / "store")
    config = overlay(experiment("own"), {**SMALL, "data.store": str(folder / "store")})
    train(config, folder / "run", device="cpu")
    return folder / "run"


def drag_and_lift(mesh: Any, pressure: NDArray[Any], shear: NDArray[Any]) -> tuple[float, float]:
    """Cd and Cl by hand, from kinematic pressure and shear in Pa on the triangles of a mesh."""
    corners = np.asarray(mesh.points, np.float64)[mesh.regular_faces]
    vectors = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    outward = (vectors * corners.mean(1)).sum(1, keepdims=True) > 0
    vectors = np.where(outward, vectors, -vectors)
    areas = np.linalg.norm(vectors, axis=1, keepdims=True)
    force = (-DENSITY * pressure[:, None] * vectors + shear * areas).sum(0)
    scale = 0.5 * DENSITY * SPEED**2 * AREA
    return float(force[0] / scale), float(force[2] / scale)
