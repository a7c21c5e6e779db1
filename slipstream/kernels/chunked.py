"""Slice and deslice on a CPU: plain PyTorch over chunks of points whose weights stay in the cache.

The weights (N, H, G) are formed a chunk at a time and used at once; gradients are computed by
formula, from weights formed again. Where the weights are no larger than the query they replace
(H G <= the query's width) the first pass keeps them, and later passes read them.

The points go in `PARTS` parts to threads, and every part sums by itself; partial sums are added up
in a fixed order, so that no result depends on the number of threads.

Everything here is given in one form: slot weights and biases are divided by the temperature, and
sums are fp32 at least. With p = softmax(logits), and dw the gradient of p:

    over the slots     dlogits = p (dw - sum over the slots of p dw)
    over the points    dlogits = p (dw - sum over the points of p dw), a number a slot: `shift`

Measured on two x86 cores (AMD EPYC, 1 MB of L2 a core, 2026-11-18), N = 32,768, one layer of width
256 in training: 0.44 CPU seconds at G = 32, where flashslice's eager layer takes 0.91.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from slipstream.kernels.membership import Axis
from slipstream.kernels.threads import run_parts

WEIGHT_BYTES = 1 << 20
"""Of the weights of a chunk: about a core's second-level cache. Times differ by 5 % between 0.5 and
2 MB; with 16 MB the backward pass takes a fifth longer at G = 256 (AMD EPYC, 2026-11-18)."""
FEWEST, MOST = 64, 2048
"""Points of a chunk, whatever its weights take."""
PARTS = 16
"""Into which the points of all samples go, or more where there are more samples."""

softmax_backward = torch.ops.aten._softmax_backward_data.out

Term = tuple[Tensor, Tensor]
"""Rows (B, N, H or 1, V) and tokens (B, H, G, V) whose products are gradients of the weights."""


@dataclass(frozen=True)
class Slotted:
    """What determines the weights of N points.

    query           B N H D, or B N 1 D when the heads share it
    weight          B H G D or 1 H G D, divided by the temperature
    bias            B H G or 1 H G, divided by the temperature, or None
    kept            B N H G: the weights themselves where an earlier pass kept them, or None
    log_normalizer  B H G: over the points, what the weights of a slot are normalised by; else None
    """

    query: Tensor
    weight: Tensor
    bias: Tensor | None
    over: Axis = "slots"
    kept: Tensor | None = None
    log_normalizer: Tensor | None = None

    @property
    def batch(self) -> int:
        return self.query.shape[0]

    @property
    def heads(self) -> int:
        return self.weight.shape[1]

    @property
    def slices(self) -> int:
        return self.weight.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """Of all products and sums."""
        return self.weight.dtype

    def partial_sums(self, *shape: int) -> Tensor:
        """(B, parts, H, G, ...): zeros, for every part to add to its own."""
        parts = len(self._spans())
        return self.weight.new_zeros(self.batch, parts, self.heads, self.slices, *shape)

    def parts(self) -> list[_Part]:
        return [
            _Part(self, sample, index, span)
            for sample in range(self.batch)
            for index, span in enumerate(self._spans())
        ]

    def _spans(self) -> list[range]:
        """The first points of the chunks of every part of a sample."""
        points = self.query.shape[1]
        size = chunk_size(self.heads, self.slices, self.weight.element_size())
        chunks = max(1, -(-points // size))
        parts = min(chunks, max(1, PARTS // max(1, self.batch)))
        bounds = [chunks * part // parts * size for part in range(parts + 1)]
        return [range(first, min(end, points), size) for first, end in pairwise(bounds)]


def chunk_size(heads: int, slices: int, element_size: int) -> int:
    """Points of a chunk: a power of two.

    With H = 8 and fp32 they are 1,024 at G = 32 and 128 at G = 256.
    """
    fitting = WEIGHT_BYTES // (heads * slices * element_size)
    return min(MOST, max(FEWEST, 1 << max(fitting, 1).bit_length() - 1))


@dataclass(frozen=True)
class _Slots:
    """The slots of one sample, in the forms that products need."""

    weight: Tensor
    """H G D."""
    bias: Tensor | None
    """H G."""
    log_normalizer: Tensor | None

    @staticmethod
    def of(slotted: Slotted, sample: int) -> _Slots:
        def own(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            return tensor[sample if tensor.shape[0] > 1 else 0].contiguous()

        weight = own(slotted.weight)
        assert weight is not None
        return _Slots(weight, own(slotted.bias), own(slotted.log_normalizer))


@dataclass(frozen=True)
class _Part:
    """Some chunks of one sample, one after another."""

    of: Slotted
    sample: int
    index: int
    firsts: range

    @property
    def place(self) -> tuple[int, int]:
        """Where its sums are among the partial ones."""
        return self.sample, self.index

    def chunks(self) -> Iterator[_Chunk]:
        slots, buffers = _Slots.of(self.of, self.sample), _Buffers(self.of, self.firsts.step)
        for first in self.firsts:
            points = slice(first, min(first + self.firsts.step, self.of.query.shape[1]))
            yield _Chunk(self.of, slots, buffers, self.sample, points)


class _Buffers:
    """Three arrays of a chunk's weights that its chunks share, one after another.

    Made anew for every chunk, they would be mapped and cleared by the system each time, and each
    thread would keep several: 50 MB with two threads and chunks of 2 MB, where these took 12.
    """

    def __init__(self, of: Slotted, points: int) -> None:
        self._sizes = points * of.heads * of.slices, of.weight
        self._made: dict[str, Tensor] = {}

    def view(self, name: Literal["logits", "weights", "gradients"], *shape: int) -> Tensor:
        """The first numbers of an array, in this shape. What they hold is anybody's."""
        if name not in self._made:
            size, like = self._sizes
            self._made[name] = like.new_empty(size)
        return self._made[name][: math.prod(shape)].view(shape)


@dataclass(frozen=True)
class _Chunk:
    """Some points of one sample.

    Weights and their gradients are (n, H, G) where the heads share the query, so that one product
    serves all heads, else (H, n, G). Rows are (n, V) where the heads share them, else (H, n, V).
    """

    of: Slotted
    slots: _Slots
    buffers: _Buffers
    sample: int
    points: slice

    @property
    def point_major(self) -> bool:
        return self.of.query.shape[2] == 1

    def buffer(self, name: Literal["logits", "weights", "gradients"]) -> Tensor:
        """Room for numbers in the form of the weights."""
        count, heads, slices = self.points.stop - self.points.start, self.of.heads, self.of.slices
        if self.point_major:
            return self.buffers.view(name, count, heads, slices)
        return self.buffers.view(name, heads, count, slices)

    def rows(self, tensor: Tensor) -> Tensor:
        rows = tensor[self.sample, self.points].to(self.of.dtype)
        return rows[:, 0] if rows.shape[1] == 1 else rows.transpose(0, 1)

    def logits(self) -> Tensor:
        query, bias = self.rows(self.of.query), self.slots.bias
        return self._add_products(self.buffer("logits"), query, self.slots.weight, bias)

    def _add_products(
        self, out: Tensor, rows: Tensor, tokens: Tensor, start: Tensor | None
    ) -> Tensor:
        """Fills `out`, of the form of the weights, with rows . tokens, plus a start (H, G)."""
        if rows.ndim == 2 and self.point_major:
            flat = out.view(len(out), -1)
            transposed = tokens.flatten(0, 1).t()
            if start is None:
                torch.mm(rows, transposed, out=flat)
            else:
                torch.addmm(start.flatten(), rows, transposed, out=flat)
            return out
        rows = rows.expand(len(tokens), -1, -1) if rows.ndim == 2 else rows
        target, transposed = self.by_head(out), tokens.transpose(1, 2)
        if start is None:
            torch.bmm(rows, transposed, out=target)
        else:
            torch.baddbmm(start[:, None], rows, transposed, out=target)
        return out

    def weights(self) -> Tensor:
        if self.of.kept is not None:
            kept = self.of.kept[self.sample, self.points]
            return kept if self.point_major else kept.transpose(0, 1)
        logits = self.logits()
        if self.of.over == "slots":
            return torch.softmax(logits, -1, out=self.buffer("weights"))
        normalizer = self.slots.log_normalizer
        assert normalizer is not None, "over the points the normaliser must be known"
        return logits.sub_(normalizer if self.point_major else normalizer[:, None]).exp_()

    def keep(self, weights: Tensor, kept: Tensor) -> None:
        kept[self.sample, self.points] = weights if self.point_major else weights.transpose(0, 1)

    def by_head(self, weights: Tensor) -> Tensor:
        """(H, n, G)."""
        return weights.transpose(0, 1) if self.point_major else weights

    def by_point(self, weights: Tensor) -> Tensor:
        """(n, H G)."""
        return (weights if self.point_major else weights.transpose(0, 1)).flatten(1)

    def add_to_slots(self, sums: Tensor, weights: Tensor, rows: Tensor) -> None:
        """sums (H, G, V) += the rows, weighted and summed over the points."""
        if rows.ndim == 2:
            sums.flatten(0, 1).addmm_(self.by_point(weights).t(), rows)
        else:
            sums.baddbmm_(self.by_head(weights).transpose(1, 2), rows)

    def weight_gradient(self, terms: Sequence[Term], shift: Tensor | None) -> Tensor:
        """rows . tokens, in the form of the weights, summed over the terms; plus the shift."""
        out = self.buffer("gradients")
        start = None if shift is None else shift[self.sample]
        for number, (rows, tokens) in enumerate(terms):
            own_rows, own_tokens = self.rows(rows), tokens[self.sample].to(self.of.dtype)
            if number == 0:
                self._add_products(out, own_rows, own_tokens, start)
            elif own_rows.ndim == 2 and self.point_major:
                out.view(len(out), -1).addmm_(own_rows, own_tokens.flatten(0, 1).t())
            else:
                both = own_rows.expand(len(own_tokens), -1, -1) if own_rows.ndim == 2 else own_rows
                self.by_head(out).baddbmm_(both, own_tokens.transpose(1, 2))
        return out

    def write_rows(
        self, out: Tensor, weights: Tensor, tokens: Tensor, *, add: bool = False
    ) -> None:
        """The weighted sum of the slots' tokens (H, G, V) at every point, into out (B, N, ., V).

        Summed over the heads where `out` has room for one.
        """
        target = out[self.sample, self.points]
        if target.shape[1] == 1:
            flat, tokens = self.by_point(weights), tokens.flatten(0, 1)
            into = target[:, 0]
            if add:
                into.addmm_(flat, tokens)
            elif into.dtype == flat.dtype:
                torch.mm(flat, tokens, out=into)
            else:
                into.copy_(flat @ tokens)
            return
        rows = torch.bmm(self.by_head(weights), tokens).transpose(0, 1)
        target.add_(rows) if add else target.copy_(rows)


def slice_points(
    slotted: Slotted, rows: Tensor, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Numerator (B, H, G, V) and mass (B, H, G); the weights go into `kept` where it is given."""
    numerators, masses = slotted.partial_sums(rows.shape[-1]), slotted.partial_sums()

    def work(part: _Part) -> None:
        numerator, mass = numerators[part.place], masses[part.place]
        for chunk in part.chunks():
            weights = chunk.weights()
            if kept is not None:
                chunk.keep(weights, kept)
            chunk.add_to_slots(numerator, weights, chunk.rows(rows))
            mass += chunk.by_head(weights).sum(1)

    run_parts(work, slotted.parts())
    return numerators.sum(1), masses.sum(1)


def slice_over_points(slotted: Slotted, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numerator (B, H, G, V), empty without rows, and log normaliser (B, H, G), in one pass.

    The sums of a part are in units of the exponential of its largest logit so far; a chunk with a
    larger one makes them smaller. Without points the numerator is zero, and the normaliser the
    logarithm of it.
    """
    numerators = slotted.partial_sums(0 if rows is None else rows.shape[-1])
    totals, tops = slotted.partial_sums(), slotted.partial_sums().fill_(-torch.inf)
    if not slotted.query.shape[1]:
        return numerators.sum(1), tops.amax(1)

    def work(part: _Part) -> None:
        numerator, total, top = numerators[part.place], totals[part.place], tops[part.place]
        for chunk in part.chunks():
            logits = chunk.by_head(chunk.logits())
            new = torch.maximum(top, logits.amax(1))
            scale = (top - new).exp_()
            exponentials = logits.sub_(new[:, None]).exp_()
            total.mul_(scale).add_(exponentials.sum(1))
            if rows is not None:
                weights = exponentials.transpose(0, 1) if chunk.point_major else exponentials
                chunk.add_to_slots(numerator.mul_(scale[..., None]), weights, chunk.rows(rows))
            top.copy_(new)

    run_parts(work, slotted.parts())
    top = tops.amax(1, keepdim=True)
    scale = (tops - top).exp()
    total = (totals * scale).sum(1)
    numerator = (numerators * scale[..., None]).sum(1) / total[..., None]
    return numerator, top[:, 0] + total.log()


def deslice_tokens(slotted: Slotted, tokens: Tensor, out: Tensor) -> Tensor:
    """Fills out, (B, N, H, V), or (B, N, 1, V) for the sum over the heads."""
    tokens = tokens.to(slotted.dtype)

    def work(part: _Part) -> None:
        for chunk in part.chunks():
            chunk.write_rows(out, chunk.weights(), tokens[part.sample])

    run_parts(work, slotted.parts())
    return out


@dataclass(frozen=True)
class Gradients:
    """Of query, slot weight, slot bias, and of the rows of the first term where they are wanted."""

    query: Tensor
    weight: Tensor
    bias: Tensor
    rows: Tensor | None


def backward(
    slotted: Slotted,
    terms: Sequence[Term],
    shift: Tensor | None,
    rows: Tensor | None,
    mass: Tensor | None = None,
) -> Gradients:
    """Gradients from those of the weights: the products of the terms, plus the shift.

    The gradient of the first term's rows goes into `rows` where it is given; where those rows are
    the query itself, it is added to the query's. `mass` (B, H, G) is that of the slice, if any.
    """
    first_rows, first_tokens = terms[0][0], terms[0][1].to(slotted.dtype)
    is_query = rows is None and first_rows is slotted.query
    of_query = slotted.query.new_empty(slotted.query.shape, dtype=slotted.dtype)
    weight_sums = slotted.partial_sums(slotted.weight.shape[-1])
    bias_sums = slotted.partial_sums()
    slot_weight = slotted.weight.expand(slotted.batch, -1, -1, -1)
    if mass is not None and slotted.over == "slots":
        terms, shift = _centred(terms, shift, mass)

    def work(part: _Part) -> None:
        for chunk in part.chunks():
            weights = chunk.weights()
            of_weights = chunk.weight_gradient(terms, shift)
            if slotted.over == "slots":
                of_logits = chunk.buffer("logits")  # whose logits nobody needs any more
                softmax_backward(of_weights, weights, -1, slotted.dtype, grad_input=of_logits)
            else:
                of_logits = of_weights.mul_(weights)
            chunk.write_rows(of_query, of_logits, slot_weight[part.sample])
            if is_query:
                chunk.write_rows(of_query, weights, first_tokens[part.sample], add=True)
            elif rows is not None:
                chunk.write_rows(rows, weights, first_tokens[part.sample])
            chunk.add_to_slots(weight_sums[part.place], of_logits, chunk.rows(slotted.query))
            bias_sums[part.place] += chunk.by_head(of_logits).sum(1)

    run_parts(work, slotted.parts())
    bias_shape = slotted.weight.shape[:3] if slotted.bias is None else slotted.bias.shape
    return Gradients(
        of_query.to(slotted.query.dtype),
        _as_given(weight_sums, slotted.weight.shape),
        _as_given(bias_sums, bias_shape),
        rows,
    )


def _centred(
    terms: Sequence[Term], shift: Tensor | None, mass: Tensor
) -> tuple[list[Term], Tensor | None]:
    """Tokens and shift less their means over the slots.

    The weights of a point sum to one, so that what all slots have in common moves no logit; taken
    off here it need not cancel at every point. A slot counts by its mass: the gradient of a
    numerator is one over the mass, and in a plain mean slots without points would drown the others.
    A deslice by itself has no mass, and is left as it is.
    """
    share = mass / mass.sum(-1, keepdim=True)
    weighted = [(rows, tokens, (share[..., None] * tokens).sum(-2, True)) for rows, tokens in terms]
    if shift is not None:
        shift = shift - (share * shift).sum(-1, keepdim=True)
    return [(rows, tokens - mean) for rows, tokens, mean in weighted], shift


def _as_given(partial: Tensor, shape: Sequence[int]) -> Tensor:
    """Summed over the parts, and over the samples where all share what the gradient is of."""
    return partial.sum((0, 1) if shape[0] == 1 else 1).view(*shape)
