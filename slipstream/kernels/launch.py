"""Launches of the kernels of both families, with their tiles, grids and buffers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slipstream.kernels import blocked_backward, blocked_forward, single_tile
from slipstream.kernels.operands import (
    Backward,
    Gradients,
    Operands,
    ceil_div,
    device_guard,
    row_strides,
    rows,
    summed_gradients,
)
from slipstream.kernels.tiles import Tile

LOG_2 = math.log(2)
"""The kernels use powers of two: their logits are natural ones divided by log 2."""


def run(
    kernel: Any, grid: tuple[int, ...], tile: Tile, *arguments: Any, **constants: object
) -> None:
    """Launch a kernel on the device of its first argument, which must be a tensor.

    Without points there is nothing to launch: outputs are empty, and sums over no parts are zero.
    """
    if 0 in grid:
        return
    with device_guard(arguments[0]):
        kernel[grid](
            *arguments, **constants, BN=tile.points, num_warps=tile.warps, num_stages=tile.stages
        )


# --- single-tile -----------------------------------------------------------------------------


def slice_single_tile(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    values = rows(values)
    width, slices = values.shape[-1], o.slices
    tile = o.tile("single-tile/slice_forward", width)
    parts = o.parts(tile, o.batch * o.heads)
    partial = o.buffer(o.batch, o.heads, parts, slices * width + slices)
    run(
        single_tile.slice_forward, (parts, o.heads, o.batch), tile,
        o.query, values, *o.pointers(), partial, o.points, o.heads, parts,
        *o.query_strides(), *row_strides(values, o.heads), *o.slot_strides(),
        **o.products(), G=slices, D=o.width, V=width,
    )  # fmt: skip
    numerator, mass = partial.split((slices * width, slices), -1)
    return numerator.sum(2).view(o.batch, o.heads, slices, width), mass.sum(2)


def deslice_single_tile(o: Operands, tokens: Tensor) -> Tensor:
    tokens = tokens.contiguous()
    width = tokens.shape[-1]
    tile = o.tile("single-tile/deslice_forward", width)
    parts = o.parts(tile, o.batch * o.heads)
    out = o.query.new_empty(o.batch, o.points, o.heads, width)
    run(
        single_tile.deslice_forward, (parts, o.heads, o.batch), tile,
        o.query, tokens, *o.pointers(), out, o.points, o.heads, parts,
        *o.query_strides(), *o.slot_strides(),
        **o.products(), G=o.slices, D=o.width, V=width,
    )  # fmt: skip
    return out


def backward_single_tile(o: Operands, of: Backward) -> Gradients:
    width, slices = of.rows.shape[-1], o.slices
    tile = o.tile(f"single-tile/{of.tile_prefix}backward", width)
    parts = o.parts(tile, o.batch * o.heads)
    sizes = [slices * o.width, slices, 1] + of.token_sizes(slices)
    partial = o.buffer(o.batch, o.heads, parts, sum(sizes))
    query_gradient, rows_gradient = of.gradients(o.query, o.width)
    run(
        single_tile.backward, (parts * o.heads, o.batch), tile,
        o.query, of.rows, of.tokens, of.shift, of.output_gradient, of.output_tokens,
        *o.pointers(), query_gradient, rows_gradient, partial, o.points, o.heads, parts,
        *o.query_strides(), *of.strides(o.heads), *o.slot_strides(),
        **o.products(), OF=of.kind, JOINT=of.share, G=slices, D=o.width, V=width,
    )  # fmt: skip
    return summed_gradients(o, query_gradient, rows_gradient, partial.split(sizes, -1))


# --- blocked ---------------------------------------------------------------------------------


def statistics(o: Operands) -> Tensor:
    """(2, B, H, N): the largest logit, in units of log 2, and the sum of exponentials."""
    tile = o.tile("blocked/statistics", o.width)
    out = o.buffer(2, o.batch, o.heads, o.points)
    constants = {k: v for k, v in o.products().items() if k != "VALUES"}
    run(
        blocked_forward.statistics, (ceil_div(o.points, tile.points), o.heads, o.batch), tile,
        o.query, *o.pointers(), *out.unbind(0), o.points, o.heads, o.slices,
        *o.query_strides(), *o.slot_strides(),
        **constants, D=o.width, BD=_padded(o.width), BG=_slots(o, tile),
    )  # fmt: skip
    return out


def slice_blocked(o: Operands, values: Tensor, stats: Tensor) -> tuple[Tensor, Tensor]:
    values = rows(values)
    width, slices = values.shape[-1], o.slices
    partial = _slot_owned_sums(
        o, values, blocked_forward.slice_forward, "slice_forward", _two(stats), width + 1
    )
    numerator, mass = partial.split((slices * width, slices), -1)
    return numerator.sum(2).view(o.batch, o.heads, slices, width), mass.sum(2)


def slice_over_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    """The numerator, normalised over all points, and the normalisers (2, B, H, G).

    The normalisers are the largest logit m of a slot, in units of log 2, and the sum of 2^(logit -
    m). Each part has its own m; its sums are rescaled to the largest m of all parts.
    """
    values = rows(values)
    width, slices = values.shape[-1], o.slices
    if not o.points:
        zeros = o.buffer(o.batch, o.heads, slices, width).zero_()
        ones = torch.ones_like(zeros[..., 0])
        return zeros, torch.stack((-math.inf * ones, ones))
    kernel = blocked_forward.slice_forward_over_points
    partial = _slot_owned_sums(o, values, kernel, "slice_forward_over_points", (), width + 2)
    sums, largest, total = partial.split((slices * width, slices, slices), -1)
    overall = largest.amax(2)
    scale = (largest - overall[:, :, None]).exp2()
    normalizer = (total * scale).sum(2)
    numerator = (sums.unflatten(-1, (slices, width)) * scale[..., None]).sum(2)
    return numerator / normalizer[..., None], torch.stack((overall, normalizer))


def log_normalizer(normalizers: Tensor) -> Tensor:
    """The natural logarithm (B, H, G) of the sum of exponentials, from `slice_over_points`."""
    return normalizers[0] * LOG_2 + normalizers[1].log()


def centres(normalizers: Tensor, points: int) -> Tensor:
    """The logarithm of the mean exponential of each slot, (B, H, G), in units of log 2.

    Zero without points, of which there is no mean.
    """
    if not points:
        return torch.zeros_like(normalizers[0])
    return normalizers[0] + normalizers[1].log2() - math.log2(points)


def deslice_blocked(o: Operands, tokens: Tensor, stats: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output, and the statistics: those given, or those computed along with the output."""
    tokens = tokens.contiguous()
    width = tokens.shape[-1]
    tile = o.tile("blocked/deslice_forward", width)
    out = o.query.new_empty(o.batch, o.points, o.heads, width)
    used = o.buffer(2, o.batch, o.heads, o.points) if stats is None else stats
    run(
        blocked_forward.deslice_forward, (ceil_div(o.points, tile.points), o.heads, o.batch), tile,
        o.query, tokens, *o.pointers(), out, *_two(used), o.points, o.heads, o.slices,
        *o.query_strides(), *o.slot_strides(), HAS_STATISTICS=stats is not None,
        **o.products(), D=o.width, BD=_padded(o.width), V=width, BV=_padded(width),
        BG=_slots(o, tile),
    )  # fmt: skip
    return out, used


def backward_blocked(
    o: Operands, of: Backward, normalizers: Tensor, *, over_points: bool = False
) -> Gradients:
    """The gradients, by a kernel over points (query, values) and one over slots (parameters).

    `normalizers` are the largest logit and the sum of exponentials of each point (2, B, H, N), or
    over the points of each slot (2, B, H, G). The gradient of the temperature over the points is
    summed against logits less `centres`.
    """
    m, row_sum = _two(normalizers)
    if over_points:
        correction, mean_tokens = centres(normalizers, o.points), of.tokens
    else:
        correction = o.buffer(o.batch, o.heads, o.points)
        of, mean_tokens = of.centred()
    width = of.rows.shape[-1]
    query_gradient, rows_gradient = of.gradients(o.query, o.width)
    reads = (
        o.query, of.rows, of.tokens, of.shift, of.output_gradient, of.output_tokens, mean_tokens,
        *o.pointers(), m, row_sum, correction,
    )  # fmt: skip
    strides = (*o.query_strides(), *of.strides(o.heads), *o.slot_strides())
    constants = {
        **o.products(), "OF": of.kind, "OVER_POINTS": over_points,
        "D": o.width, "BD": _padded(o.width), "V": width, "BV": _padded(width),
    }  # fmt: skip
    tile = o.tile(f"blocked/{of.tile_prefix}backward_points", width)
    run(
        blocked_backward.backward_points, (ceil_div(o.points, tile.points), o.heads, o.batch), tile,
        *reads, query_gradient, rows_gradient, o.points, o.heads, o.slices, *strides,
        **constants, JOINT=of.share, BG=_slots(o, tile),
    )  # fmt: skip
    tile = o.tile(f"blocked/{of.tile_prefix}backward_slots", width)
    blocks = ceil_div(o.slices, _slots(o, tile))
    parts = o.parts(tile, o.batch * o.heads * blocks)
    sizes = [o.slices * o.width, o.slices, o.slices] + of.token_sizes(o.slices)
    partial = o.buffer(o.batch, o.heads, parts, sum(sizes))
    run(
        blocked_backward.backward_slots, (parts, blocks, o.batch * o.heads), tile,
        *reads, partial, o.points, o.heads, o.slices, parts, *strides,
        **constants, BG=_slots(o, tile),
    )  # fmt: skip
    return summed_gradients(o, query_gradient, rows_gradient, partial.split(sizes, -1))


def _two(statistics: Tensor) -> tuple[Tensor, ...]:
    """Largest logits and sums of exponentials as two contiguous tensors, which the kernels read."""
    return statistics.contiguous().unbind(0)


def _slots(o: Operands, tile: Tile) -> int:
    """BG, slots per tile: the tile's, or with fewer slices the next power of two from 16 on."""
    return min(tile.slots, max(16, 1 << (o.slices - 1).bit_length()))


def _slot_owned_sums(
    o: Operands,
    values: Tensor,
    kernel: Callable[..., Any],
    name: str,
    stats: tuple[Tensor, ...],
    columns: int,
) -> Tensor:
    """Launch a kernel whose programs each sum over points for a block of slots.

    Returns its parts (B, H, parts, G columns).
    """
    width = values.shape[-1]
    tile = o.tile(f"blocked/{name}", width)
    blocks = ceil_div(o.slices, _slots(o, tile))
    parts = o.parts(tile, o.batch * o.heads * blocks)
    partial = o.buffer(o.batch, o.heads, parts, o.slices * columns)
    run(
        kernel, (parts, blocks, o.batch * o.heads), tile,
        o.query, values, *o.pointers(), *stats, partial, o.points, o.heads, o.slices, parts,
        *o.query_strides(), *row_strides(values, o.heads), *o.slot_strides(),
        **o.products(), D=o.width, BD=_padded(o.width), V=width, BV=_padded(width),
        BG=_slots(o, tile),
    )  # fmt: skip
    return partial


def _padded(width: int) -> int:
    """The power of two a width is padded to.

    A product needs 16; but with 16 columns and 64 slots Triton 3.6 computes garbage on an H200 in
    bf16 (seen 2026-11-15), so widths are padded to 32.
    """
    return max(32, 1 << (width - 1).bit_length())
