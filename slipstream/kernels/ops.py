"""The kernels as PyTorch operators: schemas, shapes for the compiler, and gradients.

`slice` and `deslice` are what `api` calls; each has a backward operator. `pair_slice` and
`pair_deslice` compute the same, for a slice and a deslice with one membership: their gradients come
from one kernel. Statistics go in and come out as plain tensors without a gradient. All run wherever
Triton does: on CUDA, or on the CPU under its interpreter.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slipstream.kernels import launch
from slipstream.kernels.launch import Backward, Gradients, Operands


@torch.library.custom_op("slipstream::statistics", mutates_args=())
def statistics(
    query: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    precision: str,
) -> Tensor:
    """(2, B, H, N): largest logit and sum of exponentials; none where the family needs none."""
    return launch.statistics(Operands.of(query, slot_weight, slot_bias, temperature, precision))


@statistics.register_fake
def _(query, slot_weight, slot_bias, temperature, precision):  # type: ignore[no-untyped-def]
    batch, points = query.shape[:2]
    return query.new_empty(2, batch, temperature.shape[0], points, dtype=torch.float32)


@torch.library.custom_op("slipstream::slice", mutates_args=())
def slice_op(
    query: Tensor,
    values: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
    over: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Numerator and mass, and the log normaliser (empty for weights over the slots); all fp32."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if over == "points":
        numerator, log_normalizer = launch.slice_over_points(o, values)
        return numerator, torch.ones_like(log_normalizer), log_normalizer
    if family == "single-tile":
        numerator, mass = launch.slice_single_tile(o, values)
    else:
        numerator, mass = launch.slice_blocked(o, values, _given(stats))
    return numerator, mass, mass.new_empty(0)


@slice_op.register_fake
def _(query, values, slot_weight, slot_bias, temperature, stats, precision, family, over):  # type: ignore[no-untyped-def]
    batch, _, heads, width = values.shape
    mass = query.new_empty(batch, heads, slot_weight.shape[-2], dtype=torch.float32)
    last = torch.empty_like(mass) if over == "points" else mass.new_empty(0)
    return mass.new_empty(*mass.shape, width), mass, last


@torch.library.custom_op("slipstream::slice_backward", mutates_args=())
def slice_backward(
    numerator_gradient: Tensor,
    shift: Tensor,
    query: Tensor,
    values: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    log_normalizer: Tensor,
    precision: str,
    family: str,
    over: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    of = Backward.of_slice(values, numerator_gradient, shift)
    if over == "points":
        return launch.backward_blocked(o, of, log_normalizer)
    return _backward(o, of, stats, family)


@slice_backward.register_fake
def _(numerator_gradient, shift, query, values, slot_weight, slot_bias, temperature, *rest):  # type: ignore[no-untyped-def]
    return (
        torch.empty_like(query, memory_format=torch.contiguous_format),
        torch.empty_like(values, memory_format=torch.contiguous_format),
        *_fake_parameter_gradients(slot_weight, slot_bias, temperature),
    )


@torch.library.custom_op("slipstream::deslice", mutates_args=())
def deslice_op(
    query: Tensor,
    tokens: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor]:
    """The output, and the statistics found on the way (empty where none were looked for)."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if family == "single-tile":
        return launch.deslice_single_tile(o, tokens), o.buffer(0)
    out, found = launch.deslice_blocked(o, tokens, stats)
    return out, found if stats is None else o.buffer(0)


@deslice_op.register_fake
def _(query, tokens, slot_weight, slot_bias, temperature, stats, precision, family):  # type: ignore[no-untyped-def]
    batch, points = query.shape[:2]
    heads, width = temperature.shape[0], tokens.shape[-1]
    out = query.new_empty(batch, points, heads, width)
    online = family == "blocked" and stats is None
    shape = (2, batch, heads, points) if online else (0,)
    return out, query.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("slipstream::deslice_backward", mutates_args=())
def deslice_backward(
    gradient: Tensor,
    query: Tensor,
    tokens: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    found = _backward(o, Backward.of_deslice(gradient, tokens), stats, family)
    of_query, of_tokens, of_weight, of_bias, of_temperature = found
    return of_query, of_tokens.to(tokens.dtype), of_weight, of_bias, of_temperature


@deslice_backward.register_fake
def _(gradient, query, tokens, slot_weight, slot_bias, temperature, *rest):  # type: ignore[no-untyped-def]
    return (
        torch.empty_like(query, memory_format=torch.contiguous_format),
        torch.empty_like(tokens, memory_format=torch.contiguous_format),
        *_fake_parameter_gradients(slot_weight, slot_bias, temperature),
    )


@torch.library.custom_op("slipstream::pair_slice", mutates_args=())
def pair_slice(
    query: Tensor,
    values: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Numerator and mass, and two carriers for `pair_deslice`.

    A carrier holds nothing. It is there for what comes back along it: the gradient of the
    deslice's output, and its tokens, which the backward of this operator needs to compute the
    gradients of both at once.
    """
    numerator, mass, _ = slice_op(
        query, values, slot_weight, slot_bias, temperature, stats, precision, family, "slots"
    )
    return numerator, mass, *_carriers(query, values, numerator)


@pair_slice.register_fake
def _(query, values, slot_weight, slot_bias, temperature, stats, precision, family):  # type: ignore[no-untyped-def]
    batch, _, heads, width = values.shape
    mass = query.new_empty(batch, heads, slot_weight.shape[-2], dtype=torch.float32)
    numerator = mass.new_empty(*mass.shape, width)
    return numerator, mass, *_carriers(query, values, numerator)


def _carriers(query: Tensor, values: Tensor, numerator: Tensor) -> tuple[Tensor, Tensor]:
    """Of the shapes of the deslice's output and tokens, in the memory of one number each."""
    output = query.new_zeros(1).expand(values.shape)
    return output, numerator.new_zeros(1).expand(numerator.shape)


@torch.library.custom_op("slipstream::pair_deslice", mutates_args=())
def pair_deslice(
    tokens: Tensor,
    output_carrier: Tensor,
    tokens_carrier: Tensor,
    query: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> Tensor:
    """The output. Only the tokens get their gradient here, the rest theirs from `pair_slice`."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if family == "single-tile":
        return launch.deslice_single_tile(o, tokens)
    return launch.deslice_blocked(o, tokens, _given(stats))[0]


@pair_deslice.register_fake
def _(tokens, output_carrier, tokens_carrier, query, *rest):  # type: ignore[no-untyped-def]
    return query.new_empty(output_carrier.shape)


@torch.library.custom_op("slipstream::pair_backward", mutates_args=())
def pair_backward(
    numerator_gradient: Tensor,
    mass_gradient: Tensor,
    output_gradient: Tensor,
    output_tokens: Tensor,
    query: Tensor,
    values: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    of = Backward.of_pair(
        Backward.of_slice(values, numerator_gradient, mass_gradient),
        Backward.of_deslice(output_gradient, output_tokens),
    )
    return _backward(o, of, stats, family)


@pair_backward.register_fake
def _(numerator, mass, output, tokens, query, values, slot_weight, slot_bias, temperature, *rest):  # type: ignore[no-untyped-def]
    return (
        torch.empty_like(query, memory_format=torch.contiguous_format),
        torch.empty_like(values, memory_format=torch.contiguous_format),
        *_fake_parameter_gradients(slot_weight, slot_bias, temperature),
    )


def _backward(o: Operands, of: Backward, stats: Tensor | None, family: str) -> Gradients:
    if family == "single-tile":
        return launch.backward_single_tile(o, of)
    given = _given(stats)
    return launch.backward_blocked(o, of, (given[0], given[1]))


def _given(stats: Tensor | None) -> Tensor:
    assert stats is not None, "the blocked kernels need statistics here"
    return stats


def _fake_parameter_gradients(
    slot_weight: Tensor, slot_bias: Tensor | None, temperature: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    layout = torch.contiguous_format
    bias = slot_weight.new_empty(0, dtype=torch.float32)
    if slot_bias is not None:
        bias = torch.empty_like(slot_bias, memory_format=layout)
    weight = torch.empty_like(slot_weight, memory_format=layout)
    return weight, bias, torch.empty_like(temperature, memory_format=layout)


def _save_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, stats, precision, family, over = inputs
    numerator, _, log_normalizer = output
    over_points = over == "points"
    ctx.save_for_backward(*tensors, stats, numerator if over_points else None, log_normalizer)
    ctx.how = (precision, family, over)


def _slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    query, values, weight, bias, temperature, stats, numerator, normalizer = ctx.saved_tensors
    of_numerator, of_mass, of_normalizer = gradients
    shift = of_mass
    if numerator is not None:
        # Over the points the mass is one whatever happens; the correction is known per slot.
        shift = of_normalizer - (numerator * of_numerator).sum(-1)
    found = slice_backward(
        of_numerator, shift, query, values, weight, bias, temperature, stats, normalizer, *ctx.how
    )
    return *_with_bias(found, bias), None, None, None, None


def _save_deslice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, stats, precision, family = inputs
    found = output[1] if stats is None and family == "blocked" else stats
    ctx.save_for_backward(*tensors, found)
    ctx.mark_non_differentiable(output[1])
    ctx.how = (precision, family)


def _deslice_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    query, tokens, weight, bias, temperature, stats = ctx.saved_tensors
    found = deslice_backward(gradient, query, tokens, weight, bias, temperature, stats, *ctx.how)
    return *_with_bias(found, bias), None, None, None


def _with_bias(found: tuple[Tensor, ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    query, other, weight, of_bias, temperature = found
    return query, other, weight, None if bias is None else of_bias, temperature


def _save_pair_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, precision, family = inputs
    ctx.save_for_backward(*tensors)
    ctx.how = (precision, family)


def _pair_slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    query, values, weight, bias, temperature, stats = ctx.saved_tensors
    found = pair_backward(*gradients, query, values, weight, bias, temperature, stats, *ctx.how)
    return *_with_bias(found, bias), None, None, None


def _save_pair_deslice(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tokens, _, _, *tensors, precision, family = inputs
    ctx.save_for_backward(tokens, *tensors)
    ctx.how = (precision, family)


def _pair_deslice_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the tokens is a slice of that of the output; the carriers take the rest."""
    tokens, query, weight, bias, temperature, stats = ctx.saved_tensors
    of_tokens, _, _ = slice_op(query, gradient, weight, bias, temperature, stats, *ctx.how, "slots")
    return of_tokens.to(tokens.dtype), gradient, tokens.float(), *(None,) * 7


pair_slice.register_autograd(_pair_slice_gradients, setup_context=_save_pair_slice)
pair_deslice.register_autograd(_pair_deslice_gradients, setup_context=_save_pair_deslice)
slice_op.register_autograd(_slice_gradients, setup_context=_save_slice)
deslice_op.register_autograd(_deslice_gradients, setup_context=_save_deslice)
