"""A run's prediction on one sample together with the truth, for pictures: one safetensors file.

The header (see checkpoint.py, what = "prediction") holds: experiment, variant, seed and step of the
run, split and sample, fields with units, relative L1 error of each variable. Tensors: coords,
features, truth, values, all in the units of the fields, and `weights`, the slice weights of the
last layer that has some, at the first points (N H G, float16). Where the faces of a surface are
known: `corners` (P 3), and as int32 `triangles` (T 3, numbers of corners) and `rows` (P, the point
whose values a corner shows). Files of older versions have none of these three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from slipstream.core.files import naming_file
from slipstream.core.schemas import Count, parsed
from slipstream.core.shapes import Float
from slipstream.data.store import Schema
from slipstream.runs.checkpoint import Header, read_tensors, write_tensors

_FACES = ("corners", "triangles", "rows")
_TENSORS = ("coords", "features", "truth", "values", "weights", *_FACES)
_HEADER = ("experiment", "variant", "seed", "step", "split", "sample", "errors")


@dataclass(frozen=True, eq=False)
class Prediction:
    experiment: str
    variant: str
    seed: int
    step: int
    split: str
    sample: str
    schema: Schema
    errors: Mapping[str, float | None]
    """Relative L1 by variable, in physical units, on this sample."""
    coords: Float[Tensor, "N D"]
    features: Float[Tensor, "N F"]
    truth: Float[Tensor, "N K"]
    values: Float[Tensor, "N K"]
    weights: Float[Tensor, "M H G"] | None = None
    """Slice weights at the first M points; None for a variant without slices."""
    corners: Float[Tensor, "P 3"] | None = None
    """Corners of the surface's faces; None where they are not known."""
    triangles: Tensor | None = None  # T 3
    """The faces, each by the numbers of three corners."""
    rows: Tensor | None = None  # P
    """The point whose values each corner shows."""


@dataclass(frozen=True)
class PredictionHeader(Header):
    experiment: str
    variant: str
    seed: int
    step: Count
    split: str
    sample: str
    errors: dict[str, float | None]
    fields: Schema


def write_prediction(path: Path, prediction: Prediction) -> None:
    state: dict[str, Any] = {name: getattr(prediction, name) for name in _HEADER}
    state |= {"errors": dict(prediction.errors), "fields": prediction.schema.to_json()}
    tensors = {name: getattr(prediction, name) for name in _TENSORS}
    path.parent.mkdir(parents=True, exist_ok=True)
    present = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    write_tensors(path, "prediction", state, present)


def read_prediction(path: Path) -> Prediction:
    """Raises ValueError where the file is not a whole prediction."""
    header, tensors = read_tensors(path, "prediction")
    with naming_file(path):
        written = parsed(PredictionHeader, header, open=True)
        _check_tensors(written.fields, tensors)
    values: dict[str, Any] = {name: header[name] for name in _HEADER} | tensors
    return Prediction(schema=written.fields, **values)


def _check_tensors(schema: Schema, tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless the tensors are those of a prediction with these fields."""
    widths = (schema.coord_dim, schema.feature_dim, schema.target_dim, schema.target_dim)
    points = len(tensors["coords"]) if tensors.get("coords", Tensor()).ndim else 0
    for name, width in zip(_TENSORS[:4], widths, strict=True):
        if name not in tensors:
            raise ValueError(f"it must hold {name}, got none")
        got = tuple(tensors[name].shape)
        if got != (points, width):
            raise ValueError(f"{name} must have shape (N, columns) = {(points, width)}, got {got}")
    weights = tensors.get("weights")
    if weights is not None and (weights.ndim != 3 or len(weights) > points):
        raise ValueError(
            f"weights must have shape (M, H, G) with at most {points} points, got"
            f" {tuple(weights.shape)}"
        )
    _check_faces(tensors, points)
    for name in set(tensors) - set(_TENSORS):
        raise ValueError(f"a tensor must be one of {', '.join(_TENSORS)}, got {name!r}")


def _check_faces(tensors: Mapping[str, Tensor], points: int) -> None:
    """Raise ValueError unless there are no faces, or faces whose numbers exist."""
    lacking = [name for name in _FACES if name not in tensors]
    if lacking:
        if len(lacking) < len(_FACES):
            raise ValueError(f"faces must have {', '.join(_FACES)}, got no {lacking[0]}")
        return
    corners, triangles, rows = (tensors[name] for name in _FACES)
    count = len(corners) if corners.ndim else 0
    shapes = {"corners": (count, 3), "triangles": (triangles.numel() // 3, 3), "rows": (count,)}
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(tensors[name].shape)}")
    for name, numbers, end in (("triangles", triangles, count), ("rows", rows, points)):
        if numbers.is_floating_point():
            raise ValueError(f"{name} must be whole numbers, got {numbers.dtype}")
        if numbers.numel() and not (0 <= int(numbers.min()) and int(numbers.max()) < end):
            raise ValueError(f"{name} must be from 0 to {end - 1}, got others")
