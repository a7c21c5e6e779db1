"""The host side of the kernels: strides, buffers, grids, and the sums over partial results.

Every sum over points is split into `parts`, each written by one program to its own row of an fp32
buffer and added up by torch in a fixed order, so that two runs agree to the bit.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.kernels import blocked_backward, blocked_forward, single_tile
from slipstream.kernels.plan import PRODUCTS, Precision
from slipstream.kernels.tiles import Tile, TileTable, pick_tile, table_for

LOG_2 = math.log(2)
"""Logits inside the kernels are in units of it."""


@dataclass(frozen=True)
class Operands:
    """What every kernel reads, in the layout it reads it in."""

    query: Tensor
    slot_weight: Tensor
    slot_bias: Tensor | None
    temperature: Tensor
    precision: Precision
    tiles: Mapping[str, Tile]
    """Tiles to use instead of the table's, by kernel: for whoever tunes them."""

    @staticmethod
    def of(
        query: Tensor,
        slot_weight: Tensor,
        slot_bias: Tensor | None,
        temperature: Tensor,
        precision: str,
        tiles: Mapping[str, Tile] | None = None,
    ) -> Operands:
        bias = None if slot_bias is None else slot_bias.contiguous()
        weight = slot_weight.contiguous()
        return Operands(
            rows(query), weight, bias, temperature.contiguous(), Precision(precision), tiles or {}
        )

    @property
    def batch(self) -> int:
        return self.query.shape[0]

    @property
    def points(self) -> int:
        return self.query.shape[1]

    @property
    def heads(self) -> int:
        return self.temperature.shape[0]

    @property
    def slices(self) -> int:
        return self.slot_weight.shape[-2]

    @property
    def width(self) -> int:
        return self.query.shape[-1]

    def pointers(self) -> tuple[Tensor, ...]:
        """slot_weight, slot_bias, temperature; without a bias its pointer is never followed."""
        bias = self.slot_weight if self.slot_bias is None else self.slot_bias
        return self.slot_weight, bias, self.temperature

    def query_strides(self) -> tuple[int, int, int]:
        return row_strides(self.query, self.heads)

    def slot_strides(self) -> tuple[int, ...]:
        bias = (0, 0) if self.slot_bias is None else _leading_strides(self.slot_bias, 1)
        return (*_leading_strides(self.slot_weight, 2), *bias)

    def products(self) -> dict[str, str | bool]:
        logits, values = PRODUCTS[self.precision]
        return {"HAS_BIAS": self.slot_bias is not None, "LOGITS": logits, "VALUES": values}

    def tile(self, kernel: str, value_width: int) -> Tile:
        if kernel in self.tiles:
            return self.tiles[kernel]
        widest = max(self.width, value_width)
        return pick_tile(self.table.name, kernel, str(self.precision), self.slices, widest)

    @property
    def table(self) -> TileTable:
        return table_for(runtime.shared_memory(self.query.device))

    def fits_single_tile(self, value_width: int) -> bool:
        """Whether the GPU's table has single tiles for this; a plan made elsewhere may not know."""
        widest = max(self.width, value_width)
        return self.table.has_tiles("single-tile", self.precision, self.slices, widest)

    def parts(self, tile: Tile, programs: int) -> int:
        """Into how many parts the points go, when `programs` programs work on each part."""
        wanted = max(1, tile.per_sm * runtime.multiprocessors(self.query.device) // programs)
        return min(wanted, _ceil(self.points, tile.points))

    def buffer(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=self.query.device)


def rows(tensor: Tensor) -> Tensor:
    """The tensor itself where its last axis is contiguous, as the kernels need it."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def row_strides(tensor: Tensor, heads: int) -> tuple[int, int, int]:
    """Strides of B, N and H; 0 for the heads where they share the tensor."""
    b, n, h, _ = tensor.stride()
    return b, n, h if tensor.shape[2] == heads else 0


def run(
    kernel: Any, grid: tuple[int, ...], tile: Tile, *arguments: object, **constants: object
) -> None:
    with device_guard(next(a for a in arguments if isinstance(a, Tensor))):
        kernel[grid](
            *arguments, **constants, BN=tile.points, num_warps=tile.warps, num_stages=tile.stages
        )


def device_guard(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Triton launches on the current device: make it the tensor's."""
    on_gpu = tensor.device.type == "cuda"
    return torch.cuda.device(tensor.device) if on_gpu else contextlib.nullcontext()


def to_layout(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Sum a (B, H, ...) gradient down to the parameter's own layout and dtype."""
    absent = gradient.ndim - parameter.ndim
    if absent:
        gradient = gradient.sum(tuple(range(absent)))
    return gradient.to(parameter.dtype)


def shared_heads(gradient: Tensor, query: Tensor) -> Tensor:
    """The gradient of a query that the heads share is the sum of theirs."""
    if gradient.shape == query.shape:
        return gradient
    return gradient.sum(2, keepdim=True, dtype=torch.float32).to(query.dtype)


def _leading_strides(tensor: Tensor, tail: int) -> tuple[int, int]:
    """Strides of B and H of a (tail), (H, tail) or (B, H, tail) layout; 0 for an absent axis."""
    leading = tensor.stride()[: tensor.ndim - tail]
    return (0, 0, *leading)[-2:]  # type: ignore[return-value]


def _ceil(total: int, block: int) -> int:
    return -(-total // block)


def _padded(width: int) -> int:
    """The power of two a width is padded to.

    A product needs 16; but with 16 columns and 64 slots Triton 3.6 computes garbage on an H200 in
    bf16 (seen 2026-11-15), so widths are padded to 32.
    """
    return max(32, 1 << (width - 1).bit_length())


Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Of query, values or tokens, slot weight, slot bias (empty without one), temperature."""


@dataclass(frozen=True)
class Backward:
    """What a backward kernel is of, and the gradients that came in; see `single_tile.backward`.

    Pointers that a kind does not need are there all the same, and never followed.
    """

    kind: Literal["slice", "deslice", "pair"]
    rows: Tensor
    tokens: Tensor
    shift: Tensor
    output_gradient: Tensor
    output_tokens: Tensor

    @staticmethod
    def of_slice(values: Tensor, numerator_gradient: Tensor, shift: Tensor) -> Backward:
        values, tokens = rows(values), numerator_gradient.contiguous()
        return Backward("slice", values, tokens, shift.contiguous(), values, tokens)

    @staticmethod
    def of_deslice(output_gradient: Tensor, tokens: Tensor) -> Backward:
        gradient, tokens = rows(output_gradient), tokens.contiguous()
        return Backward("deslice", gradient, tokens, tokens, gradient, tokens)

    @staticmethod
    def of_pair(of_slice: Backward, of_deslice: Backward) -> Backward:
        gradient, tokens = of_deslice.rows, of_deslice.tokens
        return replace(of_slice, kind="pair", output_gradient=gradient, output_tokens=tokens)

    @property
    def tile_prefix(self) -> str:
        """A pair holds more in registers and has tiles of its own."""
        return "pair_" if self.kind == "pair" else ""

    def centred(self) -> tuple[Backward, Tensor]:
        """Tokens and shift less their mean over the slots, and the mean of the tokens."""
        mean = self.tokens.float().mean(-2)
        tokens = self.tokens.float() - mean[..., None, :]
        if self.kind == "deslice":
            return replace(self, tokens=tokens, shift=tokens, output_tokens=tokens), mean
        shift = self.shift - self.shift.mean(-1, keepdim=True)
        output = self.output_tokens.float()
        output = tokens if self.kind == "slice" else output - output.mean(-2, keepdim=True)
        return replace(self, tokens=tokens, shift=shift, output_tokens=output), mean

    def strides(self, heads: int) -> tuple[int, ...]:
        return (*row_strides(self.rows, heads), *row_strides(self.output_gradient, heads))

    def token_sizes(self, slices: int) -> list[int]:
        """How many numbers of the tokens' gradient a kernel leaves: those of deslice only."""
        return [slices * self.rows.shape[-1]] if self.kind == "deslice" else []


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
    return numerator.sum(2).unflatten(-1, (slices, width)), mass.sum(2)


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
    query_gradient = o.query.new_empty(o.batch, o.points, o.heads, o.width)
    rows_gradient = query_gradient if of.kind == "deslice" else torch.empty_like(query_gradient)
    run(
        single_tile.backward, (parts * o.heads, o.batch), tile,
        o.query, of.rows, of.tokens, of.shift, of.output_gradient, of.output_tokens,
        *o.pointers(), query_gradient, rows_gradient, partial, o.points, o.heads, parts,
        *o.query_strides(), *of.strides(o.heads), *o.slot_strides(),
        **o.products(), OF=of.kind, G=slices, D=o.width, V=width,
    )  # fmt: skip
    return _summed(o, query_gradient, rows_gradient, partial.split(sizes, -1))


# --- blocked ---------------------------------------------------------------------------------


def statistics(o: Operands) -> Tensor:
    """(2, B, H, N): the largest logit, in units of log 2, and the sum of exponentials."""
    tile = o.tile("blocked/statistics", o.width)
    out = o.buffer(2, o.batch, o.heads, o.points)
    constants = {k: v for k, v in o.products().items() if k != "VALUES"}
    run(
        blocked_forward.statistics, (_ceil(o.points, tile.points), o.heads, o.batch), tile,
        o.query, *o.pointers(), out[0], out[1], o.points, o.heads, o.slices,
        *o.query_strides(), *o.slot_strides(),
        **constants, D=o.width, BD=_padded(o.width), BG=_slots(o, tile),
    )  # fmt: skip
    return out


def slice_blocked(o: Operands, values: Tensor, stats: Tensor) -> tuple[Tensor, Tensor]:
    values = rows(values)
    width, slices = values.shape[-1], o.slices
    partial = _slot_owned_sums(
        o, values, blocked_forward.slice_forward, "slice_forward", (stats[0], stats[1]), width + 1
    )
    numerator, mass = partial.split((slices * width, slices), -1)
    return numerator.sum(2).unflatten(-1, (slices, width)), mass.sum(2)


def slice_over_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    """The numerator, normalised over all points, and the normalisers (2, B, H, G).

    Those are the largest logit of a slot, in units of log 2, and the sum of exponentials.
    """
    values = rows(values)
    width, slices = values.shape[-1], o.slices
    kernel = blocked_forward.slice_forward_over_points
    partial = _slot_owned_sums(o, values, kernel, "slice_forward_over_points", (), width + 2)
    sums, largest, total = partial.split((slices * width, slices, slices), -1)
    overall = largest.amax(2)
    scale = (largest - overall[:, :, None]).exp2()
    normalizer = (total * scale).sum(2)
    numerator = (sums.unflatten(-1, (slices, width)) * scale[..., None]).sum(2)
    return numerator / normalizer[..., None], torch.stack((overall, normalizer))


def log_normalizer(normalizers: Tensor) -> Tensor:
    """(B, H, G), natural, of what `slice_over_points` gives."""
    return normalizers[0] * LOG_2 + normalizers[1].log()


def centres(normalizers: Tensor, points: int) -> Tensor:
    """The logarithm of the mean exponential of each slot, (B, H, G), in units of log 2."""
    return normalizers[0] + normalizers[1].log2() - math.log2(points)


def deslice_blocked(o: Operands, tokens: Tensor, stats: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output, and the statistics: those given, or those found on the way."""
    tokens = tokens.contiguous()
    width = tokens.shape[-1]
    tile = o.tile("blocked/deslice_forward", width)
    out = o.query.new_empty(o.batch, o.points, o.heads, width)
    found = o.buffer(2, o.batch, o.heads, o.points) if stats is None else stats
    run(
        blocked_forward.deslice_forward, (_ceil(o.points, tile.points), o.heads, o.batch), tile,
        o.query, tokens, *o.pointers(), out, found[0], found[1], o.points, o.heads, o.slices,
        *o.query_strides(), *o.slot_strides(), HAS_STATISTICS=stats is not None,
        **o.products(), D=o.width, BD=_padded(o.width), V=width, BV=_padded(width),
        BG=_slots(o, tile),
    )  # fmt: skip
    return out, found


def backward_blocked(
    o: Operands, of: Backward, normalizers: Tensor, *, over_points: bool = False
) -> Gradients:
    """`normalizers`: largest logit and sum, of every point (2, B, H, N) or every slot (2, B, H, G).

    Over the points the temperature's gradient is against logits less `centres`.
    """
    m, row_sum = normalizers.unbind(0)
    if over_points:
        correction, mean_tokens = centres(normalizers, o.points), of.tokens
    else:
        correction = o.buffer(o.batch, o.heads, o.points)
        of, mean_tokens = of.centred()
    width = of.rows.shape[-1]
    query_gradient = o.query.new_empty(o.batch, o.points, o.heads, o.width)
    rows_gradient = query_gradient if of.kind == "deslice" else of.rows.new_empty(of.rows.shape)
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
        blocked_backward.backward_points, (_ceil(o.points, tile.points), o.heads, o.batch), tile,
        *reads, query_gradient, rows_gradient, o.points, o.heads, o.slices, *strides,
        **constants, BG=_slots(o, tile),
    )  # fmt: skip
    tile = o.tile(f"blocked/{of.tile_prefix}backward_slots", width)
    blocks = _ceil(o.slices, _slots(o, tile))
    parts = o.parts(tile, o.batch * o.heads * blocks)
    sizes = [o.slices * o.width, o.slices, o.slices] + of.token_sizes(o.slices)
    partial = o.buffer(o.batch, o.heads, parts, sum(sizes))
    run(
        blocked_backward.backward_slots, (parts, blocks, o.batch * o.heads), tile,
        *reads, partial, o.points, o.heads, o.slices, parts, *strides,
        **constants, BG=_slots(o, tile),
    )  # fmt: skip
    return _summed(o, query_gradient, rows_gradient, partial.split(sizes, -1))


def _slots(o: Operands, tile: Tile) -> int:
    """BG: the tile's, or fewer where there are fewer slots."""
    return min(tile.slots, max(16, 1 << (o.slices - 1).bit_length()))


def _slot_owned_sums(
    o: Operands,
    values: Tensor,
    kernel: Callable[..., Any],
    name: str,
    stats: tuple[Tensor, ...],
    columns: int,
) -> Tensor:
    width = values.shape[-1]
    tile = o.tile(f"blocked/{name}", width)
    blocks = _ceil(o.slices, _slots(o, tile))
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


def _summed(o: Operands, query: Tensor, rows: Tensor, partial: tuple[Tensor, ...]) -> Gradients:
    """Sums over the parts: slot weight, slot bias, temperature and, of deslice, tokens."""
    weight, bias, temperature, *tokens = partial
    of_bias = bias.new_empty(0) if o.slot_bias is None else _of_parameter(bias, o.slot_bias, 1)
    return (
        shared_heads(query, o.query),
        tokens[0].sum(2).unflatten(-1, (o.slices, -1)) if tokens else rows,
        _of_parameter(weight, o.slot_weight, 2),
        of_bias,
        temperature.sum((0, 2, 3)).to(o.temperature.dtype),
    )


def _of_parameter(partial: Tensor, parameter: Tensor, tail: int) -> Tensor:
    """Sum (B, H, parts, ...) over the parts and the axes that the parameter's layout lacks."""
    lacking = tuple(range(2 - (parameter.ndim - tail)))
    return partial.sum((*lacking, 2)).view(parameter.shape).to(parameter.dtype)


def gradients(
    o: Operands, query: Tensor, other: Tensor, weight: Tensor, bias: Tensor, temperature: Tensor
) -> Gradients:
    """Those of the parameters, (B, H, G, D), (B, H, G) and (H), in the parameters' own layout."""
    return (
        shared_heads(query, o.query),
        other,
        to_layout(weight, o.slot_weight),
        bias.new_empty(0) if o.slot_bias is None else to_layout(bias, o.slot_bias),
        temperature.to(o.temperature.dtype),
    )
