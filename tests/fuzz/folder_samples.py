"""A folder of two runs with their parameters, as `data inspect` and `data ingest mesh` take it."""

from __future__ import annotations

from pathlib import Path

from ..data.mesh_files import surface
from .samples import Sample

CARD = """schema: 1
files:
  surface: "run_{id}/surface.vtp"
  body: "run_{id}/body.stl"
features:
  - {name: normal, computed: normals}
  - {name: gap, computed: distance, to: body}
targets:
  - {name: velocity, unit: m/s, from: {file: surface, array: U, components: 3}}
parameters:
  - {file: cases.csv, id: case, features: [{name: speed, unit: m/s}]}
  - {file: "run_{id}/inflow.json", features: [{name: direction, unit: "1", components: 3}]}
"""


def folder_samples(folder: Path) -> list[Sample]:
    """`folder` is for files of the moment."""
    files = {"cases.csv": b"case,speed,angle\n1,30.5,0\n2,41,5e-1\n"}
    for run in ("1", "2"):
        mesh = surface()
        mesh.points *= float(run)
        mesh.save(folder / "surface.vtp", binary=run == "1")
        mesh.triangulate().save(folder / "body.stl")
        inflow = f'{{"direction": [1, 0, 0.{run}], "speed": {run}}}\n'
        files[f"run_{run}/surface.vtp"] = (folder / "surface.vtp").read_bytes()
        files[f"run_{run}/body.stl"] = (folder / "body.stl").read_bytes()
        files[f"run_{run}/inflow.json"] = inflow.encode()
    return [
        Sample("inspect", "inspect", files, "."),
        Sample("ingest", "ingest", {"card.yaml": CARD.encode(), **files}, "."),
    ]
