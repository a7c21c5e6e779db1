"""The chunked family as PyTorch operators, and as functions of a Membership.

`slice` and `deslice` by themselves; `pair_slice` and `pair_deslice` compute the same, for a slice
and a deslice with one membership: one pass gives the gradients of both. Values may be None: then
the query serves as the values too, and its gradient is that of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slipstream.kernels import chunked
from slipstream.kernels.chunked import Slotted
from slipstream.kernels.membership import MASKED, Axis, Membership, TokenSums
from slipstream.kernels.operator import operator

# --- operators -----------------------------------------------------------------------------------


def _slice_shapes(query, values, weight, bias, kept, over, keep):  # type: ignore[no-untyped-def]
    mass = weight.new_empty(query.shape[0], *weight.shape[1:3])
    numerator = mass.new_empty(*mass.shape, (query if values is None else values).shape[-1])
    log_normalizer = mass.new_empty(mass.shape if over == "points" else 0)
    return numerator, mass, log_normalizer, _room(query, weight, keep)


def _room(query: Tensor, weight: Tensor, keep: bool) -> Tensor:
    """For the weights that a slice keeps; nothing where it keeps none."""
    return weight.new_empty((*query.shape[:2], *weight.shape[1:3]) if keep else (0,))


@operator("slipstream::chunked_slice", _slice_shapes)
def slice_op(
    query: Tensor,
    values: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    kept: Tensor | None,
    over: str,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Numerator, mass, log normaliser (empty over the slots), weights (empty unless kept)."""
    rows = query if values is None else values
    slotted = Slotted(query, weight, bias, _axis(over), kept)
    room = _room(query, weight, keep)
    if over == "points":
        numerator, log_normalizer = chunked.slice_over_points(slotted, rows)
        mass = torch.full_like(log_normalizer, 1 if query.shape[1] else 0)
        return numerator, mass, log_normalizer, room
    numerator, mass = chunked.slice_points(slotted, rows, room if keep else None)
    return numerator, mass, mass.new_empty(0), room


def _pair_slice_shapes(query, values, weight, bias, keep, summed):  # type: ignore[no-untyped-def]
    numerator, mass, _, kept = _slice_shapes(query, values, weight, bias, None, "slots", keep)  # type: ignore[no-untyped-call]
    return numerator, mass, kept, *_carriers(query, numerator, summed)


@operator("slipstream::chunked_pair_slice", _pair_slice_shapes)
def pair_slice(
    query: Tensor,
    values: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    keep: bool,
    summed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Numerator, mass, weights (empty unless kept), and two carriers for `pair_deslice`.

    A carrier holds nothing. Its gradient brings back what the backward pass of this operator needs
    to compute the gradients of slice and deslice at once: the gradient of the deslice's output, and
    its tokens.
    """
    room = _room(query, weight, keep)
    rows = query if values is None else values
    kept = room if keep else None
    numerator, mass = chunked.slice_points(Slotted(query, weight, bias), rows, kept)
    return numerator, mass, room, *_carriers(query, numerator, summed)


def _carriers(query: Tensor, numerator: Tensor, summed: bool) -> tuple[Tensor, Tensor]:
    """Of the shapes of the deslice's output and tokens, in the memory of one number each."""
    heads, width = numerator.shape[1], numerator.shape[-1]
    shape = (*query.shape[:2], 1 if summed else heads, width)
    return query.new_zeros(1).expand(shape), numerator.new_zeros(1).expand(numerator.shape)


def _deslice_shapes(tokens, query, weight, bias, kept, over, summed):  # type: ignore[no-untyped-def]
    out = _output(query, tokens, summed)
    return out, weight.new_empty(tokens.shape[:3] if over == "points" else 0)


def _output(query: Tensor, tokens: Tensor, summed: bool) -> Tensor:
    heads = 1 if summed else tokens.shape[1]
    return query.new_empty(*query.shape[:2], heads, tokens.shape[-1])


@operator("slipstream::chunked_deslice", _deslice_shapes)
def deslice_op(
    tokens: Tensor,
    query: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    kept: Tensor | None,
    over: str,
    summed: bool,
) -> tuple[Tensor, Tensor]:
    """The output, and the log normaliser of weights over the points (else empty)."""
    out, empty = _output(query, tokens, summed), weight.new_empty(0)
    if over == "points":
        slotted = Slotted(query, weight, bias, "points")
        _, empty = chunked.slice_over_points(slotted, None)
    normalizer = empty if over == "points" else None
    slotted = Slotted(query, weight, bias, _axis(over), kept, normalizer)
    return chunked.deslice_tokens(slotted, tokens, out), empty


def _pair_deslice_shape(tokens, output_carrier, tokens_carrier, query, *rest):  # type: ignore[no-untyped-def]
    return query.new_empty(output_carrier.shape)


@operator("slipstream::chunked_pair_deslice", _pair_deslice_shape)
def pair_deslice(
    tokens: Tensor,
    output_carrier: Tensor,
    tokens_carrier: Tensor,
    query: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    kept: Tensor | None,
) -> Tensor:
    """The output. Only the tokens get their gradient here, the rest theirs from `pair_slice`."""
    out = query.new_empty(output_carrier.shape)
    return chunked.deslice_tokens(Slotted(query, weight, bias, kept=kept), tokens, out)


def _backward_shapes(  # type: ignore[no-untyped-def]
    query, rows, tokens, shift, output_gradient, output_tokens, weight, bias, *rest
):
    *_, of_rows = rest
    of_bias = weight.new_empty(weight.shape[:3] if bias is None else bias.shape)
    rows_gradient = query.new_empty(rows.shape if of_rows else 0)
    return torch.empty_like(query), rows_gradient, torch.empty_like(weight), of_bias


@operator("slipstream::chunked_backward", _backward_shapes)
def backward_op(
    query: Tensor,
    rows: Tensor | None,
    tokens: Tensor,
    shift: Tensor | None,
    output_gradient: Tensor | None,
    output_tokens: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    kept: Tensor | None,
    log_normalizer: Tensor | None,
    mass: Tensor | None,
    over: str,
    of_rows: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of query, rows (empty unless wanted), slot weight, slot bias.

    rows and tokens: values (None: the query) and the gradient of the numerator; of a deslice alone
    the output's gradient and its tokens. output_gradient and output_tokens: of the deslice of a
    pair.
    """
    slotted = Slotted(query, weight, bias, _axis(over), kept, log_normalizer)
    terms = [(query if rows is None else rows, tokens)]
    if output_gradient is not None and output_tokens is not None:
        terms.append((output_gradient, output_tokens))
    room = query.new_empty(rows.shape) if of_rows and rows is not None else None
    gradients = chunked.backward(slotted, terms, shift, room, mass)
    of_values = query.new_empty(0) if gradients.rows is None else gradients.rows
    return gradients.query, of_values, gradients.weight, gradients.bias


def _axis(over: str) -> Axis:
    return "points" if over == "points" else "slots"


# --- gradients -----------------------------------------------------------------------------------


def _or_none(tensor: Tensor) -> Tensor | None:
    return tensor if tensor.numel() else None


def _save_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    query, values, weight, bias, given, over, keep = inputs
    numerator, mass, log_normalizer, kept = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(kept)
    over_points = over == "points"
    ctx.save_for_backward(
        query, values, weight, bias, kept if keep else given, mass,
        log_normalizer if over_points else None, numerator if over_points else None,
    )  # fmt: skip
    ctx.over = over


def _slice_gradients(
    ctx: Any,
    of_numerator: Tensor | None,
    of_mass: Tensor | None,
    of_normalizer: Tensor | None,
    _: Tensor | None,
) -> tuple[Tensor | None, ...]:
    query, values, weight, bias, kept, mass, log_normalizer, numerator = ctx.saved_tensors
    if of_numerator is None:
        width = (query if values is None else values).shape[-1]
        of_numerator = weight.new_zeros(query.shape[0], *weight.shape[1:3], width)
    shift = of_mass
    if numerator is not None:
        # The mass is one whatever happens; a weight changes all weights of its slot.
        shift = -(numerator * of_numerator).sum(-1)
        shift = shift if of_normalizer is None else shift + of_normalizer
    gradients = backward_op(
        query, values, of_numerator, shift, None, None, weight, bias, kept, log_normalizer, mass,
        ctx.over, values is not None,
    )  # fmt: skip
    return *_as_inputs(gradients, values, bias), None, None, None


def _as_inputs(
    gradients: tuple[Tensor, ...], values: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    of_query, of_values, of_weight, of_bias = gradients
    return (
        of_query,
        None if values is None else of_values,
        of_weight,
        None if bias is None else of_bias,
    )


def _save_pair_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    query, values, weight, bias, keep, _ = inputs
    numerator, mass, kept, *_ = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(kept)
    ctx.save_for_backward(query, values, weight, bias, kept if keep else None, mass)
    ctx.shape = numerator.shape


def _pair_slice_gradients(
    ctx: Any,
    of_numerator: Tensor | None,
    of_mass: Tensor | None,
    _: Tensor | None,
    of_output: Tensor | None,
    output_tokens: Tensor | None,
) -> tuple[Tensor | None, ...]:
    query, values, weight, bias, kept, mass = ctx.saved_tensors
    if of_numerator is None:
        of_numerator = weight.new_zeros(ctx.shape)
    gradients = backward_op(
        query, values, of_numerator, of_mass, of_output, output_tokens, weight, bias, kept, None,
        mass, "slots", values is not None,
    )  # fmt: skip
    return *_as_inputs(gradients, values, bias), None, None


def _save_deslice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tokens, query, weight, bias, kept, over, _ = inputs
    log_normalizer = output[1]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(log_normalizer)
    ctx.save_for_backward(
        tokens, query, weight, bias, kept, log_normalizer if over == "points" else None
    )
    ctx.over = over


def _deslice_gradients(ctx: Any, of_output: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    tokens, query, weight, bias, kept, log_normalizer = ctx.saved_tensors
    if of_output is None:
        return (None,) * 7
    of_tokens, *_ = slice_op(query, of_output, weight, bias, kept, ctx.over, False)
    shift = -(tokens * of_tokens).sum(-1) if ctx.over == "points" else None
    gradients = backward_op(
        query, of_output, tokens, shift, None, None, weight, bias, kept, log_normalizer, None,
        ctx.over, False,
    )  # fmt: skip
    of_query, _, of_weight, of_bias = gradients
    of_tokens = of_tokens.to(tokens.dtype)
    return of_tokens, of_query, of_weight, None if bias is None else of_bias, None, None, None


def _save_pair_deslice(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tokens, _, _, *rest = inputs
    ctx.save_for_backward(tokens, *rest)


def _pair_deslice_gradients(ctx: Any, of_output: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the tokens is a slice of that of the output; the carriers take the rest."""
    tokens, query, weight, bias, kept = ctx.saved_tensors
    of_tokens, *_ = slice_op(query, of_output, weight, bias, kept, "slots", False)
    return of_tokens.to(tokens.dtype), of_output, tokens.to(weight.dtype), *(None,) * 4


slice_op.set_gradients(_save_slice, _slice_gradients)
deslice_op.set_gradients(_save_deslice, _deslice_gradients)
pair_slice.set_gradients(_save_pair_slice, _pair_slice_gradients)
pair_deslice.set_gradients(_save_pair_deslice, _pair_deslice_gradients)


# --- of memberships ------------------------------------------------------------------------------


def slice_points(membership: Membership, values: Tensor | None) -> TokenSums:
    """Values (B, N, H or 1, V), or None for the query itself; numerators have all H heads."""
    slots = _scaled_slots(membership)
    numerator, mass, log_normalizer, _ = slice_op(
        membership.query, values, *slots, None, membership.over, False
    )
    return TokenSums(numerator, mass, _or_none(log_normalizer))


def deslice_tokens(membership: Membership, tokens: Tensor, *, summed: bool = False) -> Tensor:
    """(B, N, H, V), or (B, N, 1, V) for the sum over the heads."""
    slots = _scaled_slots(membership)
    return deslice_op(tokens, membership.query, *slots, None, membership.over, summed)[0]


def couple(
    membership: Membership,
    values: Tensor | None,
    mix: Callable[[TokenSums], Tensor],
    *,
    summed: bool = False,
) -> Tensor:
    """Slice, mix and deslice by one membership over the slots; `mix` makes tokens of the sums."""
    query, slots = membership.query, _scaled_slots(membership)
    keep = _is_small(slots[0], query)
    if torch.is_grad_enabled():
        numerator, mass, kept, *carriers = pair_slice(query, values, *slots, keep, summed)
    else:
        numerator, mass, _, kept = slice_op(query, values, *slots, None, "slots", keep)
    del values  # as large as the stream, and not needed any more unless for gradients
    tokens, weights = mix(TokenSums(numerator, mass)), kept if keep else None
    if torch.is_grad_enabled():
        return pair_deslice(tokens, *carriers, query, *slots, weights)
    return deslice_op(tokens, query, *slots, weights, "slots", summed)[0]


def _is_small(weight: Tensor, query: Tensor) -> bool:
    """Whether the weights of a point are no more numbers than its query."""
    _, heads, slices, _ = weight.shape
    return heads * slices <= query.shape[2] * query.shape[3]


def _scaled_slots(membership: Membership) -> tuple[Tensor, Tensor | None]:
    """Slot weight (B or 1, H, G, D) and bias divided by the temperature, fp32 at least.

    Autograd sees this, so that the gradients of the layouts and of the temperature follow from
    those of the scaled slots, in the space of the parameters. Over the slots, what all slots of a
    head have in common moves no weight; it is taken off, which leaves less to cancel in the
    temperature's gradient.
    """
    dtype = torch.promote_types(membership.query.dtype, torch.float32)
    temperature = membership.temperature.to(dtype)[:, None]
    weight = membership.slot_weight.to(dtype) / temperature[..., None]
    if membership.over == "slots":
        weight = weight - weight.mean(-2, keepdim=True)
    bias = membership.slot_bias
    if bias is not None:
        # Minus infinity would leave zero times infinity in the temperature's gradient.
        bias = bias.to(dtype).clamp(min=MASKED) / temperature
        bias = bias if bias.ndim == 3 else bias[None]
    return weight if weight.ndim == 4 else weight[None], bias
