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
    schema, found = prediction.schema, {}
    for part, given in (("features", prediction.features), ("targets", prediction.truth)):
        for field in getattr(schema, part):
            columns, start = schema.columns(field.name), schema.columns(part).start
            own = slice(columns.start - start, columns.stop - start)
            found[field.name] = _array(given[:, own].numpy())
            if part == "targets":
                predicted = _array(prediction.values[:, own].numpy())
                found[f"{field.name}_prediction"] = predicted
                found[f"{field.name}_error"] = predicted - found[field.name]
    if prediction.weights is not None:
        weights = prediction.weights.float()
        points, (_, heads, slices) = len(prediction.coords), weights.shape
        found["entropy"] = _padded(point_entropy(weights).mean(-1).numpy(), points)
        for head in range(heads):
            for slot in range(slices):
                name = f"slice_{head}_{slot}"
                found[name] = _padded(weights[:, head, slot].numpy(), points)
    return found


def write_vtp(path: Path, prediction: Prediction) -> None:
    """Raises ValueError where pyvista is not installed."""
    pyvista = need("pyvista", "mesh")
    coords = np.zeros((len(prediction.coords), 3), np.float32)
    given = prediction.coords.numpy()[:, :3]
    coords[:, : given.shape[1]] = given
    cloud = pyvista.PolyData(coords)
    for name, values in point_arrays(prediction).items():
        cloud.point_data[name] = values
    cloud.save(path)


def _array(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.shape[1] == 1 else values


def _padded(values: NDArray[Any], points: int) -> NDArray[Any]:
    found = np.full(points, np.nan, np.float32)
    found[: len(values)] = values
    return found
