"""The prediction of a model on all points of one sample, for pictures.

The points of a sample are stored in random order, so consecutive ones are a random subset. The
sample is predicted one subset at a time, each as dense as the draws of the training; together they
are all of its points, each predicted once. A sample that was taken whole in chunks (`streamed.py`)
is predicted by its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.data.batches import Batch, count_points
from slipstream.data.store import Store
from slipstream.evaluation.measure import variables
from slipstream.evaluation.slices import probing
from slipstream.evaluation.streamed import is_streamed, streamed_prediction
from slipstream.metrics import Errors, error_sums
from slipstream.runs.evaluation_file import LayerSlices, Protocol
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.prediction_file import Prediction
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.streaming import Streaming, gather
from slipstream.runs.tokens import Tokens

MOST_POINTS = 200_000
"""The largest number of points in a picture, unless the model needs more at once."""
WEIGHT_POINTS = 16_384
"""The number of points at which the slice weights are kept."""


@torch.no_grad()
def predict_sample(
    trained: TrainedModel,
    store: Store,
    sample: str,
    protocol: Protocol,
    tokens: Tokens | None = None,
) -> tuple[Prediction, list[LayerSlices]]:
    """The prediction, and the slices of every layer on the first subset of the points.

    `tokens` are those of a sample that was streamed.
    """
    if tokens is not None:
        return _predict_streamed(trained, StoredSample(store, sample), protocol, tokens)
    config = trained.config
    total = store.rows(sample)
    size = total if protocol.full else count_points(config.data.points, total, sample)
    used = min(total, max(size, MOST_POINTS))
    rows = torch.empty(used, store.schema.width)
    store.read_spans(sample, [(0, used)], rows.numpy())
    values: list[Tensor] = []
    weights: list[Tensor] = []
    layers: list[LayerSlices] = []
    for start, first in subsets(used, size):
        with probing(trained.model, WEIGHT_POINTS) as probe:
            predicted = _predict(trained, rows[first : first + size], store, sample)
        values.append(predicted[start - first :])
        layers = layers or list(probe.layers.values())
        if probe.weights is not None and start < WEIGHT_POINTS:
            weights.append(probe.weights[start - first :].half().cpu())
    kept = torch.cat(weights)[:WEIGHT_POINTS] if weights else None
    prediction = _prediction(trained, rows, torch.cat(values), sample, protocol, kept)
    return prediction, layers


def _predict_streamed(
    trained: TrainedModel, sample: StoredSample, protocol: Protocol, tokens: Tokens
) -> tuple[Prediction, list[LayerSlices]]:
    values, probe = streamed_prediction(trained, sample, tokens, weight_points=WEIGHT_POINTS)
    rows = sample.rows(0, len(values)).rows[0]
    weights = None if probe.weights is None else probe.weights.half().cpu()
    prediction = _prediction(trained, rows, values, sample.name, protocol, weights)
    return prediction, list(probe.layers.values())


@torch.no_grad()
def predict_whole(
    trained: TrainedModel, store: Store, sample: str, protocol: Protocol
) -> Float[Tensor, "N K"]:
    """The targets at all points of a sample, as stored: in the same subsets, or in chunks."""
    stored = StoredSample(store, sample)
    if is_streamed(trained, protocol, stored.count):
        values, write = gather(stored.count, 1, store.schema.target_dim, trained.config.dtype)
        Streaming(trained, normalised=True).predict(stored.points(), write)
        whole = values.to(trained.device)
        return trained.normaliser.targets.inverse(whole)[0].float().cpu()
    rows = torch.from_numpy(store.array(sample).copy())
    total = len(rows)
    points = trained.config.data.points
    size = total if protocol.full else count_points(points, total, sample)
    parts = [
        _predict(trained, rows[first : first + size], store, sample)[start - first :]
        for start, first in subsets(total, size)
    ]
    return torch.cat(parts)


def subsets(total: int, size: int) -> Iterator[tuple[int, int]]:
    """For each subset the first point that is new in it, and the point at which it begins.

    The last subset must be as dense as the others, so it begins earlier and its first points are
    dropped: 10 points in subsets of 4 are rows 0-3, 4-7 and 6-9, of which 6-7 go.
    """
    for start in range(0, total, size):
        yield start, min(start, total - size)


def _predict(
    trained: TrainedModel, rows: Tensor, store: Store, sample: str
) -> Float[Tensor, "N K"]:
    batch = Batch(rows[None], store.schema, (sample,)).to(trained.device, trained.config.dtype)
    return trained.as_stored(*batch.inputs)[0].float().cpu()


def _prediction(
    trained: TrainedModel,
    rows: Tensor,
    values: Tensor,
    sample: str,
    protocol: Protocol,
    weights: Tensor | None,
) -> Prediction:
    schema, config = trained.schema, trained.config
    parts = {part: rows[:, schema.columns(part)] for part in ("coords", "features", "targets")}
    groups = variables(schema)
    sums = error_sums(values[None], parts["targets"][None], groups)
    raw_errors = Errors.of(sums, groups, [sample]).samples[sample]
    errors = [e if e is not None and math.isfinite(e) else None for e in raw_errors]
    return Prediction(
        experiment=config.experiment,
        variant=config.model.variant,
        seed=config.seed,
        step=trained.metric["step"],
        split=protocol.split,
        sample=sample,
        schema=schema,
        errors=dict(zip(groups, errors, strict=True)),
        coords=parts["coords"],
        features=parts["features"],
        truth=parts["targets"],
        values=values,
        weights=weights,
    )
