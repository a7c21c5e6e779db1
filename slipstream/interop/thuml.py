"""The names of thuml/Transolver on irregular meshes, and of Neural-Solver-Library.

Their temperatures are (1, H, 1, 1). The constants are ours.
"""

from __future__ import annotations

from slipstream.interop.names import Dead, Naming, Row

TEMPERATURE = (1, -1, 1, 1)
SCAFFOLD = (
    Row("lift.expand.", "preprocess.linear_pre.0."),
    Row("lift.contract.", "preprocess.linear_post."),
    Row("placeholder", "placeholder"),
    Row("blocks.{i}.coupling_norm.", "blocks.{i}.ln_1."),
    Row("blocks.{i}.mlp_norm.", "blocks.{i}.ln_2."),
    Row("blocks.{i}.mlp.expand.", "blocks.{i}.mlp.linear_pre.0."),
    Row("blocks.{i}.mlp.contract.", "blocks.{i}.mlp.linear_post."),
    Row("head_norm.", "blocks.{last}.ln_3."),
    Row("head.", "blocks.{last}.mlp2."),
)
"""All but the couplings, which flashslice and LinearNO share."""
SLICES = (
    Row("blocks.{i}.coupling.query.", "blocks.{i}.Attn.in_project_x."),
    Row("blocks.{i}.coupling.values.", "blocks.{i}.Attn.in_project_fx."),
)
ATTENTION = (
    *SLICES,
    Row(
        "blocks.{i}.coupling.slice_slots.temperature",
        "blocks.{i}.Attn.temperature",
        axes=TEMPERATURE,
    ),
    Row("blocks.{i}.coupling.slice_slots.", "blocks.{i}.Attn.in_project_slice."),
    Row("blocks.{i}.coupling.mix.query.", "blocks.{i}.Attn.to_q."),
    Row("blocks.{i}.coupling.mix.key.", "blocks.{i}.Attn.to_k."),
    Row("blocks.{i}.coupling.mix.value.", "blocks.{i}.Attn.to_v."),
    Row("blocks.{i}.coupling.output.", "blocks.{i}.Attn.to_out.0."),
)
LIFTED = r"preprocess\.linear_pre\.0\."

THUML = Naming(
    "thuml",
    (*SCAFFOLD, *ATTENTION),
    (LIFTED, r"blocks\.\d+\.Attn\.to_v\."),
    dead={
        "": (Dead(r"blocks\.\d+\.mlp_new\..*", "AirfRANS: a second MLP that is never called"),),
    },
)
