"""Membership is a value: what determines the slice weights, never the weights themselves.

weights[b, h, n, g] = softmax( (slot_weight[g] . query[b, n, h] + slot_bias[g]) / temperature[h] ),
over the slots g of each point (Transolver) or over the points n of each slot (LinearNO).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from slipstream.core.checks import ANY, check_choice, check_floating, check_like, check_shape
from slipstream.core.shapes import Float

Axis = Literal["slots", "points"]
_AXES = get_args(Axis)
MASKED = -1e25
"""The least slot bias that is told from another: exp of it is zero, and zero times it is zero."""
Reduce = Callable[[Tensor], Tensor]
"""A tensor to the same tensor reduced over all ranks, with a gradient where one is wanted."""


@dataclass(frozen=True, eq=False)
class Membership:
    """How strongly each of N points belongs to each of G slots, per head. Checked when made.

    There may be no points: of a sample's, all may be elsewhere. Their sums are zero. B is the
    clouds of a batch, N the points of each, H the heads, D the width of a head, G its slots.

    query        B N H D, or B N 1 D when the heads share it
    slot_weight  G D, H G D or B H G D
    slot_bias    G, H G or B H G, or None
    temperature  H
    over         the axis whose weights sum to one: the "slots" of a point or the "points" of a slot
    statistics   2 B H N, or None: largest logit and sum of exponentials, saved by `with_statistics`
                 for the other fields: whoever replaces one of those makes these None
    """

    query: Float[Tensor, "B N Hq D"]
    slot_weight: Float[Tensor, "*Lw G D"]
    slot_bias: Float[Tensor, "*Lb G"] | None
    temperature: Float[Tensor, " H"]
    over: Axis = "slots"
    statistics: Float[Tensor, "2 B H N"] | None = None

    def __post_init__(self) -> None:
        check_choice("over", self.over, _AXES)
        check_shape("temperature", self.temperature, "H", (None,))
        check_shape("query", self.query, "B N H D", (None, ANY, None, None))
        check_floating("query", self.query)
        batch, points, query_heads, width = self.query.shape
        if query_heads not in (1, self.heads):
            raise ValueError(
                f"query must have 1 or H = {self.heads} heads (as temperature has), got"
                f" {query_heads}"
            )
        _check_layout("slot_weight", self.slot_weight, (batch, self.heads, None, width), "B H G D")
        if self.slot_bias is not None:
            _check_layout("slot_bias", self.slot_bias, (batch, self.heads, self.slices), "B H G")
            check_like("slot_bias", self.slot_bias, "query", self.query)
        check_like("slot_weight", self.slot_weight, "query", self.query)
        check_like("temperature", self.temperature, "query", self.query)
        if self.statistics is not None:
            sizes = (2, batch, self.heads, points)
            check_shape("statistics", self.statistics, "2 B H N", sizes)
            if self.statistics.device != self.query.device:
                raise ValueError(
                    f"statistics must be on device {self.query.device} like query, got"
                    f" {self.statistics.device}"
                )
            if self.statistics.dtype != torch.float32:
                raise ValueError(
                    f"statistics must have dtype torch.float32, got {self.statistics.dtype}"
                )

    @property
    def heads(self) -> int:
        return self.temperature.shape[0]

    @property
    def slices(self) -> int:
        return self.slot_weight.shape[-2]


def _check_layout(name: str, tensor: Tensor, sizes: tuple[int | None, ...], letters: str) -> None:
    """Check `tensor` against `sizes`, where the leading B, or B and H, may be absent."""
    if not isinstance(tensor, Tensor) or not len(sizes) - 2 <= tensor.ndim <= len(sizes):
        axes = letters.split()
        layouts = " or ".join("(" + ", ".join(axes[skip:]) + ")" for skip in (2, 1, 0))
        got = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ValueError(f"{name} must have shape {layouts}, got {got}")
    absent = len(sizes) - tensor.ndim
    check_shape(name, tensor, letters[2 * absent :], sizes[absent:])


@dataclass(frozen=True, eq=False)
class TokenSums:
    """What slicing gives: per slot, the weighted sum of the values and the sum of the weights.

    Sums over disjoint sets of points add up (`+`), so that one sample can be streamed in chunks or
    sharded over devices (`reduced`); dividing comes last. Sums are fp32 at least, whatever the
    inputs are: added up over 2,048 chunks in bf16 they would be off by 0.6, in fp32 by 7e-5. Only
    `tokens` casts, to `dtype`. Weights normalised over the points are normalised over the points
    *seen*: their `log_normalizer`, the logarithm of the sum of exponentials, makes two such sums
    comparable.
    """

    numerator: Float[Tensor, "B H G V"]
    """(B, H, G, V): sum over the points of weight times value."""
    mass: Float[Tensor, "B H G"]
    """(B, H, G): sum over the points of the weights."""
    log_normalizer: Float[Tensor, "B H G"] | None = None
    """(B, H, G), of weights that are normalised over the points; None over the slots."""
    dtype: torch.dtype | None = None
    """Of the tokens: that of the values. None: that of the sums."""

    def tokens(self, epsilon: float = 0.0) -> Float[Tensor, "B H G V"]:
        """The weighted means, numerator / (mass + epsilon).

        Over the points the mass is one: without an epsilon the numerator is the mean already.
        """
        tokens = self.numerator
        if self.log_normalizer is None or epsilon:
            tokens = tokens / (self.mass + epsilon)[..., None]
        return tokens if self.dtype is None else tokens.to(self.dtype)

    def reduced(self, total: Reduce, largest: Reduce) -> TokenSums:
        """The sums over the points of all ranks, from the functions that reduce over these.

        `total` adds a tensor up over the ranks, `largest` takes its maximum. One message of
        B H G (V + 1) numbers; over the points first the largest normalisers, to which all ranks
        scale what they add, and then one number a slot more.
        """
        if self.log_normalizer is None:
            summed = total(torch.cat((self.numerator, self.mass[..., None]), -1))
            return replace(self, numerator=summed[..., :-1], mass=summed[..., -1])
        top = largest(self.log_normalizer.detach())
        share = (self.log_normalizer - top).exp()[..., None]
        columns = (self.numerator * share, self.mass[..., None] * share, share)
        summed = total(torch.cat(columns, -1))
        means, normalizer = summed[..., :-1] / summed[..., -1:], summed[..., -1]
        return replace(
            self,
            numerator=means[..., :-1],
            mass=means[..., -1],
            log_normalizer=top + normalizer.log(),
        )

    def __radd__(self, other: object) -> TokenSums:
        """`sum` begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __add__(self, other: TokenSums) -> TokenSums:
        if not isinstance(other, TokenSums):
            return NotImplemented
        if self.numerator.shape != other.numerator.shape:
            raise ValueError(
                f"the other TokenSums must have a numerator of shape {tuple(self.numerator.shape)},"
                f" got {tuple(other.numerator.shape)}"
            )
        mine, theirs = self.log_normalizer, other.log_normalizer
        if (mine is None) != (theirs is None):
            raise ValueError(
                "the other TokenSums must be normalised over the same axis, got one over the slots"
                " and one over the points"
            )
        if mine is None or theirs is None:
            numerator, mass = self.numerator + other.numerator, self.mass + other.mass
            return replace(self, numerator=numerator, mass=mass)
        total = torch.logaddexp(mine, theirs)
        my_share, their_share = (mine - total).exp(), (theirs - total).exp()
        numerator = self.numerator * my_share[..., None] + other.numerator * their_share[..., None]
        mass = self.mass * my_share + other.mass * their_share
        return replace(self, numerator=numerator, mass=mass, log_normalizer=total)


Complete = Callable[[TokenSums], TokenSums]
"""The sums of some points to those of all points of their samples, wherever the others are."""


def as_they_are(sums: TokenSums) -> TokenSums:
    """The sums of all points, where these are all."""
    return sums
