"""Slice functions of a model on a mesh: how much of each point belongs to each slice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.memory import free_memory
from slipstream.evaluation.slices import point_entropy, probing
from slipstream.inference.prediction import MeshPrediction
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.streaming import Streaming


def slice_arrays(
    trained: TrainedModel, prediction: MeshPrediction, *, chunk: int | None = None
) -> dict[str, NDArray[Any]]:
    """Arrays by name at the rows of the mesh, of the last layer that has slices:

    slice_entropy          of a point's weights, in nats, mean over the heads
    most_probable_slice    of the first head; -1 where nothing was predicted
    slice_weights_head_H   the weights of all slices, a component each

    ValueError for a variant without slices, and where they would take more than half of the free
    memory.
    """
    inputs = prediction.inputs
    streaming = Streaming(trained, chunk)
    own_chunk = min(streaming.plan(inputs.points).chunk, inputs.points)
    parts: list[NDArray[np.float32]] = []
    with probing(trained.model, own_chunk) as probe:

        def keep(first: int, end: int, _: Tensor) -> None:
            if probe.weights is None:
                raise ValueError(f"variant {trained.config.model.variant!r} has no slices to write")
            if not parts:
                _check_room(probe.weights, inputs.points)
            parts.append(probe.weights[: end - first].float().cpu().numpy())

        streaming.decode(inputs.as_points(), prediction.tokens, keep)
    entropy, most, weights = [], [], np.concatenate(parts)
    for part in parts:
        entropy.append(point_entropy(_tensor(part)).mean(-1).numpy())
        most.append(part[:, 0].argmax(-1).astype(np.int32))
    arrays: dict[str, NDArray[Any]] = {
        "slice_entropy": inputs.at_all_rows(np.concatenate(entropy)),
        "most_probable_slice": _placed(np.concatenate(most), prediction),
    }
    for head in range(weights.shape[1]):
        arrays[f"slice_weights_head_{head}"] = inputs.at_all_rows(weights[:, head])
    return arrays


def _tensor(values: NDArray[Any]) -> Tensor:
    return Tensor(values)


def _placed(most: NDArray[Any], prediction: MeshPrediction) -> NDArray[Any]:
    if prediction.inputs.kept is None:
        return most
    placed = np.full(prediction.rows, -1, most.dtype)
    placed[prediction.inputs.kept] = most
    return placed


def _check_room(weights: Tensor, points: int) -> None:
    needed = points * weights[0].numel() * 4
    if needed > 0.5 * free_memory():
        raise ValueError(
            f"slices of {points:,} points need {needed / 1e9:.3g} GB, got {free_memory() / 1e9:.3g}"
            " GB of free memory, of which half may be taken"
        )
