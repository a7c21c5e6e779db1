"""Whether `predict --remesh` says how far a prediction moves when its body is meshed anew.

Front halves of bodies in potential flow (half_bodies.py) are meshed as in the training and with
fewer and more panels. What --remesh states of one mesh, of which it sees nothing else, is compared
with what the other meshes do: their tokens, with the fields and the sum of pressure on the rows and
faces of the first mesh. Each body is also given with half of its faces split, as no training mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.bench.half_bodies import PANELS, write_half
from slipstream.core.records import append_record
from slipstream.core.runtime import commit
from slipstream.data.meshes import read_mesh
from slipstream.inference.mesh_fields import InputChoices, MeshFields, mesh_fields
from slipstream.inference.predict import (
    Choices,
    decode_fields,
    encode_fields,
    predict_fields,
    recipe_of,
)
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.prediction_forces import ForceWishes, prediction_forces
from slipstream.inference.remesh import Remesh, measure_remesh
from slipstream.physics.potential_flow import PotentialFlow
from slipstream.runs.ensemble import Ensemble

OTHERS = (320, 1280, 2880)
COUNT = 5
SPLITS = 2
"""Times that each chosen face is split into three."""
_CHOICES = Choices(InputChoices(accept_undecided=True))
"""Faces of these meshes turn outward, which is not always seen from the shape of a half."""
Faces = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """One body with one mesh that is given."""

    body: int
    given: str
    """regular: as in the training; split: half of its faces split into nine."""
    rows: int
    stated: Mapping[str, Mapping[str, float]]
    """Of p and cd: largest and rms, and largest by the spread of the points: even and own."""
    actual: Mapping[str, Mapping[str, float]]
    """Of p and cd, by the panels of the mesh that tokens come from: the relative L1 change of p at
    the rows of the given mesh, and the change of Cd on its faces."""
    cd_on_own_faces: Mapping[str, float]
    """The difference of Cd where the other mesh is predicted as a whole, on its own faces."""


def measure(
    models: Ensemble, bodies: Sequence[int], seed: int, folder: Path, out: Path
) -> Iterator[dict[str, Any]]:
    """A record for each body and given mesh, and one with what they show together; meshes are
    written into FOLDER."""
    about = {"weights": models.weights, "models": len(models), "seed": seed, "commit": commit()}
    cases = []
    for body in bodies:
        for case in _cases(models, body, seed, folder):
            cases.append(case)
            yield append_record(out, "remesh", {**about, **asdict(case)})
    groups = {given: [c for c in cases if c.given == given] for given in ("regular", "split")}
    for given, own in {**groups, "both": [_by_others(case) for case in cases]}.items():
        shown = summary(own)
        yield append_record(out, "remesh-summary", {**about, "given": given, **shown})


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """How often the actual change is at most the one stated, and how both go together."""
    return {"cases": len(cases), **{name: _of_number(cases, name) for name in ("p", "cd")}}


def _by_others(case: Case) -> Case:
    """With the meshes that all cases have."""
    actual = {n: {str(k): own[str(k)] for k in OTHERS} for n, own in case.actual.items()}
    return replace(case, actual=actual)


def refined(faces: Faces, chosen: NDArray[np.bool_]) -> Faces:
    """A surface with the chosen triangles split into three at their middles, `SPLITS` times."""
    points, triangles = faces
    for _ in range(SPLITS):
        split, kept = triangles[chosen], triangles[~chosen]
        middles = len(points) + np.arange(len(split))
        points = np.concatenate([points, points[split].mean(1)])
        a, b, c = split.T
        thirds = [np.stack(part, 1) for part in ((a, b, middles), (b, c, middles), (c, a, middles))]
        triangles = np.concatenate([*thirds, kept])
        chosen = np.arange(len(triangles)) < 3 * len(split)
    return points, triangles


def _cases(models: Ensemble, body: int, seed: int, folder: Path) -> Iterator[Case]:
    meshes = {panels: _meshed(panels, seed, body, folder) for panels in (*OTHERS, PANELS)}
    points, triangles = meshes[PANELS]
    middles = points[triangles].mean(1)
    split = refined(meshes[PANELS], middles[:, 1] > np.median(middles[:, 1]))
    yield _case(models, body, "regular", meshes[PANELS], {n: meshes[n] for n in OTHERS})
    yield _case(models, body, "split", split, meshes)


def _case(
    models: Ensemble, body: int, name: str, given: Faces, others: Mapping[int, Faces]
) -> Case:
    prediction = _predicted(models, given)
    stated = measure_remesh(models, prediction, _CHOICES, COUNT, ForceWishes())
    cd = _cd(prediction)
    actual: dict[str, dict[str, float]] = {"p": {}, "cd": {}}
    own = {}
    values = prediction.fields["p"].astype(np.float64)
    for panels, faces in others.items():
        tokens = encode_fields(models, _inputs(models, faces), _CHOICES)
        moved = decode_fields(models, given, prediction.inputs, tokens, _CHOICES)
        change = np.abs(moved.fields["p"] - values).sum() / np.abs(values).sum()
        actual["p"][str(panels)] = float(change)
        actual["cd"][str(panels)] = abs(_cd(moved) - cd)
        own[str(panels)] = _cd(_predicted(models, faces)) - cd
    return Case(body, name, prediction.rows, _stated(stated), actual, own)


def _stated(remesh: Remesh) -> dict[str, dict[str, float]]:
    numbers = {"p": remesh.fields["p"], "cd": remesh.coefficients["cd"]}
    return {n: {"largest": m.largest, "rms": m.rms, **m.by} for n, m in numbers.items()}


def _meshed(panels: int, seed: int, body: int, folder: Path) -> Faces:
    file = folder / f"{body:04d}-{panels}"
    config = replace(PotentialFlow(bodies=(1, 1)), panels=panels)
    written = file.with_suffix(".vtp")
    if not written.exists():
        write_half(config, seed, body, file)
    points, triangles = read_mesh(written).triangles()
    return np.asarray(points, np.float64), triangles


def _inputs(models: Ensemble, faces: Faces) -> MeshFields:
    return mesh_fields(faces, recipe_of(models.first), _CHOICES.inputs)


def _predicted(models: Ensemble, faces: Faces) -> MeshPrediction:
    return predict_fields(models, faces, _inputs(models, faces), _CHOICES)


def _cd(prediction: MeshPrediction) -> float:
    return prediction_forces(prediction).predicted.coefficients["cd"]


def _of_number(cases: Sequence[Case], name: str) -> dict[str, Any]:
    """Medians, cases in which the actual change is at most the stated one, and correlations."""
    panels = list(cases[0].actual[name])
    actual = {n: np.array([case.actual[name][n] for case in cases]) for n in panels}
    actual["worst"] = np.max(list(actual.values()), axis=0)
    ways = list(cases[0].stated[name])
    stated = {way: np.array([case.stated[name][way] for case in cases]) for way in ways}
    return {
        "actual_median": {n: float(np.median(values)) for n, values in actual.items()},
        "stated_median": {way: float(np.median(values)) for way, values in stated.items()},
        "covered": {
            way: {n: int((values <= stated[way]).sum()) for n, values in actual.items()}
            for way in ("largest", "even", "own")
        },
        "correlation_of_logs": {
            way: {
                n: _correlation(np.log(stated[way]), np.log(values)) for n, values in actual.items()
            }
            for way in ways
        },
        "rank_correlation": {
            way: {
                n: _correlation(_ranks(stated[way]), _ranks(values)) for n, values in actual.items()
            }
            for way in ways
        },
    }


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    return np.argsort(np.argsort(values))


def _correlation(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """None where it cannot be told from so few, or from equal numbers."""
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])
