"""Bodies of `stokes-surface` as meshes with pressure and wall shear, and a card that reads them.

The rows of a store are points without faces. With the meshes the whole way of a user's own files is
open to these bodies: `slipstream forces`, ParaView, `data ingest`, `evaluate --forces`. Values are
those of the panels, whose sum is the force that the solver found.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import yaml

from slipstream.core.files import write_text
from slipstream.data.meshes import with_arrays, write_object
from slipstream.physics.scenes import draw_scene
from slipstream.physics.stokes_flow import Stokes, solve_scene
from slipstream.physics.stokes_solver import StokesFlow, pressure_and_shear

CARD, TABLE = "card.yaml", "parameters.csv"
_STREAM = ("freestream_x", "freestream_y", "freestream_z")


def write_meshes(
    config: Stokes,
    samples: Sequence[str],
    folder: Path,
    *,
    seed: int,
    shard: tuple[int, int] = (0, 1),
    device: str = "cpu",
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """FOLDER/<sample>.vtp of every n-th sample from i, for the shard i/n, with card.yaml and
    parameters.csv for all of them. Each mesh is solved again and replaces an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CARD, yaml.safe_dump(_card(), sort_keys=False))
    write_text(folder / TABLE, _table(config, samples, seed))
    mine = samples[shard[0] :: shard[1]]
    paths = []
    for done, sample in enumerate(mine):
        watch(done, len(mine))
        flow = solve_scene(config, seed=seed, sample=int(sample), device=device)
        paths.append(write_mesh(flow, folder / sample))
    watch(len(mine), len(mine))
    return paths


def write_mesh(flow: StokesFlow, out: Path) -> Path:
    """OUT.vtp: the panels, with pressure and wall shear on them."""
    pressure, shear = pressure_and_shear(flow.tractions, flow.mesh.normals)
    mesh = with_arrays(
        (flow.mesh.vertices.cpu().numpy(), flow.mesh.faces.cpu().numpy()),
        cell_arrays={"pressure": pressure.cpu().numpy(), "wall_shear": shear.cpu().numpy()},
        units={"pressure": "Pa", "wall_shear": "Pa"},
    )
    return write_object(mesh, out)


def _card() -> dict[str, object]:
    stream = [{"name": name, "unit": "m/s"} for name in _STREAM]
    return {
        "schema": 1,
        "name": "stokes-meshes",
        "files": {"mesh": "{id}.vtp"},
        "location": "cell",
        "coords": {"name": "position", "unit": "m"},
        "features": [{"name": "normal", "computed": "normals"}],
        "targets": [
            {"name": name, "unit": "Pa", "from": {"array": name, "components": count}}
            for name, count in (("pressure", 1), ("wall_shear", 3))
        ],
        "parameters": [{"file": TABLE, "id": "sample", "features": stream}],
        "reference": {"area": 1.0, "density": 1.0},
    }


def _table(config: Stokes, samples: Sequence[str], seed: int) -> str:
    """The streams of the samples as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["sample", *_STREAM])
    for sample in samples:
        stream = draw_scene(config, seed=seed, sample=int(sample))[1]
        rows.writerow([sample, *np.asarray(stream).tolist()])
    return text.getvalue()
