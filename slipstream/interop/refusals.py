"""What a Transolver of another program may be that ours is not: refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path

from slipstream.core.text import printable
from slipstream.interop.weight_files import Foreign

STRUCTURED = (
    "a Transolver for structured meshes: its query and values are convolutions over a grid, which"
    " a cloud of points does not have"
)
_TIME = "a Transolver with a time embedding: ours has no time among its inputs"
_PLUS = (
    "a Transolver++: its temperature is computed at every point, with random Gumbel weights in"
    " training"
)
_POSITION = (
    "a Transolver with unified_pos: it takes distances to a grid of reference points in place of"
    " coordinates, which ours does not compute"
)
_NARROW = "a Transolver whose head width (dim_head) is not width / heads, as all of ours is"
_BY_KEY = (
    (r"model\.", "a Transolver of PhysicsNeMo 1.0 or 1.1, which is for structured meshes only"),
    (r"(.*\.)?proj_temperature\.", _PLUS),
    (r"time_(fc|embed)\.", _TIME),
    (r"embedding$|pos$", _POSITION),
    (r"(.*\.)?slice_down\.", _NARROW),
)
_BY_ARGUMENT = (
    ("structured_shape", (None,), STRUCTURED),
    ("plus", (None, False), _PLUS),
    ("time_input", (None, False), _TIME),
    ("unified_pos", (None, False), _POSITION),
    ("act", (None, "gelu"), "a Transolver with another activation than GELU, the only one of ours"),
)
"""Arguments of PhysicsNeMo's constructor, their values that are ours, and what others mean."""


def refuse_others(foreign: Foreign, path: Path) -> None:
    """Raise ValueError where the weights are of a model that ours cannot be."""
    for name, ours, what in _BY_ARGUMENT:
        if foreign.arguments.get(name) not in ours:
            got = printable(f"{name} = {foreign.arguments[name]!r}")
            raise ValueError(f"{path} must be of a Transolver like ours, got {what} ({got})")
    for key, tensor in foreign.tensors.items():
        if re.search(r"Attn\.in_project_(x|fx)\.weight$", key) and tensor.ndim > 2:
            raise ValueError(
                f"{path} must be of a Transolver like ours, got {STRUCTURED} ({printable(key)} has"
                f" {tensor.ndim} axes)"
            )
    for pattern, what in _BY_KEY:
        for key in foreign.tensors:
            if re.match(pattern, key):
                raise ValueError(
                    f"{path} must be of a Transolver like ours, got {what} ({printable(key)})"
                )


def refuse_other_heads(width: int, heads: int, projected: int, head: int, path: Path) -> None:
    """The same where the heads together are not as wide as the stream."""
    if projected != width or head * heads != width:
        raise ValueError(
            f"{path} must be of a Transolver like ours, got {_NARROW}: width {width}, {heads} heads"
            f" of {head}, {projected} in all"
        )
