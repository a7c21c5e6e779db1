"""A prediction as a file for ParaView: points with truth, prediction, error and slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.evaluation.slices import point_entropy
from slipstream.runs.prediction_file import Prediction


def point_arrays(prediction: Prediction) -> dict[str, NDArray[Any]]:
    """Arrays by name: FIELD, FIELD_prediction, FIELD_error, features, entropy, slice_H_G.

    Where the slice weights are known at fewer points than the fields, they are NaN at the others.
    """
    schema, arrays = prediction.schema, {}
    for part, values in (("features", prediction.features), ("targets", prediction.truth)):
        for field in getattr(schema, part):
            columns, start = schema.columns(field.name), schema.columns(part).start
            own = slice(columns.start - start, columns.stop - start)
            arrays[field.name] = _array(values[:, own].numpy())
            if part == "targets":
                predicted = _array(prediction.values[:, own].numpy())
                arrays[f"{field.name}_prediction"] = predicted
                arrays[f"{field.name}_error"] = predicted - arrays[field.name]
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


def _array(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.shape[1] == 1 else values


def _padded(values: NDArray[Any], points: int) -> NDArray[Any]:
    padded = np.full(points, np.nan, np.float32)
    padded[: len(values)] = values
    return padded
