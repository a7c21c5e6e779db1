"""A prediction as a file for ParaView: points with truth, prediction, error and slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.extras import need
from slipstream.data.store import Field, Schema
from slipstream.evaluation.slices import point_entropy
from slipstream.runs.prediction_file import Prediction


def point_arrays(prediction: Prediction) -> dict[str, NDArray[Any]]:
    """Arrays by name: FIELD, FIELD_prediction, FIELD_error, features, entropy, slice_H_G.

    A target that was divided by a reference of the sample is there as stored, and as it was before:
    FIELD_undivided, FIELD_undivided_prediction, FIELD_undivided_error.
    Where the slice weights are known at fewer points than the fields, they are NaN at the others.
    """
    schema = prediction.schema
    arrays = {field.name: _own(schema, field, prediction.features) for field in schema.features}
    stored = prediction.truth, prediction.values
    undivided = [schema.undivided(values, prediction.features) for values in stored]
    for field in schema.targets:
        arrays |= _compared(field.name, *(_own(schema, field, values) for values in stored))
        if field.divided is not None:
            pair = (_own(schema, field, values) for values in undivided)
            arrays |= _compared(f"{field.name}_undivided", *pair)
    if prediction.weights is not None:
        weights = prediction.weights.float()
        points, (_, heads, slices) = len(prediction.coords), weights.shape
        arrays["entropy"] = _padded(point_entropy(weights).mean(-1).numpy(), points)
        for head in range(heads):
            for slot in range(slices):
                name = f"slice_{head}_{slot}"
                arrays[name] = _padded(weights[:, head, slot].numpy(), points)
    return arrays


def write_vtp(path: Path, prediction: Prediction) -> None:
    """Write a prediction as a .vtp file; ValueError where pyvista is not installed."""
    pyvista = need("pyvista", "mesh")
    coords = np.zeros((len(prediction.coords), 3), np.float32)  # VTK wants three, also in 2D
    own_coords = prediction.coords.numpy()[:, :3]
    coords[:, : own_coords.shape[1]] = own_coords
    cloud = pyvista.PolyData(coords)
    for name, values in point_arrays(prediction).items():
        cloud.point_data[name] = values
    cloud.save(path)


def _own(schema: Schema, field: Field, values: Tensor) -> NDArray[Any]:
    """The columns of a field among those of its part, which is features or targets."""
    part = "features" if field in schema.features else "targets"
    columns, start = schema.columns(field.name), schema.columns(part).start
    return _array(values[:, columns.start - start : columns.stop - start].numpy())


def _compared(name: str, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {name: truth, f"{name}_prediction": predicted, f"{name}_error": predicted - truth}


def _array(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.shape[1] == 1 else values


def _padded(values: NDArray[Any], points: int) -> NDArray[Any]:
    padded = np.full(points, np.nan, np.float32)
    padded[: len(values)] = values
    return padded
