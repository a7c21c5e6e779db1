"""The names of flashslice 0.3.0: thuml's, and those of its ablations.

`no-token-attention` and `frozen-slice` have exactly the baseline's keys: which one a file is of
cannot be seen. The constants are ours.
"""

from __future__ import annotations

from slipstream.interop.names import Dead, Naming, Row
from slipstream.interop.thuml import ATTENTION, LIFTED, SCAFFOLD, TEMPERATURE
from slipstream.models.variants import Shapes, Size

UNTIED = (
    Row(
        "blocks.{i}.coupling.deslice_slots.temperature",
        "blocks.{i}.Attn.deslice_temperature",
        axes=TEMPERATURE,
    ),
    Row("blocks.{i}.coupling.deslice_slots.", "blocks.{i}.Attn.in_project_deslice."),
)
_TOKENS = "once.token_blocks.{i}."
ONCE = (
    Row("once.slots.temperature", "slice_temperature", axes=()),
    Row("once.slots.", "slice_proj."),
    Row(f"{_TOKENS}attention_norm.", "token_blocks.{i}.ln_1."),
    Row(f"{_TOKENS}mlp_norm.", "token_blocks.{i}.ln_2."),
    Row(f"{_TOKENS}attention.query.", "token_blocks.{i}.attn.in_proj_", 0, 3),
    Row(f"{_TOKENS}attention.key.", "token_blocks.{i}.attn.in_proj_", 1, 3),
    Row(f"{_TOKENS}attention.value.", "token_blocks.{i}.attn.in_proj_", 2, 3),
    Row(f"{_TOKENS}attention.output.", "token_blocks.{i}.attn.out_proj."),
    Row(f"{_TOKENS}mlp.expand.", "token_blocks.{i}.mlp.linear_pre.0."),
    Row(f"{_TOKENS}mlp.contract.", "token_blocks.{i}.mlp.linear_post."),
    Row("head_norm.", "out_norm."),
    Row("head.", "out_head."),
)


def _token_maps(size: Size) -> Shapes:
    width = size.head_width
    return {
        f"blocks.{layer}.Attn.to_{role}.weight": (width, width)
        for layer in range(size.layers)
        for role in "qk"
    }


def _later_slices(size: Size) -> Shapes:
    shapes: Shapes = {}
    for layer in range(1, size.layers):
        prefix = f"blocks.{layer}.Attn"
        shapes[f"{prefix}.temperature"] = (1, size.heads, 1, 1)
        shapes[f"{prefix}.in_project_x.weight"] = (size.width, size.width)
        shapes[f"{prefix}.in_project_x.bias"] = (size.width,)
        shapes[f"{prefix}.in_project_slice.weight"] = (size.slices, size.head_width)
        shapes[f"{prefix}.in_project_slice.bias"] = (size.slices,)
    return shapes


def _coupling_norms(size: Size) -> Shapes:
    return {
        f"blocks.{layer}.ln_1.{what}": (size.width,)
        for layer in range(size.layers)
        for what in ("weight", "bias")
    }


_LATER = r"blocks\.(?!0\.)\d+\.Attn\.(temperature|in_project_(x|slice)\.(weight|bias))"
_POINTWISE = (
    Dead(r"blocks\.\d+\.ln_1\.(weight|bias)", "no coupling to be normed", _coupling_norms),
)
FLASHSLICE = Naming(
    "flashslice",
    (*SCAFFOLD, *ATTENTION, *UNTIED),
    (LIFTED, r"blocks\.\d+\."),
    variants=(
        "baseline",
        "no-token-attention",
        "untied",
        "frozen-slice",
        "mlp-only",
        "mlp-only-wide",
    ),
    dead={
        "no-token-attention": (
            Dead(r"blocks\.\d+\.Attn\.to_[qk]\.weight", "no token attention", _token_maps),
        ),
        "frozen-slice": (Dead(_LATER, "layers slice by the first one's slots", _later_slices),),
        "mlp-only": _POINTWISE,
        "mlp-only-wide": _POINTWISE,
    },
)
FLASHSLICE_ONCE = Naming(
    "flashslice",
    (*(row for row in SCAFFOLD if not row.ours.startswith(("head", "blocks"))), *ONCE),
    (LIFTED, r"token_blocks\.\d+\."),
    generation="slice-once",
    variants=("slice-once",),
)
