"""The kernels as PyTorch operators: schemas, shapes for the compiler, and gradients.

`slice` and `deslice` are what `api` calls; each has a backward operator. `pair_slice` and
`pair_deslice` compute the same, for a slice and a deslice with one membership: their gradients come
from one kernel. Statistics go in and come out as plain tensors without a gradient. All run in
Triton on CUDA and under its interpreter, and by `fallback` anywhere else.
"""

from __future__ import annotations

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
    """(2, B, H, N): largest logit, in units of log 2, and sum of exponentials."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    by = fallback if _runs(o, o.width, "blocked") == "chunked" else launch
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
        by = fallback if _runs(o, values.shape[-1], family) == "chunked" else launch
        numerator, normalizers = by.slice_over_points(o, values)
        log_normalizer = launch.log_normalizer(normalizers)
        return numerator, torch.ones_like(log_normalizer), log_normalizer, normalizers
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
    """The output, and the statistics found on the way (empty where none were looked for)."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    if family == "single-tile" or stats is not None:
        return _deslice(o, tokens, stats, family), o.buffer(0)
    if _runs(o, tokens.shape[-1], family) == "chunked":
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

    A carrier holds nothing. It is there for what comes back along it: the gradient of the
    deslice's output, and its tokens, which the backward of this operator needs to compute the
    gradients of both at once.
    """
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
    """The output. Only the tokens get their gradient here, the rest theirs from `pair_slice`."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    return _deslice(o, tokens, stats, family)


def _slice(o: Operands, values: Tensor, stats: Tensor | None, family: str) -> tuple[Tensor, Tensor]:
    runs = _runs(o, values.shape[-1], family)
    if runs == "chunked":
        return fallback.slice_points(o, values)
    if runs == "single-tile":
        return launch.slice_single_tile(o, values)
    return launch.slice_blocked(o, values, _given(stats, o))


def _deslice(o: Operands, tokens: Tensor, stats: Tensor | None, family: str) -> Tensor:
    runs = _runs(o, tokens.shape[-1], family)
    if runs == "chunked":
        return fallback.deslice_tokens(o, tokens)
    if runs == "single-tile":
        return launch.deslice_single_tile(o, tokens)
    return launch.deslice_blocked(o, tokens, stats)[0]


def _carriers(query: Tensor, values: Tensor, numerator: Tensor) -> tuple[Tensor, Tensor]:
    """Of the shapes of the deslice's output and tokens, in the memory of one number each."""
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
    """Over the points short of what `_over_points` adds to bias and temperature."""
    o = Operands.of(query, slot_weight, slot_bias, temperature, precision)
    of = Backward.of_slice(values, numerator_gradient, shift, mass)
    if over == "points":
        if _runs(o, values.shape[-1], family) == "chunked":
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
    found = _backward(o, Backward.of_deslice(gradient, tokens), stats, family)
    of_query, of_tokens, of_weight, of_bias, of_temperature = found
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


def _backward(o: Operands, of: Backward, stats: Tensor | None, family: str) -> Gradients:
    runs = _runs(o, of.rows.shape[-1], family)
    if runs == "chunked":
        return fallback.backward(o, of)
    if runs == "single-tile":
        return launch.backward_single_tile(o, of)
    return launch.backward_blocked(o, of, _given(stats, o))


def _runs(o: Operands, value_width: int, family: str) -> Family:
    """The family that the plan chose, or the next that can run here.

    A plan that was made while compiling or exporting has not seen the device.
    """
    has_triton = o.query.device.type == "cuda" or runtime.TRITON_INTERPRETED
    if not has_triton or not o.fits("blocked", value_width):
        return "chunked"
    if family == "single-tile" and o.fits("single-tile", value_width):
        return "single-tile"
    return "blocked"


def _given(stats: Tensor | None, o: Operands) -> Tensor:
    """Those the blocked kernels need, computed where the plan expected single tiles."""
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
        # Over the points the mass is one whatever happens; the correction is known per slot.
        shift = of_normalizer - (numerator * of_numerator).sum(-1)
    found = slice_backward(of_numerator, shift, mass, *tensors, stats, normalizers, *ctx.how)
    if numerator is None:
        return *_with_bias(found, bias), None, None, None, None
    centres = launch.centres(normalizers, query.shape[1])
    return *_over_points(found, of_normalizer, bias, temperature, centres), *(None,) * 4


def _over_points(
    found: tuple[Tensor, ...],
    of_normalizer: Tensor,
    bias: Tensor | None,
    temperature: Tensor,
    centres: Tensor,
) -> tuple[Tensor | None, ...]:
    """What the log normaliser's own gradient adds to those of slot bias and temperature.

    A bias moves all logits of a slot alike and cancels but there. The temperature's was summed
    against logits less their slot's centre, which also cancels but there.
    """
    of_query, of_values, of_weight, of_bias, of_temperature = found
    own = (centres * launch.LOG_2 * of_normalizer).sum((0, 2)) / temperature
    of_temperature = (of_temperature - own).to(temperature.dtype)
    if bias is not None:
        of_bias = to_layout((of_normalizer / temperature[:, None])[:, :, None], bias, 1)
    return _with_bias((of_query, of_values, of_weight, of_bias, of_temperature), bias)


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


def _save_pair_slice(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, precision, family = inputs
    ctx.save_for_backward(output[1], *tensors)
    ctx.how = (precision, family)


def _pair_slice_gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    mass, *tensors = ctx.saved_tensors
    of_numerator, of_mass, of_output, output_tokens = gradients
    found = pair_backward(of_numerator, of_mass, mass, of_output, output_tokens, *tensors, *ctx.how)
    return *_with_bias(found, bias=tensors[3]), None, None, None


def _save_pair_deslice(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tokens, _, _, *tensors, precision, family = inputs
    ctx.save_for_backward(tokens, *tensors)
    ctx.how = (precision, family)


def _pair_deslice_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the tokens is a slice of that of the output; the carriers take the rest."""
    tokens, query, weight, bias, temperature, stats = ctx.saved_tensors
    of_tokens, *_ = slice_op(query, gradient, weight, bias, temperature, stats, *ctx.how, "slots")
    return of_tokens.to(tokens.dtype), gradient, tokens.float(), *(None,) * 7


def _with_bias(found: tuple[Tensor, ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    query, other, weight, of_bias, temperature = found
    return query, other, weight, None if bias is None else of_bias, temperature


slice_op.set_gradients(_save_slice, _slice_gradients)
deslice_op.set_gradients(_save_deslice, _deslice_gradients)
pair_slice.set_gradients(_save_pair_slice, _pair_slice_gradients)
pair_deslice.set_gradients(_save_pair_deslice, _pair_deslice_gradients)
