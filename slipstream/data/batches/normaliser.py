"""Normalising by the statistics of the training split, and undoing it.

Features and targets are standardised column by column. Coordinates map the training bounding box
into [-1, 1], by default with one scale for all axes, which keeps shapes and angles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from slipstream.core.checks import check_choice
from slipstream.core.schemas import parsed
from slipstream.core.shapes import Float
from slipstream.data.store import PARTS, Schema, Statistics, is_constant

CoordScale = Literal["common", "per-axis"]


@dataclass(frozen=True)
class Affine:
    """y = (x - shift) / scale, with a shift and a scale for each column."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.shift) != len(self.scale):
            raise ValueError(
                f"scale must have {len(self.shift)} numbers like shift, got {len(self.scale)}"
            )
        if not all(scale > 0 for scale in self.scale):
            raise ValueError(f"scale must be positive, got {self.scale}")

    def forward(self, x: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
        shift, scale = self._constants(x)
        return (x - shift) / scale

    def inverse(self, y: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
        shift, scale = self._constants(y)
        return y * scale + shift

    def _constants(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.shape[-1] != len(self.shift):
            raise ValueError(f"the last axis must have size {len(self.shift)}, got {x.shape[-1]}")
        return _tensors(self, x.device, x.dtype)


@dataclass(frozen=True)
class Normaliser:
    """The maps of the three parts of a row."""

    coords: Affine
    features: Affine
    targets: Affine

    @property
    def rows(self) -> Affine:
        """The map of whole rows, coords | features | targets."""
        parts = (self.coords, self.features, self.targets)
        return Affine(
            tuple(number for part in parts for number in part.shift),
            tuple(number for part in parts for number in part.scale),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            part: {"shift": list(map.shift), "scale": list(map.scale)}
            for part, map in ((part, getattr(self, part)) for part in PARTS)
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Normaliser:
        """Raises ValueError where the value is not what `to_json` returns."""
        return parsed(cls, value, place="normaliser")


def make_normaliser(
    schema: Schema, statistics: Statistics, *, coord_scale: CoordScale = "common"
) -> Normaliser:
    """The normaliser of a training split, from its statistics. Constant columns become 0.

    Coordinates go into the box from -1 to 1, by one factor for all axes ("common", which keeps
    shapes) or one for each ("per-axis"); features and targets become of mean 0 and deviation 1.
    """
    check_choice("coord_scale", coord_scale, ("common", "per-axis"))
    standard = {part: _standardise(statistics, schema.columns(part)) for part in PARTS[1:]}
    return Normaliser(_into_box(statistics, schema.columns("coords"), coord_scale), **standard)


def _standardise(statistics: Statistics, columns: slice) -> Affine:
    scale = tuple(
        1.0 if is_constant(statistics, column) else std for column, std in enumerate(statistics.std)
    )
    return Affine(statistics.mean[columns], scale[columns])


def _into_box(statistics: Statistics, columns: slice, coord_scale: CoordScale) -> Affine:
    ends = list(zip(statistics.low[columns], statistics.high[columns], strict=True))
    half = [(high - low) / 2 for low, high in ends]
    if coord_scale == "common":
        half = [max(half)] * len(half)
    centre = tuple((low + high) / 2 for low, high in ends)
    return Affine(centre, tuple(number or 1.0 for number in half))


@lru_cache(maxsize=64)
def _tensors(map: Affine, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shift and scale as tensors, cached so that a step copies nothing to the device."""
    shift = torch.tensor(map.shift, dtype=dtype, device=device)
    return shift, torch.tensor(map.scale, dtype=dtype, device=device)
