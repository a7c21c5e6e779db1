"""The forward of a physics attention of another package, by our kernels and on its parameters.

The parameters keep the names that their package gave them. Two layouts are known: `split`, with
`to_q`, `to_k`, `to_v` and `to_out` (thuml/Transolver, Neural-Solver-Library, flashslice), and
`joined`, with `qkv_project` and `out_linear` (NVIDIA PhysicsNeMo).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels import chunked_ops
from slipstream.kernels.api import couple, deslice_tokens, slice_points
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.plan import How, Impl
from slipstream.models.folding import are_plain, can_fold, fold_slots, fold_sums, fold_tokens
from slipstream.models.layers import attend, split_heads

Layout = Literal["split", "joined"]
Clamp = tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What a physics attention computes, apart from its parameters."""

    layout: Layout
    width: int
    """Of the stream, C."""
    heads: int
    head_width: int
    slices: int
    untied: bool = False
    """Whether deslice has slots of its own."""
    mixes: bool = True
    """Whether the tokens attend to each other; else each is mapped by itself."""
    returns_pair: bool = False
    """Whether the forward returns the slice weights too; ours returns None in their place."""
    epsilon: float = 1e-5
    """Added to the mass of a slot before dividing."""
    clamp: Clamp = None
    """The range to which the temperatures are clamped."""
    impl: Impl = "auto"
    precision: str | None = None

    @property
    def how(self) -> How:
        return {"impl": self.impl, "precision": self.precision}


def physics_attention(
    attention: Attention, module: Any, x: Float[Tensor, "B N C"]
) -> Float[Tensor, "B N C"]:
    """What the module's own forward returns for x, without the slice weights.

    Dropout inside the attention, and after the output, is drawn as the module's own forward does.
    """
    if _folds(attention, module, x):
        update = _folded_update(attention, module, x)
        return _after_output(attention, module)(update)
    query = split_heads(module.in_project_x(x), attention.heads)
    slicing = Membership(query, *_slots(attention, module, "slice"))
    values = split_heads(module.in_project_fx(x), attention.heads)

    def mix(tokens: Tensor) -> Tensor:
        return mixed(attention, module, tokens)

    if attention.untied:
        sums = slice_points(slicing, values, **attention.how)
        deslicing = Membership(query, *_slots(attention, module, "deslice"))
        update = deslice_tokens(deslicing, mix(sums.tokens(attention.epsilon)), **attention.how)
    else:
        update = couple(slicing, values, mix, epsilon=attention.epsilon, **attention.how)
    return _after_output(attention, module)(_output(attention, module)(update.flatten(-2)))


def mixed(
    attention: Attention, module: Any, tokens: Float[Tensor, "B H G D"]
) -> Float[Tensor, "B H G D"]:
    """The tokens after the module's attention among them, or after its linear map."""
    if attention.layout == "joined":
        query, key, value = module.qkv_project(tokens).chunk(3, -1)
        return attend(query, key, value)
    out = module.to_v(tokens)
    if attention.mixes:
        scores = module.to_q(tokens) @ module.to_k(tokens).transpose(-1, -2) * module.scale
        out = module.dropout(scores.softmax(-1)) @ out
    return module.slice_down(out) if hasattr(module, "slice_down") else out


def _folds(attention: Attention, module: Any, x: Tensor) -> bool:
    """Whether the products of `models.folding` give the same here with less work."""
    slices, narrow = attention.slices, attention.slices <= attention.head_width
    if not narrow or not can_fold(x, attention.heads, slices, attention.how):
        return False
    own = [module.in_project_x, module.in_project_fx, module.in_project_slice]
    own += [module.in_project_deslice] if attention.untied else []
    return are_plain(*own, _output(attention, module))


def _folded_update(
    attention: Attention, module: Any, x: Float[Tensor, "B N C"]
) -> Float[Tensor, "B N C"]:
    output = _output(attention, module)

    def membership(kind: str) -> Membership:
        weight, bias, temperature = _slots(attention, module, kind)
        folded = fold_slots(module.in_project_x, weight, bias, attention.heads)
        return Membership(x[:, :, None], *folded, temperature)

    def mix(sums: TokenSums) -> Tensor:
        tokens = fold_sums(module.in_project_fx, sums).tokens(attention.epsilon)
        return fold_tokens(output, mixed(attention, module, tokens))

    slicing = membership("slice")
    if attention.untied:
        tokens = mix(chunked_ops.slice_points(slicing, None))
        update = chunked_ops.deslice_tokens(membership("deslice"), tokens, summed=True)
    else:
        update = chunked_ops.couple(slicing, None, mix, summed=True)
    return update.squeeze(2)


def _slots(attention: Attention, module: Any, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Weight, bias and temperatures (H) of the slots for slice or deslice."""
    slots = getattr(module, f"in_project_{kind}")
    prefix = "deslice_" if kind == "deslice" else ""
    temperature = getattr(module, f"{prefix}temperature").flatten()
    if attention.clamp is not None:
        temperature = temperature.clamp(*attention.clamp)
    return slots.weight, slots.bias, temperature


def _output(attention: Attention, module: Any) -> nn.Linear:
    return module.out_linear if attention.layout == "joined" else module.to_out[0]


def _after_output(attention: Attention, module: Any) -> nn.Module:
    """The dropout that follows the output."""
    return module.out_dropout if attention.layout == "joined" else module.to_out[1]
