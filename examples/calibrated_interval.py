"""How far off a drag may be: an interval that holds with a stated probability.

    python examples/calibrated_interval.py        # half a minute; needs pip install '.[mesh]'

Errors on held-out bodies bound the error on a new one that is like them (docs/trust.md).
"""

from __future__ import annotations

from pathlib import Path

import slipstream
from slipstream.core.configs import overlay
from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import ingest
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.experiments import experiment
from slipstream.inference.bounds import bound_of
from slipstream.inference.calibrate import CalibrationRequest, calibrate
from slipstream.inference.prediction_forces import ForceWishes, prediction_forces
from slipstream.physics.stokes_flow import Stokes
from slipstream.physics.stokes_meshes import write_meshes
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train

FLOWS = Stokes(panels=180)
SMALL = {"layers": 2, "width": 32, "heads": 4, "slices": 8}
SPEED = {"speed": 1.0}


def main(folder: Path = Path("example-interval"), bodies: int = 120, steps: int = 1000) -> None:
    # Meshes with pressure and wall shear, as yours may be, and a card that says what is in them.
    meshes, run = folder / "meshes", folder / "run"
    names = [f"{k:06}" for k in range(bodies + 10)]
    write_meshes(FLOWS, names[:-10], meshes, seed=0)
    source = MeshSource(meshes, read_card(meshes / "card.yaml"))
    ingest(source, folder / "store", fractions={"train": 0.5, "val": 0.1, "test": 0.4})
    changes = {"data.store": str(folder / "store"), "data.workers": 0, "model.size": SMALL}
    changes |= {"steps": steps, "evaluate_every": steps, "precision": "fp32", "batch": 4}
    train(overlay(experiment("own"), changes), run, device="cpu")

    # All bodies of the test split are predicted; none of them has taught the model anything.
    request = CalibrationRequest(split="test", forces=ForceRequest(meshes, SPEED), device="cpu")
    forces = calibrate([RunFolder(run)], request).forces
    bound = bound_of(forces.sizes()["cd"], 0.9).value if forces else None
    assert bound is not None  # as it is with nine bodies or more

    # The true drag of new bodies, which is known here, is in the interval of about nine in ten.
    write_meshes(FLOWS, names[-10:], folder / "new", seed=0)
    for mesh in sorted((folder / "new").glob("*.vtp")):
        drag = prediction_forces(slipstream.predict(run, mesh), ForceWishes(SPEED))
        assert drag.true and drag.true.cd and drag.predicted.cd
        off = "outside" if abs(drag.predicted.cd - drag.true.cd) > bound else ""
        print(f"Cd {drag.predicted.cd:.2f} ± {bound:.2f}, true {drag.true.cd:.2f} {off}")


if __name__ == "__main__":
    main()
