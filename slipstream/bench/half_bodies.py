"""Front halves of smooth bodies in potential flow, as meshes with a card: a drag that is not zero.

A closed body has no drag in potential flow; the pressure on its front half has. Each mesh is the
faces of a body whose middle lies before that of the body, with the pressure on its cells, so that
all of ingest, training, calibration and prediction is as with the meshes of a user.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor

from slipstream.core.runtime import generator
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.meshes import with_arrays, write_object
from slipstream.data.store import ingest
from slipstream.physics.bodies import Body, icosphere, unit
from slipstream.physics.panels import pressure_coefficient
from slipstream.physics.potential_flow import PotentialFlow, solve_flow, wall_flow
from slipstream.physics.scenes import draw_scene, frequency_for
from slipstream.physics.surface import SurfacePoints

PANELS = 720
REFERENCE = {"area": 1.0, "density": 1.0, "speed": 1.0}
_CARD = {
    "schema": 1,
    "name": "front-halves",
    "files": {"mesh": "{id}.vtp"},
    "location": "cell",
    "coords": {"name": "position", "unit": "m"},
    "features": [{"name": "normal", "computed": "normals"}],
    "targets": [{"name": "p", "unit": "m^2/s^2", "from": {"array": "p"}}],
    "reference": REFERENCE,
}


def make_store(folder: Path, splits: dict[str, int], seed: int) -> Path:
    """FOLDER/meshes, FOLDER/card.yaml and FOLDER/store, with as many samples in each split."""
    config = PotentialFlow(panels=PANELS, bodies=(1, 1))
    names = [f"{number:04d}" for number in range(sum(splits.values()))]
    for number, name in enumerate(names):
        if not (folder / "meshes" / f"{name}.vtp").exists():
            write_half(config, seed, number, folder / "meshes" / name)
    bounds = np.cumsum([0, *splits.values()])
    lists = {split: names[bounds[k] : bounds[k + 1]] for k, split in enumerate(splits)}
    card = folder / "card.yaml"
    card.write_text(yaml.safe_dump({**_CARD, "splits": {"lists": lists}}), "utf-8")
    ingest(MeshSource(folder / "meshes", read_card(card)), folder / "store")
    return folder / "store"


def write_variant(seed: int, number: int, change: float, file: Path) -> None:
    """The front half of a sample's body with its axes and modes changed by a share, as a design
    that an engineer has worked on: FILE.vtp."""
    config = PotentialFlow(panels=PANELS, bodies=(1, 1))
    (body,), freestream = draw_scene(config, seed=seed, sample=number)
    draw = generator(seed, "half-body-variants", number)
    stretch = torch.randn(3, generator=draw, dtype=torch.float64)
    bumps = torch.randn(len(body.modes), generator=draw, dtype=torch.float64)
    axes = body.axes * torch.exp(change * stretch)
    modes = body.modes + change * bumps / len(body.modes) ** 0.5
    _write_body(Body(axes, modes, body.centre), freestream, PANELS, file)


def write_half(config: PotentialFlow, seed: int, number: int, file: Path) -> None:
    """The front half of a body as FILE.vtp, meshed with about `config.panels` panels."""
    bodies, freestream = draw_scene(config, seed=seed, sample=number)
    _write_body(bodies[0], freestream, config.panels, file)


def _write_body(body: Body, freestream: Tensor, panels: int, file: Path) -> None:
    frequency = frequency_for(panels, 1)
    flow = solve_flow((body,), freestream, frequency=frequency)
    sphere = icosphere(frequency)
    at = SurfacePoints(torch.arange(len(sphere.faces)), unit(sphere.corners.mean(1)))
    position, _, velocity = wall_flow(flow, at)
    pressure = 0.5 * pressure_coefficient(velocity, freestream)
    front = (position[:, 0] < body.centre[0]).numpy()
    faces = flow.mesh.faces.numpy()[front]
    corners, numbers = np.unique(faces, return_inverse=True)
    points = flow.mesh.vertices.numpy()[corners]
    half = with_arrays(
        (points, numbers.reshape(faces.shape)),
        cell_arrays={"p": pressure.numpy()[front].astype(np.float32)},
    )
    write_object(half, file)
