"""How much a prediction depends on its mesh: the same geometry by the tokens of other points.

The fields are asked at the user's own rows each time, so that only the points differ that the
tokens come from; coefficients are sums over the same faces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_whole
from slipstream.inference.bounds import Bounds
from slipstream.inference.densities import MOST_SUBSETS, token_points
from slipstream.inference.predict import Choices, decode_fields, encode_fields, recipe_of
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.prediction_forces import ForceWishes, prediction_forces
from slipstream.inference.remesh_clouds import Cloud, Spread, other_clouds
from slipstream.models.sweeps import Watch
from slipstream.runs.ensemble import Ensemble, Models, as_ensemble

_WAYS = {
    "even": "spread evenly by area",
    "own": "spread as those of the mesh",
    "subset": "of a random subset",
}
_SUBSETS_ONLY = (
    "clouds are random subsets of the rows, as there are no faces on which new points could be"
    " made: finer meshes are not tried"
)
_TOKENS_OF_SUBSETS = (
    "tokens come from random subsets of {draw:,} points in any case, so that denser clouds differ"
    " in their spread and their draw alone"
)


@dataclass(frozen=True)
class MeshChange:
    """What one other cloud changes, against the prediction as given."""

    spread: Spread
    factor: float
    """The points that were asked for, as a multiple of the predicted rows."""
    points: int
    """Those that it has; no more than the tokens can be of."""
    fields: Mapping[str, float]
    """Relative L1 change of each field at the rows of the mesh."""
    coefficients: Mapping[str, float]
    """Difference of each coefficient, signed."""

    @property
    def text(self) -> str:
        return f"{self.points:,} points {_WAYS[self.spread]}"


@dataclass(frozen=True)
class Moved:
    """How far one number moves over all clouds."""

    largest: float
    rms: float
    """Root mean square of the changes."""
    by: Mapping[str, float]
    """The largest change by the spread of the points: even, own or subset."""
    most: str
    """Which cloud moves it most."""
    range: float | None = None
    """Of a coefficient, largest less least, the prediction as given among them."""
    deviation: float | None = None
    """Of a coefficient, the standard deviation over the same."""


@dataclass(frozen=True, eq=False)
class Remesh:
    """The dependence of a prediction on its mesh."""

    meshes: tuple[MeshChange, ...]
    spread: Mapping[str, NDArray[np.float32]]
    """Root mean square change of each field at each row, (rows,); of a vector, of its length."""
    training_points: tuple[int, int]
    """The fewest and most points of a draw of the training."""
    notes: tuple[str, ...]

    @property
    def fields(self) -> dict[str, Moved]:
        names = self.meshes[0].fields
        return {name: self._moved([mesh.fields[name] for mesh in self.meshes]) for name in names}

    @property
    def coefficients(self) -> dict[str, Moved]:
        several = {}
        for name in self.meshes[0].coefficients:
            changes = [mesh.coefficients[name] for mesh in self.meshes]
            values = [0.0, *changes]
            several[name] = replace(
                self._moved(changes),
                range=float(np.ptp(values)),
                deviation=float(np.std(values, ddof=1)),
            )
        return several

    def _moved(self, changes: Sequence[float]) -> Moved:
        sizes = np.abs(changes)
        by: dict[str, float] = {}
        for mesh, size in zip(self.meshes, sizes.tolist(), strict=True):
            by[mesh.spread] = max(size, by.get(mesh.spread, 0.0))
        most = self.meshes[int(sizes.argmax())].text
        return Moved(float(sizes.max()), float(np.sqrt(np.mean(sizes**2))), by, most)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """NAME_mesh_spread of each field, for the output mesh."""
        return {f"{name}_mesh_spread": values for name, values in self.spread.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "meshes": [asdict(mesh) for mesh in self.meshes],
            "fields": {name: asdict(moved) for name, moved in self.fields.items()},
            "coefficients": {name: asdict(moved) for name, moved in self.coefficients.items()},
            "training_points": list(self.training_points),
            "notes": list(self.notes),
        }


def measure_remesh(
    models: Models,
    prediction: MeshPrediction,
    choices: Choices,
    count: int,
    forces: ForceWishes | None = None,
) -> Remesh:
    """Predict the rows of a prediction again by the tokens of `count` other clouds.

    `choices` are those of the prediction; with `forces` coefficients are compared too. It takes as
    long as `count` more predictions. ValueError where `count` is less than 1, and where forces are
    asked of a prediction that has none.
    """
    check_count(count)
    models = as_ensemble(models)
    draw = max(recipe_of(member).points.draw.most for member in models.members)
    given = _coefficients(prediction, forces)
    squares = {name: np.zeros(prediction.rows) for name in _targets(prediction)}
    changes = []
    most = _most_points(prediction.inputs.points, draw, choices)
    for number, cloud in enumerate(other_clouds(prediction.inputs, prediction.recipe, count, most)):
        moved = _by_tokens_of(cloud, models, prediction, choices, (number, count))
        for name, square in squares.items():
            square += _lengths(moved.fields[name], prediction.fields[name]) ** 2
        other = _coefficients(moved, forces)
        fields = {name: _relative(prediction, moved, name) for name in squares}
        changes.append(
            MeshChange(
                cloud.spread,
                cloud.factor,
                cloud.fields.points,
                {name: change for name, change in fields.items() if change is not None},
                {name: other[name] - value for name, value in given.items()},
            )
        )
    spread = {n: np.sqrt(square / count).astype(np.float32) for n, square in squares.items()}
    draws = prediction.recipe.points.draw
    notes = _notes(changes, draw, choices)
    return Remesh(tuple(changes), spread, (draws.least, draws.most), notes)


def check_count(count: Any) -> None:
    check_whole("--remesh", count, 1)


def shared(watch: Watch, part: int, parts: int) -> Watch:
    """The progress of one part of some work, as that of all of it."""
    return lambda done, total: watch(part * total + done, parts * total)


def exceeding(remesh: Mapping[str, Any], bounds: Bounds | None) -> dict[str, Spread]:
    """The fields and coefficients that other clouds move by more than the bound of their error,
    each with the spread of such clouds: `even` only where those with the spread of the mesh do
    not."""
    known = {} if bounds is None else {**bounds.fields, **bounds.coefficients}
    moved = {**remesh["fields"], **remesh["coefficients"]}
    ways: tuple[Spread, ...] = ("even", "own", "subset")
    return {
        name: way
        for way in ways
        for name, bound in known.items()
        if bound.value is not None and name in moved
        if moved[name]["by"].get(way, 0.0) > bound.value
    }


def _by_tokens_of(
    cloud: Cloud,
    models: Ensemble,
    prediction: MeshPrediction,
    choices: Choices,
    part: tuple[int, int],
) -> MeshPrediction:
    number, count = part
    watches = [shared(choices.watch, 2 * number + half, 2 * count) for half in (0, 1)]
    tokens = encode_fields(models, cloud.fields, replace(choices, watch=watches[0]))
    again = replace(choices, watch=watches[1])
    return decode_fields(models, prediction.source, prediction.inputs, tokens, again)


def _most_points(rows: int, draw: int, choices: Choices) -> int:
    """The most points that make a difference: tokens of subsets take no more of a cloud."""
    in_subsets = token_points(rows, draw, choices.density).subsets
    return MOST_SUBSETS * draw if in_subsets else 2 * rows


def _targets(prediction: MeshPrediction) -> list[str]:
    return [target.name for target in prediction.recipe.targets]


def _relative(given: MeshPrediction, moved: MeshPrediction, name: str) -> float | None:
    """Relative L1 change over the predicted rows; None of a field that is zero."""
    values = np.asarray(given.fields[name], np.float64)
    size = float(np.nansum(np.abs(values)))
    return float(np.nansum(np.abs(moved.fields[name] - values))) / size if size > 0 else None


def _lengths(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    difference = (one.astype(np.float64) - other).reshape(len(one), -1)
    lengths: NDArray[np.float64] = np.linalg.norm(difference, axis=1)
    return lengths


def _coefficients(prediction: MeshPrediction, forces: ForceWishes | None) -> Mapping[str, float]:
    return {} if forces is None else prediction_forces(prediction, forces).predicted.coefficients


def _notes(changes: Sequence[MeshChange], draw: int, choices: Choices) -> tuple[str, ...]:
    notes = [_SUBSETS_ONLY] if changes[0].spread == "subset" else []
    if any(token_points(one.points, draw, choices.density).subsets for one in changes):
        notes.append(_TOKENS_OF_SUBSETS.format(draw=draw))
    return tuple(notes)
