"""Points as they are given to a trained model, checked against the fields that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.data.store import Field, Schema
from slipstream.runs.recipe import Recipe
from slipstream.runs.recipe_text import how_made, named


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Coordinates (B, N, d) and features (B, N, f) on the device of a model, in its dtype."""

    coords: Tensor
    features: Tensor | None
    batched: bool
    """Whether they were given with the axis B."""
    as_array: bool
    """Whether the coordinates were no tensor: a numpy array or a list."""

    def answer(self, values: Tensor) -> Any:
        """The values (B, N, k) in the form of the coordinates: array or tensor, with B or not."""
        values = values if self.batched else values[0]
        return values.cpu().numpy() if self.as_array else values


@dataclass(frozen=True)
class InputFields:
    """The fields that a model takes, and how they are made where that is known."""

    schema: Schema
    recipe: Recipe | None = None

    def missing(self, fields: Sequence[Field]) -> str:
        """What is missing, as "U [m/s] (a parameter, one number for a whole sample)"."""
        return ", ".join(self._described(field) for field in fields)

    def _described(self, field: Field) -> str:
        text = named(field.name, field.unit, field.components)
        if self.recipe is not None and field in self.schema.features:
            return f"{text} ({how_made(self.recipe.feature(field.name), self.recipe)})"
        return f"{text} (computed: {field.computed})" if field.computed else text


def model_inputs(
    takes: InputFields,
    coords: Any,
    features: Any,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> ModelInputs:
    """Raises ValueError that says which fields the model takes, what was given, and how each field
    that is missing is made."""
    schema = takes.schema
    points = _checked("coords", coords, schema.coords, takes)
    given = None
    if features is not None or schema.features:
        if isinstance(features, Mapping):
            given = _joined(features, points, takes)
        else:
            given = _checked("features", features, schema.features, takes)
        if given.shape[:-1] != points.shape[:-1]:
            raise ValueError(
                f"features must be at the points of coords, shape {tuple(points.shape)}, got shape"
                f" {tuple(given.shape)}"
            )
    batched = points.ndim == 3
    parts = [
        None if part is None else part.to(device, dtype).reshape(-1, *part.shape[-2:])
        for part in (points, given)
    ]
    assert parts[0] is not None
    return ModelInputs(parts[0], parts[1], batched, not isinstance(coords, Tensor))


def _joined(values: Mapping[str, Any], points: Tensor, takes: InputFields) -> Tensor:
    """Features by name: values at every point, or numbers that all points share."""
    fields = takes.schema.features
    names = [field.name for field in fields]
    missing = [field for field in fields if field.name not in values]
    if missing:
        raise ValueError(f"features must have {', '.join(names)}, got no {takes.missing(missing)}")
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ValueError(
            f"features must be of {', '.join(names) or 'no field'}, got {unknown[0]!r} besides"
        )
    columns = [_column(field, values[field.name], points) for field in fields]
    return torch.cat([column.to(points.device, torch.float64) for column in columns], -1)


def _column(field: Field, values: Any, points: Tensor) -> Tensor:
    """One feature at every point, (..., N, components)."""
    tensor, ahead = _as_tensor(values), points.shape[:-1]
    if tensor is not None:
        if tuple(tensor.shape) == tuple(ahead) and field.components == 1:
            return tensor[..., None]
        if tuple(tensor.shape) == (*ahead, field.components):
            return tensor
        if tuple(tensor.shape) in ((), (1,), (field.components,)) and (
            tensor.numel() == field.components
        ):
            return tensor.reshape(-1).expand(*ahead, field.components)
    shape = (*ahead, field.components)
    raise ValueError(
        f"{named(field.name, field.unit, field.components)} must have shape {shape}, or be"
        f" {field.components} for all points, got {_kind(values)}"
    )


def _checked(name: str, values: Any, fields: Sequence[Field], takes: InputFields) -> Tensor:
    """The values as a tensor (N, columns) or (B, N, columns)."""
    columns = sum(field.components for field in fields)
    texts = ", ".join(f"{f.name} [{f.unit}] x {f.components}" for f in fields)
    if not fields:
        raise ValueError(f"{name} must be left out, as the model takes none, got {_kind(values)}")
    tensor = _as_tensor(values)
    if tensor is None or tensor.ndim not in (2, 3) or tensor.shape[-1] != columns:
        must = (
            f"{name} must be {texts}: an array or tensor of shape (N, {columns}) or"
            f" (B, N, {columns})"
        )
        lacking = _lacking(tensor, values, fields)
        missing = f"; missing: {takes.missing(lacking)}" if lacking else ""
        raise ValueError(f"{must}, got {_kind(values)}{missing}")
    return tensor


def _lacking(tensor: Tensor | None, values: Any, fields: Sequence[Field]) -> Sequence[Field]:
    """The fields that are missing: all where nothing is given, the last ones where the columns are
    those of the first; none where that cannot be told."""
    if values is None:
        return fields
    width = tensor.shape[-1] if tensor is not None and tensor.ndim in (2, 3) else -1
    for number in range(len(fields)):
        if sum(field.components for field in fields[:number]) == width:
            return fields[number:]
    return ()


def _as_tensor(values: Any) -> Tensor | None:
    """Tensors, arrays, numbers and lists of them; None where they are no real numbers."""
    if isinstance(values, Tensor):
        return None if values.is_complex() else values
    if values is None or isinstance(values, str | bytes | Mapping):
        return None
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return None
    if array.dtype.kind not in "fiub":
        return None
    # A copy: tensors share memory with their array, and arrays of files must not be written to.
    wide = array.itemsize > 4 or array.dtype.kind in "iu"
    return torch.from_numpy(np.array(array, np.float64 if wide else np.float32))


def _kind(values: Any) -> str:
    if values is None:
        return "none"
    if isinstance(values, np.ndarray | Tensor):
        return f"{values.dtype} of shape {tuple(values.shape)}"
    tensor = _as_tensor(values)
    what = f"a {type(values).__name__}"
    return what if tensor is None else f"{what} of shape {tuple(tensor.shape)}"
