"""A projection, the residual sum and its LayerNorm as one kernel, for what multiplies in bf16.

The update of the stream that a layer ends with, a projection of the heads' outputs or of the GELU
of the MLP's hidden tensor, is never written: it is added to the stream where it was computed. So
are the GELU's values, which the backward computes again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slipstream.kernels.norm import add_norm_backward
from slipstream.kernels.operands import ceil_div, device_guard
from slipstream.kernels.operator import operator
from slipstream.kernels.projection import activation_backward, project_norm_forward

WIDTHS = (32, 64, 128, 256)
"""Widths of the stream: those of which a program holds whole rows."""
DEPTHS = (32, 64, 128, 256, 512, 1024, 2048)
"""Widths of what is projected."""
_PROJECTION = {"BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3}
_ACTIVATION = {"BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3}
_BACKWARD = {"BN": 128, "BK": 128, "BC": 64, "num_warps": 8, "num_stages": 3}


def _shapes(stream, inner, inner_bias, projection, update_bias, weight, bias, epsilon, tanh):  # type: ignore[no-untyped-def]
    return _outputs(stream, inner)


def _outputs(stream: Tensor, inner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    statistics = stream.new_empty(2, *stream.shape[:-1], dtype=torch.float32)
    summed = torch.empty_like(stream, memory_format=torch.contiguous_format)
    return summed, torch.empty_like(summed, dtype=inner.dtype), statistics


@operator("slipstream::project_norm", _shapes)
def project_norm(
    stream: Tensor,
    inner: Tensor,
    inner_bias: Tensor | None,
    projection: Tensor,
    update_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    tanh: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """stream + inner projection^T + update_bias, its norm in bf16, and statistics of the rows.

    With an `inner_bias`, what is projected is gelu(inner + inner_bias). The statistics are the mean
    and the inverse standard deviation of each row, for the backward.
    """
    outputs = _outputs(stream, inner)
    parameters = (inner_bias, projection, update_bias, weight, bias, epsilon, tanh)
    _launch_forward(stream.contiguous(), inner, parameters, outputs)
    return outputs


def project_norm_(stream: Tensor, inner: Tensor, *parameters: Any) -> Tensor:
    """`project_norm` that writes the sum over a contiguous stream; no gradients."""
    normed = torch.empty_like(stream, dtype=inner.dtype)
    statistics = stream.new_empty(2, *stream.shape[:-1], dtype=torch.float32)
    _launch_forward(stream, inner, parameters, (stream, normed, statistics))
    return normed


def _launch_forward(
    stream: Tensor, inner: Tensor, parameters: tuple[Any, ...], outputs: tuple[Tensor, ...]
) -> None:
    """`parameters` are those of `project_norm` that come after its first two tensors."""
    inner_bias, projection, update_bias, weight, bias, epsilon, tanh = parameters
    width, deep = projection.shape
    rows = stream.numel() // width
    if not rows:
        return
    chosen = _PROJECTION if inner_bias is None else _ACTIVATION
    tile = {**chosen, "BK": min(chosen["BK"], deep)}
    activation = (bias if inner_bias is None else inner_bias).contiguous()
    with device_guard(stream):
        project_norm_forward[(ceil_div(rows, tile["BN"]),)](
            inner.contiguous(), activation, projection.contiguous(), stream,
            update_bias.contiguous(), weight.contiguous(), bias.contiguous(),
            *outputs, rows, epsilon,
            K=deep, C=width, **_arithmetic(inner, inner_bias, tanh), **tile,
        )  # fmt: skip


def _arithmetic(inner: Tensor, inner_bias: Tensor | None, tanh: bool) -> dict[str, object]:
    gelu = "none" if inner_bias is None else "tanh" if tanh else "erf"
    return {"GELU": gelu, "EXACT": inner.dtype == torch.float32, "HOW": "bf16"}


def _backward_shapes(  # type: ignore[no-untyped-def]
    normed_gradient, summed_gradient, summed, statistics, weight, bias, update_bias,
    inner, inner_bias, projection, tanh,
):  # fmt: skip
    tensors = (summed, inner.contiguous(), projection, update_bias, weight, bias)
    of_inner_bias = weight.new_empty(0) if inner_bias is None else torch.empty_like(inner_bias)
    return *map(torch.empty_like, tensors), of_inner_bias


@operator("slipstream::project_norm_backward", _backward_shapes)
def project_norm_backward(
    normed_gradient: Tensor,
    summed_gradient: Tensor | None,
    summed: Tensor,
    statistics: Tensor,
    weight: Tensor,
    bias: Tensor,
    update_bias: Tensor,
    inner: Tensor,
    inner_bias: Tensor | None,
    projection: Tensor,
    tanh: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of stream, inner, projection, the update's bias, weight, bias and inner's bias."""
    of_stream, of_update, of_weight, of_bias, of_update_bias = add_norm_backward.function(
        normed_gradient, summed_gradient, summed, statistics, weight, bias, update_bias,
        projection.dtype,
    )  # fmt: skip
    if not of_update.numel():  # the stream has the projection's dtype: one gradient is both
        of_update = of_stream
    of_update = of_update.reshape(-1, projection.shape[0])
    rows = inner.reshape(-1, inner.shape[-1])
    of_inner_bias = weight.new_empty(0)
    if inner_bias is None:
        of_rows, active = of_update @ projection, rows
    else:
        of_rows, active, of_inner_bias = _through_gelu(
            of_update, projection, rows, inner_bias, tanh
        )
    of_projection = of_update.t() @ active
    of_inner = of_rows.view(inner.shape)
    return of_stream, of_inner, of_projection, of_update_bias, of_weight, of_bias, of_inner_bias


def _through_gelu(
    of_update: Tensor, projection: Tensor, rows: Tensor, inner_bias: Tensor, tanh: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of the rows, their GELU, and the gradient of their bias."""
    width, deep = projection.shape
    tile = {**_BACKWARD, "BK": min(_BACKWARD["BK"], deep), "BC": min(_BACKWARD["BC"], width)}
    blocks = ceil_div(len(rows), tile["BN"])
    of_rows, active = torch.empty_like(rows), torch.empty_like(rows)
    partial = torch.zeros(blocks, deep, dtype=torch.float32, device=rows.device)
    if blocks:
        with device_guard(rows):
            activation_backward[(blocks * (deep // tile["BK"]),)](
                of_update.contiguous(), projection.contiguous(), rows.contiguous(),
                inner_bias.contiguous(), of_rows, active, partial, len(rows),
                K=deep, C=width, **_arithmetic(rows, inner_bias, tanh), **tile,
            )  # fmt: skip
    return of_rows, active, partial.sum(0).to(inner_bias.dtype)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, inner, inner_bias, projection, update_bias, weight, bias, _, tanh = inputs
    summed, _, statistics = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(statistics)
    ctx.save_for_backward(
        summed, statistics, weight, bias, update_bias, inner, inner_bias, projection
    )
    ctx.tanh = tanh


def _gradients(
    ctx: Any, of_summed: Tensor | None, of_normed: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    inner_bias = ctx.saved_tensors[6]
    if of_normed is None:  # only the sum was used further on
        of_normed = torch.zeros_like(ctx.saved_tensors[0], dtype=ctx.saved_tensors[5].dtype)
    of_stream, of_inner, of_projection, of_update_bias, of_weight, of_bias, of_inner_bias = (
        project_norm_backward(of_normed, of_summed, *ctx.saved_tensors, ctx.tanh)
    )
    of_activation = None if inner_bias is None else of_inner_bias
    return (
        of_stream, of_inner, of_activation, of_projection, of_update_bias, of_weight, of_bias,
        None, None,
    )  # fmt: skip


project_norm.set_gradients(_save, _gradients)
