"""Names and shapes of a model's parameters, stated a second time, independently of the modules.

The constructor compares what it built with this statement, and the audit compares checkpoints with
it. A `no-token-attention` run whose checkpoint has attention maps, or a `frozen-slice` run with two
memberships, does not pass.
"""

from __future__ import annotations

import re

from slipstream.models.variants import Shapes, Size, Variant

_OF_ONE_SLOT = r"blocks\.\d+\.coupling\.(query|slice_slots|deslice_slots)\.|once\.slots\."
_OF_ONE_DESLICE_SLOT = r"blocks\.\d+\.coupling\.deslice_slots\."
_OF_ONE_TOKEN = r"(blocks\.\d+\.coupling\.mix|once\.token_blocks\.\d+\.attention)\.(query|key)\."


def expected_parameters(
    variant: Variant, size: Size, *, coord_dim: int, feature_dim: int, out_dim: int
) -> Shapes:
    """Name and shape of every parameter that a model of this variant and size must have."""
    width = size.width
    shapes = _mlp("lift", coord_dim + feature_dim, 2 * width, width)
    shapes["placeholder"] = (width,)
    if variant.stream == "token-only":
        shapes |= _slots("once.slots", width, size.slices, 1)
        for layer in range(size.layers):
            shapes |= _token_block(f"once.token_blocks.{layer}", size)
    else:
        for layer in range(size.layers):
            shapes |= _block(f"blocks.{layer}", variant, size, layer)
    return shapes | _norm("head_norm", width) | _linear("head", width, out_dim)


def unreached_parameters(variant: Variant, size: Size) -> dict[str, str]:
    """Parameters whose gradient is zero at this size, each with the reason.

    A softmax over a single slot is 1 whatever its logit is. So with one slice the coupling is the
    averaging operator of Proposition 1, and the parameters of the logits have no effect.
    """
    if variant.coupling is not None:
        return {
            f"blocks.{layer}.coupling.{name}": reason
            for layer in range(size.layers)
            for name, reason in variant.declared_unreached(size, layer).items()
        }
    over_points = variant.normalised_over == "points"
    if (size.key_ratio * size.head_width if over_points else size.slices) > 1:
        return {}
    reasons = {
        _OF_ONE_DESLICE_SLOT if over_points else _OF_ONE_SLOT: "weights over a single slot are 1",
        _OF_ONE_TOKEN: "a single token attends to itself alone",
    }
    names = expected_parameters(variant, size, coord_dim=1, feature_dim=0, out_dim=1)
    return {
        name: reason
        for pattern, reason in reasons.items()
        for name in names
        if re.match(pattern, name)
    }


def check_structure(built: Shapes, expected: Shapes, what: str) -> None:
    """Raise ValueError naming the first parameters that are missing, superfluous or misshapen."""
    complaints = [
        *(f"{name} is missing" for name in expected.keys() - built.keys()),
        *(f"{name} does not belong to it" for name in built.keys() - expected.keys()),
        *(
            f"{name} has shape {built[name]} instead of {expected[name]}"
            for name in expected.keys() & built.keys()
            if built[name] != expected[name]
        ),
    ]
    if complaints:
        shown = "; ".join(sorted(complaints)[:4])
        raise ValueError(f"{what} is not what its name says: {shown}")


def _block(prefix: str, variant: Variant, size: Size, layer: int) -> Shapes:
    hidden = size.mlp_ratio * variant.widening * size.width
    shapes = _norm(f"{prefix}.mlp_norm", size.width)
    shapes |= _mlp(f"{prefix}.mlp", size.width, hidden, size.width)
    if variant.stream == "coupled":
        shapes |= _norm(f"{prefix}.coupling_norm", size.width)
        shapes |= _coupling(f"{prefix}.coupling", variant, size, layer)
    return shapes


def _coupling(prefix: str, variant: Variant, size: Size, layer: int) -> Shapes:
    if variant.structure is not None:
        declared = variant.declared_shapes(size, layer)
        return {f"{prefix}.{name}": shape for name, shape in declared.items()}
    if variant.normalised_over == "points":
        return _linear_no_coupling(prefix, size)
    width, head = size.width, size.head_width
    shapes = _linear(f"{prefix}.values", width, width) | _linear(f"{prefix}.output", width, width)
    if variant.slicing == "each-layer" or layer == 0:
        shapes |= _linear(f"{prefix}.query", width, width)
        shapes |= _slots(f"{prefix}.slice_slots", head, size.slices, size.heads)
    if variant.deslice == "own":
        shapes |= _slots(f"{prefix}.deslice_slots", head, size.slices, size.heads)
    for name in ("query", "key", "value") if variant.mix == "attention" else ("value",):
        shapes[f"{prefix}.mix.{name}.weight"] = (head, head)
    return shapes


def _linear_no_coupling(prefix: str, size: Size) -> Shapes:
    width, head, slices = size.width, size.head_width, size.key_ratio * size.head_width
    shapes = _linear(f"{prefix}.query", width, width)
    for name in ("slice_slots", "deslice_slots"):
        shapes |= _slots(f"{prefix}.{name}", head, slices, size.heads, bias=False)
    shapes[f"{prefix}.value.weight"] = (head, head)
    return shapes | _mlp(f"{prefix}.output", width, width, width)


def _token_block(prefix: str, size: Size) -> Shapes:
    width = size.width
    shapes = _norm(f"{prefix}.attention_norm", width) | _norm(f"{prefix}.mlp_norm", width)
    for name in ("query", "key", "value", "output"):
        shapes |= _linear(f"{prefix}.attention.{name}", width, width)
    del shapes[f"{prefix}.attention.key.bias"]
    return shapes | _mlp(f"{prefix}.mlp", width, size.mlp_ratio * width, width)


def _slots(prefix: str, width: int, slices: int, heads: int, *, bias: bool = True) -> Shapes:
    shapes: Shapes = {f"{prefix}.weight": (slices, width), f"{prefix}.temperature": (heads,)}
    return shapes | ({f"{prefix}.bias": (slices,)} if bias else {})


def _mlp(prefix: str, inputs: int, hidden: int, outputs: int) -> Shapes:
    return _linear(f"{prefix}.expand", inputs, hidden) | _linear(
        f"{prefix}.contract", hidden, outputs
    )


def _linear(prefix: str, inputs: int, outputs: int) -> Shapes:
    return {f"{prefix}.weight": (outputs, inputs), f"{prefix}.bias": (outputs,)}


def _norm(prefix: str, width: int) -> Shapes:
    return {f"{prefix}.weight": (width,), f"{prefix}.bias": (width,)}
