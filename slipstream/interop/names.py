"""How another program calls our parameters: rows of data that are read forwards and backwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.structure import expected_parameters
from slipstream.models.variants import BASELINE, Shapes, Size, variant_named

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Row:
    """Where the other program keeps our parameters whose names begin with `ours`.

    `{i}` stands for the number of a layer, `{last}` for that of the last layer. The rest of a name,
    as "weight", is the same on both sides, unless `ours` is a whole name.
    """

    ours: str
    theirs: str
    part: int = 0
    """Which part of their tensor along its first axis it is, of so many equal ones."""
    parts: int = 1
    axes: tuple[int, ...] | None = None
    """The shape of their tensor, -1 for the length of ours; None for our own shape."""


@dataclass(frozen=True)
class Place:
    """Where one of our parameters is."""

    key: str
    part: int
    parts: int
    axes: tuple[int, ...] | None


@dataclass(frozen=True)
class Dead:
    """Tensors that another program keeps and never trains."""

    pattern: str
    """A regular expression of the whole key."""
    reason: str
    shapes: Callable[[Size], Shapes] | None = None
    """Keys and shapes of those that the program needs to load a file; None if it needs none."""


@dataclass(frozen=True)
class Naming:
    """One generation of the names of a program."""

    source: str
    """The word of --from and --to."""
    rows: tuple[Row, ...]
    signs: tuple[str, ...]
    """Patterns of which each must begin some key."""
    generation: str = ""
    """Which releases have these names, where a program has several."""
    variants: tuple[str, ...] = (BASELINE,)
    constants: Constants = DEFAULT
    has_placeholder: bool = True
    dead: Mapping[str, tuple[Dead, ...]] = field(default_factory=dict)
    """By variant; those under "" belong to all."""

    @property
    def title(self) -> str:
        return f"{self.source} {self.generation}".strip()

    def dead_tensors(self, variant: str) -> tuple[Dead, ...]:
        return (*self.dead.get("", ()), *self.dead.get(variant, ()))


def places(naming: Naming, names: Iterable[str], layers: int) -> dict[str, Place]:
    """Where each of our parameters is; those that the program does not have are left out."""
    found = {}
    for name in names:
        place = _place(naming, name, layers)
        if place is not None:
            found[name] = place
    return found


def _place(naming: Naming, name: str, layers: int) -> Place | None:
    for row in naming.rows:
        pattern = re.escape(row.ours).replace(r"\{i\}", r"(?P<i>\d+)")
        match = re.match(pattern, name)
        if match is not None:
            number = match.groupdict().get("i", "")
            key = row.theirs.replace("{i}", number).replace("{last}", str(layers - 1))
            return Place(key + name[match.end() :], row.part, row.parts, row.axes)
    return None


def gathered(naming: Naming, theirs: Mapping[str, Tensor], names: Shapes, layers: int) -> Tensors:
    """Our parameters from their tensors, or our gradients from theirs; parts are views."""
    ours = {}
    for name, place in places(naming, names, layers).items():
        tensor = theirs[place.key]
        if place.parts > 1:
            tensor = tensor.chunk(place.parts)[place.part]
        ours[name] = tensor.reshape(names[name]) if place.axes is not None else tensor
    return ours


def scattered(naming: Naming, ours: Mapping[str, Tensor], layers: int) -> Tensors:
    """Their tensors from our parameters; a part that we do not have is zero."""
    parts: dict[str, list[Tensor | None]] = {}
    axes: dict[str, tuple[int, ...] | None] = {}
    for name, place in places(naming, ours, layers).items():
        parts.setdefault(place.key, [None] * place.parts)[place.part] = ours[name]
        axes[place.key] = place.axes
    theirs = {}
    for key, several in parts.items():
        like = next(tensor for tensor in several if tensor is not None)
        whole = [torch.zeros_like(like) if tensor is None else tensor for tensor in several]
        tensor = torch.cat(whole) if len(whole) > 1 else whole[0]
        shape = axes[key]
        theirs[key] = tensor.reshape(shape) if shape is not None else tensor
    return theirs


def our_shapes(variant: str, size: Size, *, inputs: int, outputs: int) -> Shapes:
    """Names and shapes of our parameters; how inputs are split changes none of them."""
    return expected_parameters(
        variant_named(variant), size, coord_dim=inputs, feature_dim=0, out_dim=outputs
    )
