"""Predictions of several variants on one sample as one scene, and the slices that they learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from slipstream.data.store import Computed, Field
from slipstream.evaluation.slices import Match, match_slices, point_entropy
from slipstream.reports.content import Array, Scene, SceneField
from slipstream.reports.draw.canvas import camera
from slipstream.reports.draw.reconstruct import reconstructed
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.own_data import OWN, data_name
from slipstream.runs.prediction_file import Prediction, read_prediction

MOST_POINTS = 40_000
"""Points kept of a scene without faces, all of which the page holds."""
SLICE_PAIRS = 3
_NEAR_WALL = 0.05
"""Share of the points, those with the smallest distance, that count as lying at the wall."""
Shown = slice | Tensor
"""Which points of a prediction a scene has."""


def read_scenes(runs: Sequence[RunData], problems: list[str]) -> list[Scene]:
    """A scene for each sample with predictions; of a variant, the prediction of its first seed.

    A file that cannot be read, or whose points differ from those of the other variants, is left
    out, and a sentence about it is added to `problems`.
    """
    samples: dict[tuple[str, str], dict[str, Prediction]] = {}
    for run in runs:
        for sample, file in run.predictions().items():
            by_variant = samples.setdefault((run.config.experiment, sample), {})
            if run.variant in by_variant:
                continue
            try:
                prediction = read_prediction(file)
                _check_same_points(prediction, by_variant, str(file))
            except ValueError as error:
                problems.append(f"{run.name} is not pictured: {error}")
                continue
            by_variant[run.variant] = prediction
    names = {run.config.experiment: data_name([run]) for run in runs}
    return [
        make_scene(by_variant, data=names[experiment] if experiment == OWN else "")
        for (experiment, _), by_variant in samples.items()
        if by_variant
    ]


def _check_same_points(
    prediction: Prediction, others: Mapping[str, Prediction], where: str
) -> None:
    for other in others.values():
        if not np.array_equal(prediction.coords, other.coords):
            raise ValueError(
                f"{where} must be of the points that the others were predicted at, got other points"
            )
        return  # the others were compared with this one when they were read


def make_scene(predictions: Mapping[str, Prediction], *, data: str = "") -> Scene:
    """The scene of predictions by variant, all at the same points; it is named by the data, if
    they are given, else by the experiment.

    Where one of them has the faces of the surface, the scene has these instead of points; else a
    surface gets triangles through its points, if the points make one.
    """
    first = next(iter(predictions.values()))
    faced = next((one for one in predictions.values() if one.triangles is not None), first)
    shown = slice(MOST_POINTS) if faced.rows is None else faced.rows.long()
    schema = first.schema
    unit = schema.coords[0].unit
    fields = tuple(_scene_field(field, predictions, shown) for field in schema.targets)
    normals = _computed(first, "normals", shown)
    coords = _in_space(first.coords) if faced.corners is None else faced.corners.numpy()
    triangles = None if faced.triangles is None else faced.triangles.numpy()
    laid = triangles is None and normals is not None
    if triangles is None and normals is not None:
        triangles = reconstructed(coords, normals)
    is_volume = normals is None and triangles is None
    distances = _computed(first, "distance", shown)
    return Scene(
        name=f"{data or first.experiment}, {first.split} sample {first.sample}",
        experiment=first.experiment,
        sample=first.sample,
        kind="volume" if is_volume else "surface",
        coords=coords,
        unit=unit,
        fields=fields,
        normals=normals,
        triangles=triangles,
        reconstructed=laid and triangles is not None,
        wall_distance=None if distances is None else distances[:, 0],
    )


def field_of(scene: Scene, prediction: Prediction) -> SceneField | None:
    """The first field of a scene as another prediction has it; None where that is of other points.

    Of a scene with the faces of a mesh the points are not those of the prediction.
    """
    if not np.array_equal(_in_space(prediction.coords), scene.coords):
        return None
    return _scene_field(
        prediction.schema.targets[0], {prediction.variant: prediction}, slice(MOST_POINTS)
    )


def _in_space(coords: Tensor) -> Array:
    """Three coordinates: missing ones are zero, further ones are left out."""
    in_space = np.zeros((min(len(coords), MOST_POINTS), 3), np.float32)
    given = _plain(coords, slice(MOST_POINTS))[:, :3]
    in_space[:, : given.shape[1]] = given
    return in_space


def _plain(tensor: Tensor, shown: Shown) -> Array:
    return np.asarray(tensor[shown].float().numpy(), np.float32)


def _normals(prediction: Prediction) -> Array | None:
    """The normals at the points; None for a sample without them, which is a volume."""
    return _computed(prediction, "normals", slice(MOST_POINTS))


def _computed(prediction: Prediction, what: Computed, shown: Shown) -> Array | None:
    schema = prediction.schema
    field = schema.computed(what)
    if field is None:
        return None
    columns, first = schema.columns(field.name), schema.columns("features").start
    return _plain(prediction.features[:, columns.start - first : columns.stop - first], shown)


def _scene_field(field: Field, predictions: Mapping[str, Prediction], shown: Shown) -> SceneField:
    first = next(iter(predictions.values()))
    columns, start = first.schema.columns(field.name), first.schema.columns("targets").start
    own = slice(columns.start - start, columns.stop - start)
    truth = _plain(first.truth[:, own], shown)
    values = {v: _plain(prediction.values[:, own], shown) for v, prediction in predictions.items()}
    return SceneField(
        name=field.name if field.components == 1 else f"|{field.name}|",
        unit=field.unit,
        truth=_length(truth),
        predictions={variant: _length(value) for variant, value in values.items()},
        errors={v: np.linalg.norm(value - truth, axis=1) for v, value in values.items()},
        relative={v: _known(p.errors[field.name]) for v, p in predictions.items()},
    )


def _known(error: float | None) -> float:
    return math.nan if error is None else error


def _length(values: Array) -> Array:
    return values[:, 0] if values.shape[1] == 1 else np.linalg.norm(values, axis=1)


def section_of(scene: Scene) -> tuple[str | None, float | None]:
    """Axis and position of the section through a scene.

    With distances to a wall the plane is that of x, along the stream, and z, upwards, at the y
    where most points near the wall are. Without, both are None: the middle of the shortest axis.
    """
    if scene.wall_distance is None:
        return None, None
    across = scene.coords[:, 1]
    near = across[scene.wall_distance <= np.quantile(scene.wall_distance, _NEAR_WALL)]
    counts, edges = np.histogram(near, bins=20)
    fullest = int(counts.argmax())
    return "y", float(edges[fullest : fullest + 2].mean())


@dataclass(frozen=True, eq=False)
class MatchedSlices:
    """The closest pairs of slice functions of two variants on one sample, in the last layer.

    On a surface, pairs on the side that the picture shows come first.
    """

    experiment: str
    labels: tuple[str, str]
    coords: Array
    normals: Array | None
    tops: tuple[Array, Array]  # K N each
    entropies: tuple[Array, Array]
    """For each point the mean over the heads, in nats."""
    similarities: tuple[float, ...]
    """Cosines of the K pairs."""
    median: float
    """Cosine of the median pair of all."""


def match_runs(runs: Sequence[RunData], labels: tuple[str, str]) -> list[MatchedSlices]:
    """Matched slices for each experiment in which both variants have weights at the same points."""
    matched = []
    for experiment in dict.fromkeys(run.config.experiment for run in runs):
        pair = [_weights(runs, experiment, label) for label in labels]
        if pair[0] is None or pair[1] is None:
            continue
        first, second = pair[0], pair[1]
        if not np.array_equal(first.coords, second.coords):
            continue
        matched.append(_match(first, second, labels))
    return matched


def _weights(runs: Sequence[RunData], experiment: str, variant: str) -> Prediction | None:
    """The first prediction of a variant that has slice weights."""
    for run in runs:
        if (run.config.experiment, run.variant) != (experiment, variant):
            continue
        for file in run.predictions().values():
            try:
                prediction = read_prediction(file)
            except ValueError:  # read_scenes has added a sentence about it to the problems
                continue
            if prediction.weights is not None:
                return prediction
    return None


def _match(first: Prediction, second: Prediction, labels: tuple[str, str]) -> MatchedSlices:
    assert first.weights is not None and second.weights is not None
    functions = [p.weights.float().flatten(1).numpy() for p in (first, second)]  # type: ignore[union-attr]
    pairs = match_slices(functions[0], functions[1])
    points, all_normals = len(functions[0]), _normals(first)
    coords = _in_space(first.coords)[:points]
    normals = None if all_normals is None else all_normals[:points]
    close = pairs if normals is None else _seen_first(pairs, functions[0], coords, normals)
    close = close[:SLICE_PAIRS]
    columns = [m.first for m in close], [m.second for m in close]
    return MatchedSlices(
        first.experiment,
        labels,
        coords,
        normals,
        (functions[0][:, columns[0]].T, functions[1][:, columns[1]].T),
        (_entropy(first.weights), _entropy(second.weights)),
        tuple(m.similarity for m in close),
        pairs[len(pairs) // 2].similarity,
    )


def _seen_first(
    pairs: Sequence[Match], functions: Array, coords: Array, normals: Array
) -> list[Match]:
    """The pairs, first those whose function lies mostly on the side that a picture shows."""
    seen = normals @ camera(coords)[2] > 0

    def hidden(pair: Match) -> bool:
        function = functions[:, pair.first]
        return bool(function[seen].sum() < 0.5 * function.sum())

    return sorted(pairs, key=hidden)


def _entropy(weights: Tensor) -> Array:
    return np.asarray(point_entropy(weights.float()).mean(-1).numpy(), np.float32)
