"""The names and constants of NVIDIA PhysicsNeMo's Transolver, irregular meshes, 1.2 to 2.2.2.

It adds 1e-2 to the mass and clamps temperatures to [0.5, 5]. Release 1.2 attends causally over the
slots; so does every release with Transformer Engine (use_te=True), whose MLPs in the layers also
have the tanh form of GELU. There is no placeholder.
"""

from __future__ import annotations

from slipstream.interop.names import Naming, Row
from slipstream.interop.thuml import SLICES
from slipstream.models.constants import Constants

CONSTANTS = Constants(epsilon=1e-2, temperatures=(0.5, 5.0))
CAUSAL = Constants(epsilon=1e-2, temperatures=(0.5, 5.0), causal=True)
ENGINE = Constants(epsilon=1e-2, temperatures=(0.5, 5.0), causal=True, activation="gelu-tanh")


def _rows(
    lift: tuple[str, str], norm: str, mlp: tuple[str, str], head: tuple[str, str], late: bool
) -> tuple[Row, ...]:
    """The rows of a generation; `late` ones have temperatures of (1, 1, H, 1)."""
    attention, qkv = "blocks.{i}.Attn.", "blocks.{i}.Attn.qkv_project."
    axes = (1, 1, -1, 1) if late else (1, -1, 1, 1)
    return (
        Row("lift.expand.", lift[0]),
        Row("lift.contract.", lift[1]),
        Row("blocks.{i}.coupling_norm.", "blocks.{i}.ln_1."),
        *SLICES,
        Row("blocks.{i}.coupling.slice_slots.temperature", f"{attention}temperature", axes=axes),
        Row("blocks.{i}.coupling.slice_slots.", f"{attention}in_project_slice."),
        Row("blocks.{i}.coupling.mix.query.", qkv, 0, 3),
        Row("blocks.{i}.coupling.mix.key.", qkv, 1, 3),
        Row("blocks.{i}.coupling.mix.value.", qkv, 2, 3),
        Row("blocks.{i}.coupling.output.", f"{attention}out_linear."),
        Row("blocks.{i}.mlp_norm.", norm),
        Row("blocks.{i}.mlp.expand.", mlp[0]),
        Row("blocks.{i}.mlp.contract.", mlp[1]),
        Row("head_norm.", head[0]),
        Row("head.", head[1]),
    )


_NEW_LIFT = ("preprocess.layers.0.", "preprocess.layers.2.")
_OLD_LIFT = ("preprocess.linear_pre.", "preprocess.linear_post.")
_MLP = "blocks.{i}.ln_mlp1."
_NEW_MLP = (f"{_MLP}1.layers.0.", f"{_MLP}1.layers.2.")
_OLD_MLP = (f"{_MLP}1.linear_pre.", f"{_MLP}1.linear_post.")
_ENGINE_MLP = (f"{_MLP}fc1_", f"{_MLP}fc2_")
_HEAD = ("blocks.{last}.ln_mlp2.0.", "blocks.{last}.ln_mlp2.1.")
_ENGINE_HEAD = ("blocks.{last}.ln_mlp2.layer_norm_", "blocks.{last}.ln_mlp2.")
_QKV = r"blocks\.\d+\.Attn\.qkv_project\."
_NEW, _OLD = r"preprocess\.layers\.0\.", r"preprocess\.linear_pre\.(weight|bias)"
_PLAIN, _BY_ENGINE = r"blocks\.\d+\.ln_mlp1\.0\.", r"blocks\.\d+\.ln_mlp1\.layer_norm_"


def _naming(
    generation: str, rows: tuple[Row, ...], signs: tuple[str, ...], constants: Constants
) -> Naming:
    return Naming(
        "physicsnemo", rows, signs, generation, constants=constants, has_placeholder=False
    )


NEWEST = _naming(
    "2.0 and later",
    _rows(_NEW_LIFT, f"{_MLP}0.", _NEW_MLP, _HEAD, True),
    (_QKV, _NEW, _PLAIN),
    CONSTANTS,
)
NEWEST_ENGINE = _naming(
    "2.0 and later, use_te",
    _rows(_NEW_LIFT, f"{_MLP}layer_norm_", _ENGINE_MLP, _ENGINE_HEAD, True),
    (_QKV, _NEW, _BY_ENGINE),
    ENGINE,
)
THIRD = _naming(
    "1.3",
    _rows(_OLD_LIFT, f"{_MLP}0.", _OLD_MLP, _HEAD, True),
    (_QKV, _OLD, _PLAIN),
    CONSTANTS,
)
THIRD_ENGINE = _naming(
    "1.3, use_te",
    _rows(_OLD_LIFT, f"{_MLP}layer_norm_", _ENGINE_MLP, _ENGINE_HEAD, True),
    (_QKV, _OLD, _BY_ENGINE),
    ENGINE,
)
SECOND = _naming(
    "1.2",
    _rows(_OLD_LIFT, f"{_MLP}0.", _OLD_MLP, _HEAD, False),
    (_QKV, _OLD, _PLAIN),
    CAUSAL,
)
PHYSICSNEMO = (NEWEST, NEWEST_ENGINE, THIRD, THIRD_ENGINE, SECOND)
