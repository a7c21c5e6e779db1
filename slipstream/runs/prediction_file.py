"""A run's prediction on one sample together with the truth, for pictures: one safetensors file.

The header (see checkpoint.py, what = "prediction") holds: experiment, variant, seed and step of the
run, split and sample, fields with units, relative L1 error of each variable. Tensors: coords,
features, truth, values, all in physical units, and `weights`, the slice weights of the last layer
that has some, at the first points (N H G, float16).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.data.store import Schema
from slipstream.runs.checkpoint import read_tensors, write_tensors

_TENSORS = ("coords", "features", "truth", "values", "weights")
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
    absent = [name for name in (*_HEADER, "fields") if name not in header]
    absent += [name for name in _TENSORS[:4] if name not in tensors]
    if absent:
        raise ValueError(f"{path} must hold {absent[0]}, got none")
    values: dict[str, Any] = {name: header[name] for name in _HEADER} | tensors
    return Prediction(schema=Schema.from_json(header["fields"]), **values)
