"""Points as they are given to a trained model, checked against the fields that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.data.store import Field, Schema


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Coordinates (B, N, d) and features (B, N, f) on the device of a model, in its dtype."""

    coords: Tensor
    features: Tensor | None
    batched: bool
    """Whether they were given with the axis B."""
    as_array: bool
    """Whether the coordinates were a numpy array."""

    def answer(self, values: Tensor) -> Any:
        """The values (B, N, k) in the form of the coordinates: array or tensor, with B or not."""
        values = values if self.batched else values[0]
        return values.cpu().numpy() if self.as_array else values


def model_inputs(
    schema: Schema,
    coords: Tensor | NDArray[Any],
    features: Tensor | NDArray[Any] | None,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> ModelInputs:
    """Raises ValueError that says which fields the model takes, and what was given."""
    points = _checked("coords", coords, schema.coords)
    given = None
    if features is not None or schema.features:
        given = _checked("features", features, schema.features)
        if given.shape[:-1] != points.shape[:-1]:
            raise ValueError(
                f"features must be at the points of coords, shape {_shape(coords)}, got shape"
                f" {_shape(features)}"
            )
    batched = points.ndim == 3
    parts = [
        None if part is None else part.to(device, dtype).reshape(-1, *part.shape[-2:])
        for part in (points, given)
    ]
    assert parts[0] is not None
    return ModelInputs(parts[0], parts[1], batched, isinstance(coords, np.ndarray))


def _checked(name: str, values: Any, fields: Sequence[Field]) -> Tensor:
    """The values as a tensor (N, columns) or (B, N, columns)."""
    columns = sum(field.components for field in fields)
    takes = ", ".join(f"{f.name} [{f.unit}] x {f.components}" for f in fields)
    if not fields:
        raise ValueError(f"{name} must be left out, as the model takes none, got {_kind(values)}")
    must = (
        f"{name} must be {takes}: an array or tensor of shape (N, {columns}) or (B, N, {columns})"
    )
    real = isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
    if isinstance(values, Tensor):
        real = not values.is_complex()
    if not real or values.ndim not in (2, 3) or values.shape[-1] != columns:
        raise ValueError(f"{must}, got {_kind(values)}")
    if isinstance(values, Tensor):
        return values
    # A copy: tensors share memory with their array, and arrays of files must not be written to.
    return torch.from_numpy(np.array(values, np.float64 if values.itemsize > 4 else np.float32))


def _kind(values: Any) -> str:
    if values is None:
        return "none"
    if isinstance(values, np.ndarray | Tensor):
        return f"{values.dtype} of shape {_shape(values)}"
    return f"a {type(values).__name__}"


def _shape(values: Any) -> tuple[int, ...]:
    return tuple(values.shape)
