"""The kernels as PyTorch operators: schemas, shapes for the compiler, and gradients.

`api` calls `slice` and `deslice`, each of which has a backward operator. `pair_slice` and
`pair_deslice` compute the same for a slice and a deslice by one membership; one kernel computes the
gradients of both. `joint_slice` is a `pair_slice` of query and values that are halves of one
tensor, whose gradient it writes as one. Statistics are passed as plain tensors without a gradient.
All operators run in Triton on CUDA and under its interpreter, and by `fallback` anywhere else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.kernels import fallback, launch
from slipstream.kernels.operands import Backward, Gradients, Operands, to_layout
from slipstream.kernels.operator import operator
from slipstream.kernels.plan import Family

# --- shapes of the results ---------------------------------------------------------------------


def _statistics_shape(query, slot_weight, slot_bias, temperature, precision):  # type: ignore[no-untyped-def]
    batch, points = query.shape[:2]
    return query.new_empty(2, batch, temperature.shape[0], points, dtype=torch.float32)


def _slice_shapes(  # type: ignore[no-untyped-def]
    query, values, slot_weight, slot_bias, temperature, stats, precision, family, over
):
    batch, _, heads, width = values.shape
    mass = query.new_empty(batch, heads, slot_weight.shape[-2], dtype=torch.float32)
    over_points = over == "points"
    log_normalizer = mass.new_empty(mass.shape if over_points else 0)
    normalizers = mass.new_empty((2, *mass.shape) if over_points else 0)
    return mass.new_empty(*mass.shape, width), mass, log_normalizer, normalizers


def _deslice_shapes(query, tokens, slot_weight, slot_bias, temperature, stats, precision, family):  # type: ignore[no-untyped-def]
    batch, points = query.shape[:2]
    heads, width = temperature.shape[0], tokens.shape[-1]
    online = family == "blocked" and stats is None
    shape = (2, batch, heads, points) if online else (0,)
    out = query.new_empty(batch, points, heads, width)
    return out, query.new_empty(shape, dtype=torch.float32)


def _pair_slice_shapes(query, values, slot_weight, *rest):  # type: ignore[no-untyped-def]
    batch, _, heads, width = values.shape
    mass = query.new_empty(batch, heads, slot_weight.shape[-2], dtype=torch.float32)
    numerator = mass.new_empty(*mass.shape, width)
    return numerator, mass, *_carriers(query, values, numerator)


def _joint_slice_shapes(joint, slot_weight, *rest):  # type: ignore[no-untyped-def]
    query, values = joint.unbind(2)
    return _pair_slice_shapes(query, values, slot_weight, *rest)  # type: ignore[no-untyped-call]


def _pair_deslice_shape(tokens, output_carrier, tokens_carrier, query, *rest):  # type: ignore[no-untyped-def]
    return query.new_empty(output_carrier.shape)


def _slice_backward_shapes(  # type: ignore[no-untyped-def]
    numerator, shift, mass, query, values, slot_weight, slot_bias, temperature, *rest
):
    return _gradient_shapes(query, values, slot_weight, slot_bias, temperature)


def _deslice_backward_shapes(  # type: ignore[no-untyped-def]
    gradient, query, tokens, slot_weight, slot_bias, temperature, *rest
):
    return _gradient_shapes(query, tokens, slot_weight, slot_bias, temperature)


def _pair_backward_shapes(  # type: ignore[no-untyped-def]
    numerator, shift, mass, output, tokens, query, values, slot_weight, slot_bias, temperature, *_
):
    return _gradient_shapes(query, values, slot_weight, slot_bias, temperature)


def _joint_backward_shapes(  # type: ignore[no-untyped-def]
    numerator, shift, mass, output, tokens, joint, slot_weight, slot_bias, temperature, *_
):
    gradients = _gradient_shapes(joint, joint, slot_weight, slot_bias, temperature)
    return gradients[1:]


def _gradient_shapes(
    query: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None, temperature: Tensor
) -> Gradients:
    def like(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    of_bias = weight.new_empty(0, dtype=torch.float32) if bias is None else like(bias)
    return like(query), like(other), like(weight), of_bias, like(temperature)


# --- forward -----------------------------------------------------------------------------------


@operator("slipstream::statistics", _statistics_shape)
def statistics(
    query: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    precision: str,
) -> Tensor:
    """(2, B, H, N): largest logit of each point, in units of log 2, and sum of exponentials."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    by = fallback if _family_here(o, o.width, "blocked") == "chunked" else launch
    return by.statistics(o)


@operator("slipstream::slice", _slice_shapes)
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Numerator and mass; over the points also the log normaliser and the normalisers. All fp32."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if over == "points":
        by = fallback if _family_here(o, values.shape[-1], family) == "chunked" else launch
        numerator, normalizers = by.slice_over_points(o, values)
        log_normalizer = launch.log_normalizer(normalizers)
        mass = torch.full_like(log_normalizer, 1 if o.points else 0)
        return numerator, mass, log_normalizer, normalizers
    numerator, mass = _slice(o, values, stats, family)
    return numerator, mass, mass.new_empty(0), mass.new_empty(0)


@operator("slipstream::deslice", _deslice_shapes)
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
    """The output, and the statistics if the kernel computed them too, else an empty tensor."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if family == "single-tile" or stats is not None:
        return _deslice(o, tokens, stats, family), o.buffer(0)
    if _family_here(o, tokens.shape[-1], family) == "chunked":
        return fallback.deslice_tokens(o, tokens), fallback.statistics(o)
    return launch.deslice_blocked(o, tokens, None)


@operator("slipstream::pair_slice", _pair_slice_shapes)
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

    The values of a carrier mean nothing; `pair_deslice` only takes them as inputs. In the backward
    pass it returns, as their gradients, the gradient of its output and its tokens, and autograd
    hands both to the backward of this operator, which computes the gradients of slice and deslice
    together.
    """
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    numerator, mass = _slice(o, values, stats, family)
    return numerator, mass, *_carriers(query, values, numerator)


@operator("slipstream::joint_slice", _joint_slice_shapes)
def joint_slice(
    joint: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`pair_slice` of query and values in one tensor (B, N, 2, H, D)."""
    query, values = joint.unbind(2)
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    numerator, mass = _slice(o, values, stats, family)
    return numerator, mass, *_carriers(query, values, numerator)


@operator("slipstream::pair_deslice", _pair_deslice_shape)
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
    """The output. Its backward gives the gradient of the tokens, `pair_slice`'s the others."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    return _deslice(o, tokens, stats, family)


def _slice(o: Operands, values: Tensor, stats: Tensor | None, family: str) -> tuple[Tensor, Tensor]:
    here = _family_here(o, values.shape[-1], family)
    if here == "chunked":
        return fallback.slice_points(o, values)
    if here == "single-tile":
        return launch.slice_single_tile(o, values)
    return launch.slice_blocked(o, values, _given_or_computed(stats, o))


def _deslice(o: Operands, tokens: Tensor, stats: Tensor | None, family: str) -> Tensor:
    here = _family_here(o, tokens.shape[-1], family)
    if here == "chunked":
        return fallback.deslice_tokens(o, tokens)
    if here == "single-tile":
        return launch.deslice_single_tile(o, tokens)
    return launch.deslice_blocked(o, tokens, stats)[0]


def _carriers(query: Tensor, values: Tensor, numerator: Tensor) -> tuple[Tensor, Tensor]:
    """Tensors of the shapes of the deslice's output and tokens, each storing one number."""
    output = query.new_zeros(1).expand(values.shape)
    return output, numerator.new_zeros(1).expand(numerator.shape)


# --- backward ----------------------------------------------------------------------------------


@operator("slipstream::slice_backward", _slice_backward_shapes)
def slice_backward(
    numerator_gradient: Tensor,
    shift: Tensor,
    mass: Tensor,
    query: Tensor,
    values: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    normalizers: Tensor,
    precision: str,
    family: str,
    over: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the slice; over the points without what `_over_points` adds afterwards."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    of = Backward.of_slice(values, numerator_gradient, shift, mass)
    if over == "points":
        if _family_here(o, values.shape[-1], family) == "chunked":
            return fallback.backward(o, of, normalizers, over_points=True)
        return launch.backward_blocked(o, of, normalizers, over_points=True)
    return _backward(o, of, stats, family)


@operator("slipstream::deslice_backward", _deslice_backward_shapes)
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
    gradients = _backward(o, Backward.of_deslice(gradient, tokens), stats, family)
    of_query, of_tokens, of_weight, of_bias, of_temperature = gradients
    return of_query, of_tokens.to(tokens.dtype), of_weight, of_bias, of_temperature


@operator("slipstream::pair_backward", _pair_backward_shapes)
def pair_backward(
    numerator_gradient: Tensor,
    mass_gradient: Tensor,
    mass: Tensor,
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
        Backward.of_slice(values, numerator_gradient, mass_gradient, mass),
        Backward.of_deslice(output_gradient, output_tokens),
    )
    return _backward(o, of, stats, family)


@operator("slipstream::joint_backward", _joint_backward_shapes)
def joint_backward(
    numerator_gradient: Tensor,
    mass_gradient: Tensor,
    mass: Tensor,
    output_gradient: Tensor,
    output_tokens: Tensor,
    joint: Tensor,
    slot_weight: Tensor,
    slot_bias: Tensor | None,
    temperature: Tensor,
    stats: Tensor | None,
    precision: str,
    family: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`pair_backward`, with the gradients of query and values in one tensor."""
    query, values = joint.unbind(2)
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    of = Backward.of_pair(
        Backward.of_slice(values, numerator_gradient, mass_gradient, mass),
        Backward.of_deslice(output_gradient, output_tokens),
    )
    of_joint = torch.empty_like(joint, memory_format=torch.contiguous_format)
    gradients = _backward(o, replace(of, joint=of_joint), stats, family)
    of_query, of_values, of_weight, of_bias, of_temperature = gradients
    if of_query.data_ptr() != of_joint.data_ptr():  # the fallback has tensors of its own
        of_joint = torch.stack((of_query, of_values), 2)
    return of_joint, of_weight, of_bias, of_temperature


def _backward(o: Operands, of: Backward, stats: Tensor | None, family: str) -> Gradients:
    here = _family_here(o, of.rows.shape[-1], family)
    if here == "chunked":
        return fallback.backward(o, of)
    if here == "single-tile":
        return launch.backward_single_tile(o, of)
    return launch.backward_blocked(o, of, _given_or_computed(stats, o))


def _family_here(o: Operands, value_width: int, family: str) -> Family:
    """The family that the plan chose, or the next that can run on this device.

    They differ where the plan was made while compiling or exporting, when the device is not known:
    an operator exported for a GPU and run on a CPU is computed by `fallback`.
    """
    has_triton = o.query.device.type == "cuda" or runtime.TRITON_INTERPRETED
    if not has_triton or not o.fits("blocked", value_width):
        return "chunked"
    if family == "single-tile" and o.fits("single-tile", value_width):
        return "single-tile"
    return "blocked"


def _given_or_computed(stats: Tensor | None, o: Operands) -> Tensor:
    """The statistics for the blocked kernels, computed if the plan had expected single tiles."""
    return launch.statistics(o) if stats is None else stats


# --- gradients ---------------------------------------------------------------------------------


def _save_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, stats, precision, family, over = inputs
    numerator, mass, _, normalizers = output
    ctx.mark_non_differentiable(normalizers)
    over_points = over == "points"
    ctx.save_for_backward(*tensors, stats, mass, numerator if over_points else None, normalizers)
    ctx.how = (precision, family, over)


def _slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, stats, mass, numerator, normalizers = ctx.saved_tensors
    query, _, _, bias, temperature = tensors
    of_numerator, of_mass, of_normalizer, _ = gradients
    shift = of_mass
    if numerator is not None:
        # Over the points the mass is 1 and has no gradient. The softmax subtracts the weighted
        # mean of the gradients over the points, which is the same number for a whole slot.
        shift = of_normalizer - (numerator * of_numerator).sum(-1)
    computed = slice_backward(of_numerator, shift, mass, *tensors, stats, normalizers, *ctx.how)
    if numerator is None:
        return *_with_bias(computed, bias), None, None, None, None
    centres = launch.centres(normalizers, query.shape[1])
    return *_over_points(computed, of_normalizer, bias, temperature, centres), *(None,) * 4


def _over_points(
    gradients: tuple[Tensor, ...],
    of_normalizer: Tensor,
    bias: Tensor | None,
    temperature: Tensor,
    centres: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients with what the log normaliser adds to those of slot bias and temperature.

    A slot's bias moves all its logits alike. It cancels in the weights over the points, so only the
    log normaliser gives it a gradient. The kernel summed the temperature's gradient against logits
    less the centre of their slot; the centre, too, cancels everywhere but in the log normaliser.
    """
    of_query, of_values, of_weight, of_bias, of_temperature = gradients
    own = (centres * launch.LOG_2 * of_normalizer).sum((0, 2)) / temperature
    of_temperature = (of_temperature - own).to(temperature.dtype)
    if bias is not None:
        of_bias = to_layout((of_normalizer / temperature[:, None])[:, :, None], bias, 1)
    return _with_bias((of_query, of_values, of_weight, of_bias, of_temperature), bias)


def _save_deslice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, stats, precision, family = inputs
    known_stats = output[1] if stats is None and family == "blocked" else stats
    ctx.save_for_backward(*tensors, known_stats)
    ctx.mark_non_differentiable(output[1])
    ctx.how = (precision, family)


def _deslice_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    query, tokens, weight, bias, temperature, stats = ctx.saved_tensors
    tensors = (query, tokens, weight, bias, temperature, stats)
    return *_with_bias(deslice_backward(gradient, *tensors, *ctx.how), bias), None, None, None


def _save_pair_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, precision, family = inputs
    ctx.save_for_backward(output[1], *tensors)
    ctx.how = (precision, family)


def _pair_slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    mass, *tensors = ctx.saved_tensors
    # What came back along the carriers: the gradient of the deslice's output, and its tokens.
    of_numerator, of_mass, of_output, output_tokens = gradients
    incoming = (of_numerator, of_mass, mass, of_output, output_tokens)
    computed = pair_backward(*incoming, *tensors, *ctx.how)
    return *_with_bias(computed, bias=tensors[3]), None, None, None


def _joint_slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    mass, *tensors = ctx.saved_tensors
    of_numerator, of_mass, of_output, output_tokens = gradients
    incoming = (of_numerator, of_mass, mass, of_output, output_tokens)
    of_joint, of_weight, of_bias, of_temperature = joint_backward(*incoming, *tensors, *ctx.how)
    of_bias = None if tensors[2] is None else of_bias
    return of_joint, of_weight, of_bias, of_temperature, None, None, None


def _save_pair_deslice(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tokens, _, _, *tensors, precision, family = inputs
    ctx.save_for_backward(tokens, *tensors)
    ctx.how = (precision, family)


def _pair_deslice_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the tokens is the output's gradient, sliced; the carriers take the rest."""
    tokens, query, weight, bias, temperature, stats = ctx.saved_tensors
    of_tokens, *_ = slice_op(query, gradient, weight, bias, temperature, stats, *ctx.how, "slots")
    return of_tokens.to(tokens.dtype), gradient, tokens.float(), *(None,) * 7


def _with_bias(gradients: tuple[Tensor, ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients, with None for a bias that is not there: operators cannot return None."""
    query, other, weight, of_bias, temperature = gradients
    return query, other, weight, None if bias is None else of_bias, temperature


slice_op.set_gradients(_save_slice, _slice_gradients)
deslice_op.set_gradients(_save_deslice, _deslice_gradients)
pair_slice.set_gradients(_save_pair_slice, _pair_slice_gradients)
joint_slice.set_gradients(_save_pair_slice, _joint_slice_gradients)
pair_deslice.set_gradients(_save_pair_deslice, _pair_deslice_gradients)
