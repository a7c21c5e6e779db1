"""A small model learns slow flow past random bodies, then predicts a mesh file and its drag.

    python examples/predict_a_mesh.py             # half a minute; needs pip install '.[mesh]'

The mesh is an ellipsoid: its exact drag is known.
"""

from __future__ import annotations

from pathlib import Path

import pyvista
import torch

import slipstream
from slipstream.core.configs import overlay
from slipstream.experiments import experiment
from slipstream.physics.stokes_exact import ellipsoid_drag
from slipstream.training.session import train

AXES = (0.7, 0.6, 0.5)
STREAM = (0.98, 0.2, 0.0)  # m/s


def main(folder: Path = Path("example-run"), samples: int = 100, steps: int = 1200) -> None:
    # An experiment is a complete config; `overlay` changes fields of it, as --set does. The flows
    # are solved when the training begins. The same call again goes on, or finds the run done.
    changes = {
        "data.builtin.samples": {"train": samples, "val": 8},
        "data.builtin.points": 512,
        "data.builtin.settings": {"panels": 320, "families": ["blunt"], "inflow": "varying"},
        "data.points": 256,
        "model.variant": "no-token-attention",
        "model.size": {"layers": 3, "width": 48, "heads": 4, "slices": 12},
    }
    changes |= {"steps": steps, "evaluate_every": steps // 2}
    config = overlay(experiment("stokes-surface"), changes)
    outcome = train(config, folder / "run", device="cpu")
    assert outcome.best is not None
    print(f"{outcome.step} steps, validation error {outcome.best['error']:.3f}")

    # Any surface mesh with about even faces. Normals are computed, as the model file asks for.
    mesh = folder / "ellipsoid.stl"
    pyvista.Icosphere(radius=1.0, nsub=3).scale(AXES).save(mesh)

    prediction = slipstream.predict(folder / "run", mesh, freestream=STREAM)
    for name, values in prediction.fields.items():
        print(f"{name} [{prediction.units[name]}]: {values.min():.2f} to {values.max():.2f}")
    for warning in prediction.warnings:  # what may make it wrong
        print(f"careful: {warning}")
    prediction.mesh.save(folder / "predicted.vtp")  # open it in ParaView

    force = prediction.forces().total  # newtons, of pressure and wall shear together
    exact = ellipsoid_drag(*(torch.tensor(own, dtype=torch.float64) for own in (AXES, STREAM)))
    print("force:", ", ".join(f"{one:.2f}" for one in force), "N")
    print("exact:", ", ".join(f"{one:.2f}" for one in exact.tolist()), "N")


if __name__ == "__main__":
    main()
