"""The names of the released LinearNO layer in the Transolver scaffold; the spelling is theirs."""

from __future__ import annotations

from slipstream.interop.names import Naming, Row
from slipstream.interop.thuml import LIFTED, SCAFFOLD, TEMPERATURE

_OURS, _THEIRS = "blocks.{i}.coupling.", "blocks.{i}.Attn."
LINEAR_NO = Naming(
    "linearno",
    (
        *SCAFFOLD,
        Row(f"{_OURS}query.", f"{_THEIRS}in_project_x."),
        Row(f"{_OURS}slice_slots.temperature", f"{_THEIRS}tempreature_k", axes=TEMPERATURE),
        Row(f"{_OURS}slice_slots.", f"{_THEIRS}to_k."),
        Row(f"{_OURS}deslice_slots.temperature", f"{_THEIRS}tempreature_q", axes=TEMPERATURE),
        Row(f"{_OURS}deslice_slots.", f"{_THEIRS}to_q."),
        Row(f"{_OURS}value.", f"{_THEIRS}to_v."),
        Row(f"{_OURS}output.expand.", f"{_THEIRS}to_out.0."),
        Row(f"{_OURS}output.contract.", f"{_THEIRS}to_out.2."),
    ),
    (LIFTED, r"blocks\.\d+\.Attn\.tempreature_k"),
    variants=("untied-ln",),
)
