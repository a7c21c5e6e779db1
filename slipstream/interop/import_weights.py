"""Weights of another program as the parameters of a model of ours. Nothing is transposed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slipstream.core.text import printable
from slipstream.interop.names import Naming, Tensors, gathered, our_shapes, places
from slipstream.interop.refusals import refuse_other_heads, refuse_others
from slipstream.interop.sources import Source, naming_of, variant_of
from slipstream.interop.weight_files import Foreign, read_foreign
from slipstream.models.constants import Constants
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size, variant_named


@dataclass(frozen=True, eq=False)
class Import:
    """A model of another program, as ours."""

    path: Path
    foreign: Foreign
    naming: Naming
    variant: str
    size: Size
    coord_dim: int
    feature_dim: int
    out_dim: int
    weights: Tensors
    dropped: tuple[str, ...]
    """What was left out, each with the reason."""

    @property
    def constants(self) -> Constants:
        return self.naming.constants

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.weights.values())).dtype

    def model(self) -> Transolver:
        model = Transolver(
            self.coord_dim, self.feature_dim, self.out_dim, self.variant, size=self.size,
            constants=self.constants,
        ).to(self.dtype)  # fmt: skip
        model.load_state_dict(self.weights)
        return model.eval()


def import_weights(
    path: Path,
    source: Source = "auto",
    *,
    variant: str | None = None,
    coord_dim: int | None = None,
    heads: int | None = None,
) -> Import:
    """The model in a file of another program.

    What the keys do not tell must be given: the number of coordinates among the inputs, the variant
    where several have the same keys, the heads of `slice-once`. Raises ValueError where they are
    missing, for keys left over or missing, and for what ours cannot be (`refusals`).
    """
    foreign = read_foreign(path)
    refuse_others(foreign, path)
    naming = naming_of(foreign, source, variant, path)
    variant = variant_of(naming, foreign, variant, path)
    layers = _layers(foreign, path)
    look = _Look(naming, foreign.tensors, layers, path)
    size = _size(look, variant, heads)
    inputs, outputs = look.shape("lift.expand.weight")[1], look.shape("head.weight")[0]
    shapes = our_shapes(variant, size, inputs=inputs, outputs=outputs)
    if not naming.has_placeholder:
        shapes.pop("placeholder")
    dropped = _check_keys(look, shapes, variant)
    coords = _coord_dim(foreign, inputs, coord_dim, path)
    weights = gathered(naming, foreign.tensors, shapes, layers)
    dtypes = {tensor.dtype for tensor in weights.values()}
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    weights = {name: weight.to(dtype).contiguous() for name, weight in weights.items()}
    if not naming.has_placeholder:
        weights["placeholder"] = torch.zeros(size.width, dtype=dtype)
    for name, weight in weights.items():
        if not weight.isfinite().all():
            raise ValueError(f"{path} must hold finite weights, got others in those of {name}")
    return Import(
        path, foreign, naming, variant, size, coords, inputs - coords, outputs, weights, dropped
    )


@dataclass(frozen=True)
class _Look:
    """Shapes of their tensors by our names. ValueError says which key is missing."""

    naming: Naming
    tensors: Mapping[str, Tensor]
    layers: int
    path: Path

    def shape(self, ours: str) -> tuple[int, ...]:
        key = places(self.naming, [ours], self.layers)[ours].key
        if key not in self.tensors:
            raise ValueError(f"{self.path} must have the key {key}, got none")
        shape = tuple(self.tensors[key].shape)
        if ours.endswith(".weight") and len(shape) != 2:
            raise ValueError(f"{self.path}: {key} must have 2 axes, got shape {shape}")
        return shape


def _layers(foreign: Foreign, path: Path) -> int:
    matches = (re.match(r"(?:token_)?blocks\.(\d{1,6})\.", key) for key in foreign.tensors)
    numbers = {int(match.group(1)) for match in matches if match}
    if not numbers or max(numbers) >= len(foreign.tensors):
        raise ValueError(f"{path} must have keys of layers 0, 1 and so on, got others")
    return max(numbers) + 1


def _size(look: _Look, variant: str, heads: int | None) -> Size:
    width = look.shape("lift.contract.weight")[0]
    once = variant_named(variant).stream == "token-only"
    first = "once.token_blocks.0" if once else "blocks.0"
    widening = variant_named(variant).widening
    rows = look.shape(f"{first}.mlp.expand.weight")[0]
    if width == 0 or rows % (width * widening):
        raise ValueError(
            f"{look.path}: the MLP's rows must be a multiple of {width * widening}, got {rows}"
        )
    ratio = rows // (width * widening)
    if once:
        if heads is None:
            raise ValueError(
                f"--heads must say how many heads the attention of {look.path} has, which its keys"
                " do not tell, got none"
            )
        slices = look.shape("once.slots.weight")[0]
        return Size(layers=look.layers, width=width, heads=heads, slices=slices, mlp_ratio=ratio)
    if variant_named(variant).stream == "pointwise":
        return Size(layers=look.layers, width=width, heads=1, slices=1, mlp_ratio=ratio)
    slots = "blocks.0.coupling.slice_slots"
    count = 1
    for length in look.shape(f"{slots}.temperature"):
        count *= length
    slices, head = look.shape(f"{slots}.weight")
    projected = look.shape("blocks.0.coupling.query.weight")[0]
    refuse_other_heads(width, count, projected, head, look.path)
    if heads not in (None, count):
        raise ValueError(f"--heads must be {count} for {look.path}, got {heads}")
    key_ratio = slices // head if variant == "untied-ln" and slices % head == 0 else 1
    return Size(
        layers=look.layers, width=width, heads=count, slices=slices, mlp_ratio=ratio,
        key_ratio=key_ratio,
    )  # fmt: skip


def _check_keys(
    look: _Look, shapes: Mapping[str, tuple[int, ...]], variant: str
) -> tuple[str, ...]:
    """What is left out. Raises ValueError for a key that is missing, left over or misshapen."""
    needed = places(look.naming, shapes, look.layers)
    wanted = {place.key for place in needed.values()}
    dropped, others = [], []
    for key in sorted(look.tensors.keys() - wanted):
        reasons = [
            dead.reason
            for dead in look.naming.dead_tensors(variant)
            if re.fullmatch(dead.pattern, key)
        ]
        if reasons:
            dropped.append(f"{key}: {reasons[0]}")
        else:
            others.append(key)
    what = f"{look.path} as {variant} of {look.naming.title}"
    if missing := sorted(wanted - look.tensors.keys()):
        raise ValueError(f"{what} must have the key {missing[0]}, got none")
    if others:
        raise ValueError(f"{what} must have no other keys, got {printable(others[0])}")
    for name, place in needed.items():
        got, shape = tuple(look.tensors[place.key].shape), shapes[name]
        expected = (place.parts * shape[0], *shape[1:])
        if place.axes is not None:
            expected = tuple(shape[0] if axis == -1 else axis for axis in place.axes)
        if got != expected:
            raise ValueError(f"{what}: {place.key} must have shape {expected}, got {got}")
    thirds = [key for key in sorted(wanted) if key.endswith(".attn.in_proj_bias")]
    dropped += [f"{key}, the key's third: softmax cancels it" for key in thirds]
    return tuple(dropped)


def _coord_dim(foreign: Foreign, inputs: int, given: int | None, path: Path) -> int:
    """How many of the inputs are coordinates: by the file, or by whoever reads it."""
    said = foreign.arguments.get("embedding_dim")
    if isinstance(said, int) and not isinstance(said, bool):
        if given not in (None, said):
            raise ValueError(f"--coord-dim must be {said} for {path}, got {given}")
        given = said
    if given is None:
        raise ValueError(
            f"--coord-dim must say how many of the {inputs} inputs of {path} are coordinates, which"
            " its keys do not tell, got none"
        )
    if not 1 <= given <= inputs:
        raise ValueError(f"--coord-dim must be from 1 to the {inputs} inputs, got {given}")
    return given
