"""The operands of the kernels in the layout that they read, and the sums of what they write.

Every sum over points is split into `parts`. One program writes each part to its own row of an fp32
buffer, and torch adds the rows here in a fixed order, so that two runs agree to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.kernels.plan import PRODUCTS, Precision
from slipstream.kernels.tiles import Tile, TileTable, pick_tile, table_for

_NO_CHANGE = contextlib.nullcontext()


@dataclass(frozen=True)
class Operands:
    """The tensors that every kernel reads, in the layout that it reads, and their sizes."""

    query: Tensor
    slot_weight: Tensor
    slot_bias: Tensor | None
    temperature: Tensor
    precision: Precision
    batch: int
    points: int
    heads: int
    slices: int
    width: int
    tiles: Mapping[str, Tile]
    """Tiles by kernel to use instead of the table's; `slipstream bench tune` gives them."""

    @staticmethod
    def of(
        query: Tensor,
        slot_weight: Tensor,
        slot_bias: Tensor | None,
        temperature: Tensor,
        precision: str,
        tiles: Mapping[str, Tile] | None = None,
    ) -> Operands:
        batch, points, _, width = query.shape
        return Operands(
            rows(query),
            slot_weight.contiguous(),
            None if slot_bias is None else slot_bias.contiguous(),
            temperature.contiguous(),
            Precision(precision),
            batch,
            points,
            len(temperature),
            slot_weight.shape[-2],
            width,
            tiles or {},
        )

    def pointers(self) -> tuple[Tensor, ...]:
        """slot_weight, slot_bias, temperature; without a bias a pointer that no kernel reads."""
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
        return _table_of(self.query.device)

    def fits(self, family: str, value_width: int) -> bool:
        """Whether the table of this GPU has tiles of the family for these sizes.

        A plan that was made for another GPU, or for any GPU, may have assumed otherwise.
        """
        widest = max(self.width, value_width)
        return self.table.has_tiles(family, self.precision, self.slices, widest)

    def parts(self, tile: Tile, programs: int) -> int:
        """Into how many parts to split the points, when `programs` programs work on each part.

        With 132 multiprocessors, 4 programs on each and 8 programs for a part (B H = 8), the points
        go into 4 * 132 / 8 = 66 parts, or fewer where they have fewer tiles.
        """
        wanted = max(1, tile.per_sm * runtime.multiprocessors(self.query.device) // programs)
        return min(wanted, ceil_div(self.points, tile.points))

    def buffer(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=self.query.device)


@cache
def _table_of(device: torch.device) -> TileTable:
    return table_for(runtime.shared_memory(device))


def rows(tensor: Tensor) -> Tensor:
    """The tensor with a contiguous last axis, as the kernels need it; copied only if necessary."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def row_strides(tensor: Tensor, heads: int) -> tuple[int, int, int]:
    """Strides of B, N and H; 0 for the heads where they share the tensor."""
    b, n, h, _ = tensor.stride()
    return b, n, h if tensor.shape[2] == heads else 0


def device_guard(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Make the tensor's device the current one, on which Triton launches."""
    device = tensor.device
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _NO_CHANGE
    return torch.cuda.device(device)


def shared_heads(gradient: Tensor, query: Tensor) -> Tensor:
    """The gradient of a query; one that the heads share has the sum of their gradients."""
    if gradient.shape == query.shape:
        return gradient
    return gradient.sum(2, keepdim=True, dtype=torch.float32).to(query.dtype)


def _leading_strides(tensor: Tensor, tail: int) -> tuple[int, int]:
    """Strides of B and H of a (tail), (H, tail) or (B, H, tail) layout; 0 for an absent axis."""
    leading = tensor.stride()[: tensor.ndim - tail]
    return (0, 0, *leading)[-2:]  # type: ignore[return-value]


Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Gradients of query, values or tokens, slot weight, slot bias (empty without one), temperature."""


@dataclass(frozen=True)
class Backward:
    """The inputs of a backward kernel beside the operands; see `single_tile.backward`.

    `kind` says whose gradients it computes. Tensors that a kind does not need are set to others of
    its tensors, since a kernel must be given some pointer, and are never read.
    """

    kind: Literal["slice", "deslice", "pair"]
    rows: Tensor
    tokens: Tensor
    shift: Tensor
    output_gradient: Tensor
    output_tokens: Tensor
    mass: Tensor | None = None
    """(B, H, G), the mass of the slice, by which slots are weighted in `centred`."""
    joint: Tensor | None = None
    """(B, N, 2, H, D), whose halves are to be the gradients of query and values; None where each is
    to be a tensor of its own."""

    @staticmethod
    def of_slice(
        values: Tensor, numerator_gradient: Tensor, shift: Tensor, mass: Tensor
    ) -> Backward:
        values, tokens = rows(values), numerator_gradient.contiguous()
        return Backward("slice", values, tokens, shift.contiguous(), values, tokens, mass)

    @staticmethod
    def of_deslice(output_gradient: Tensor, tokens: Tensor) -> Backward:
        gradient, tokens = rows(output_gradient), tokens.contiguous()
        return Backward("deslice", gradient, tokens, tokens, gradient, tokens)

    @staticmethod
    def of_pair(of_slice: Backward, of_deslice: Backward) -> Backward:
        gradient, tokens = of_deslice.rows, of_deslice.tokens
        return replace(of_slice, kind="pair", output_gradient=gradient, output_tokens=tokens)

    @property
    def share(self) -> int:
        """How many gradients of a point lie side by side: 2 where they are halves of one tensor."""
        return 1 if self.joint is None else 2

    @property
    def tile_prefix(self) -> str:
        """The prefix of the kernel's tiles; a pair needs more registers and has its own."""
        return "pair_" if self.kind == "pair" else ""

    def centred(self) -> tuple[Backward, Tensor]:
        """Tokens and shift less their mean over the slots, and the mean of the tokens.

        The softmax's backward subtracts large numbers that are nearly equal; subtracting the mean
        first makes them small. Slots are weighted by their mass. The gradient of a numerator goes
        as one over the mass, so that of a slot with almost no points is many thousand times those
        of the others; it would dominate a plain mean, and the numbers would grow, not shrink.
        """
        tokens, share = self.tokens.float(), self._shares()
        mean = (share[..., None] * tokens).sum(-2)
        tokens = tokens - mean[..., None, :]
        if self.kind == "deslice":
            return replace(self, tokens=tokens, shift=tokens, output_tokens=tokens), mean
        shift = self.shift - (share * self.shift).sum(-1, keepdim=True)
        output = tokens
        if self.kind == "pair":
            output = self.output_tokens.float()
            output = output - (share[..., None] * output).sum(-2, keepdim=True)
        return replace(self, tokens=tokens, shift=shift, output_tokens=output), mean

    def _shares(self) -> Tensor:
        """(B, H, G), summing to one: shares of the mass, or equal ones for deslice.

        The tokens of a deslice are means already and have no such range.
        """
        if self.mass is None:
            slices = self.tokens.shape[-2]
            return self.tokens.new_full((slices,), 1 / slices, dtype=torch.float32)
        return self.mass / self.mass.sum(-1, keepdim=True)

    def gradients(self, query: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Unwritten tensors for the gradients of `query`, whose heads have this width, and rows."""
        if self.joint is not None:
            return self.joint[:, :, 0], self.joint[:, :, 1]
        of_query = query.new_empty(*self.rows.shape[:3], width)
        if self.kind == "deslice":
            return of_query, of_query
        return of_query, self.rows.new_empty(self.rows.shape)

    def strides(self, heads: int) -> tuple[int, ...]:
        return (*row_strides(self.rows, heads), *row_strides(self.output_gradient, heads))

    def token_sizes(self, slices: int) -> list[int]:
        """How many numbers a kernel writes for the gradient of the tokens: for deslice only."""
        return [slices * self.rows.shape[-1]] if self.kind == "deslice" else []


def ceil_div(total: int, block: int) -> int:
    return -(-total // block)


def summed_gradients(
    o: Operands, query: Tensor, rows: Tensor, partial: Sequence[Tensor]
) -> Gradients:
    """The gradients in the layouts of the parameters, summed over the parts.

    `partial` holds those of slot weight, slot bias, temperature and, for deslice, tokens, each
    (B, H, parts, numbers). `rows` is the gradient of the values, unused for deslice.
    """
    weight, bias, temperature, *tokens = partial
    of_bias = bias.new_empty(0) if o.slot_bias is None else to_layout(bias, o.slot_bias, 1)
    return (
        shared_heads(query, o.query),
        tokens[0].sum(2).view(*tokens[0].shape[:2], o.slices, -1) if tokens else rows,
        to_layout(weight, o.slot_weight, 2),
        of_bias,
        temperature.sum((0, 2, 3)).to(o.temperature.dtype),
    )


def to_layout(partial: Tensor, parameter: Tensor, tail: int) -> Tensor:
    """Sum (B, H, parts, ...) over the parts and the axes that the parameter's layout lacks."""
    lacking = tuple(range(2 - (parameter.ndim - tail)))
    return partial.sum((*lacking, 2)).view(parameter.shape).to(parameter.dtype)
