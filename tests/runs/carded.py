"""A store made by a card from real VTP files, and a small model trained on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import Store, ingest, open_store
from slipstream.runs.config import RunConfig
from slipstream.training.session import train

from ..data.mesh_folders import ball, pressure, save, shear, with_fields
from ..training.small import small

CARD = """
schema: 1
name: balls
files: {mesh: "run_{id}/ball.vtp", body: "body.stl"}
location: point
coords: {name: position, unit: m, subtract: [1, 0, 0]}
features:
  - {name: normal, computed: normals}
  - {name: gap, computed: distance, to: body}
  - {name: height, unit: m, from: {file: mesh, array: h}, scale: 2}
targets:
  - {name: p, unit: m^2/s^2, from: {file: mesh, array: p}, subtract: 5}
  - {name: tau, unit: Pa, from: {file: mesh, array: tau, components: 3}}
  - name: cp
    unit: "1"
    from: {file: mesh, array: p}
    divide: {factor: 0.5, by: {rho: 1, speed: 2}, unit: Pa}
parameters:
  - file: designs.csv
    id: run
    features: [{name: speed, unit: m/s, from: U}, {name: rho, unit: kg/m^3}]
box: {low: [-9, null, -9], high: [9, null, 9]}
splits: {lists: {train: ["0", "1", "2"], val: ["3"], test: ["4"]}}
"""


def make_store(folder: Path) -> Store:
    """Balls with radii 1, 1.1, ... and 162 points each; U from 20 to 24, rho 1.2."""
    lines = ["run,U,rho"]
    for k in range(5):
        body = ball(1 + 0.1 * k)
        x = np.asarray(body.points)
        mesh = with_fields(body, p=pressure(x), tau=shear(x), h=x[:, 2])
        save(mesh, folder / "raw" / f"run_{k}" / "ball.vtp")
        lines.append(f"{k},{20 + k},1.2")
    save(ball(3.0), folder / "raw" / "body.stl")
    (folder / "raw" / "designs.csv").write_text("\n".join(lines))
    (folder / "card.yaml").write_text(CARD)
    ingest(MeshSource(folder / "raw", read_card(folder / "card.yaml")), folder / "store")
    return open_store(folder / "store")


def config_on(store: Path) -> RunConfig:
    return small(
        data__problem=None, data__builtin=None, data__store=str(store), data__points=0.5, steps=4
    )


def make_run(folder: Path) -> Path:
    train(config_on(make_store(folder).path), folder / "run", device="cpu")
    return folder / "run"
