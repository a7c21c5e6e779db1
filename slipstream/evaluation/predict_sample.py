"""What a run predicts on all points of one sample, for pictures.

The points of a sample lie in the store in an order drawn at random, so consecutive ones are a
random subset: the sample is predicted a subset at a time, each as dense as the draws of the
training, and together they are all of its points, each predicted once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.data.batches import Batch, count_points
from slipstream.data.store import Store
from slipstream.evaluation.measure import variables
from slipstream.evaluation.slices import probing
from slipstream.metrics import Errors, error_sums
from slipstream.runs.evaluation_file import LayerSlices, Protocol
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.prediction_file import Prediction

MOST_POINTS = 200_000
"""That a picture has."""
WEIGHT_POINTS = 16_384
"""At which the slice weights are kept."""


@torch.no_grad()
def predict_sample(
    trained: TrainedModel, store: Store, sample: str, protocol: Protocol
) -> tuple[Prediction, list[LayerSlices]]:
    """The prediction, and the slices of every layer on the first subset of the points."""
    config = trained.config
    total = store.rows(sample)
    size = total if protocol.full else count_points(config.data.points, total, sample)
    used = min(total, max(size, MOST_POINTS))
    rows = torch.empty(used, store.schema.width)
    store.read_spans(sample, [(0, used)], rows.numpy())
    values: list[Tensor] = []
    weights: list[Tensor] = []
    layers: list[LayerSlices] = []
    for start in range(0, used, size):
        # the last subset is as large as the others: some of its points were predicted before
        first = min(start, used - size)
        with probing(trained.model, WEIGHT_POINTS) as probe:
            found = _predict(trained, rows[first : first + size], store, sample)
        values.append(found[start - first :])
        layers = layers or list(probe.layers.values())
        if probe.weights is not None and start < WEIGHT_POINTS:
            weights.append(probe.weights[start - first :].half().cpu())
    kept = torch.cat(weights)[:WEIGHT_POINTS] if weights else None
    prediction = _prediction(trained, rows, torch.cat(values), sample, protocol, kept)
    return prediction, layers


def _predict(
    trained: TrainedModel, rows: Tensor, store: Store, sample: str
) -> Float[Tensor, "N K"]:
    batch = Batch(rows[None], store.schema, (sample,)).to(trained.device, trained.config.dtype)
    return trained(*batch.inputs)[0].float().cpu()


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
    found = Errors.of(sums, groups, [sample]).samples[sample]
    errors = [e if e is not None and math.isfinite(e) else None for e in found]
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
