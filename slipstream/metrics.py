"""Relative L1 and L2 error per sample and group, and their mean: both the metric and the loss.

error[s, g] = ||prediction - target|| / ||target||, the norms taken over the points of sample s and
the channels of group g. Channels in no group, and points outside the mask, do not count. Numerator
and denominator are sums over points, so a sample larger than memory is measured chunk by chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slipstream.core.checks import ANY, check_choice, check_finite, check_like, check_shape
from slipstream.core.shapes import Bool, Float

Groups = Mapping[str, Sequence[int]]
Order = Literal[1, 2]
OnZero = Literal["error", "skip"]


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """Sums of |prediction - target|^order and |target|^order, per sample and group."""

    difference: Float[Tensor, "S G"]
    reference: Float[Tensor, "S G"]
    order: Order

    def __add__(self, other: ErrorSums) -> ErrorSums:
        """The sums over both sets of points of the same samples."""
        if self.order != other.order:
            raise ValueError(f"the other ErrorSums must have order {self.order}, got {other.order}")
        return ErrorSums(
            self.difference + other.difference, self.reference + other.reference, self.order
        )

    def relative(self) -> tuple[Float[Tensor, "S G"], Bool[Tensor, "S G"]]:
        """The relative errors, and where they are defined; 0 where the target is all zero."""
        defined = self.reference != 0  # NaN is defined, and stays NaN
        ratio = self.difference / self.reference.masked_fill(~defined, 1)
        ratio = ratio.masked_fill(~defined, 0)
        if self.order == 2:
            # The root's slope is infinite at 0: a perfect sample must have a slope of 0, not NaN.
            some = ratio != 0  # NaN stays NaN
            ratio = ratio.masked_fill(~some, 1).sqrt().masked_fill(~some, 0)
        return ratio, defined

    def mean(self) -> Float[Tensor, ""]:
        """The mean relative error over samples and groups, of those where it is defined."""
        errors, defined = self.relative()
        return errors.sum() / defined.sum().clamp(min=1)


def error_sums(
    prediction: Float[Tensor, "S N K"],
    target: Float[Tensor, "S N K"],
    groups: Groups,
    *,
    order: Order = 1,
    mask: Bool[Tensor, "S N"] | None = None,
) -> ErrorSums:
    """The two sums of the metric, in fp32 at least. Shapes are checked, values are not.

    There may be no points: of a sample's, all may be elsewhere.
    """
    _check_arguments(prediction, target, groups, order, mask)
    dtype = torch.promote_types(torch.promote_types(prediction.dtype, target.dtype), torch.float32)
    prediction, target = prediction.to(dtype), target.to(dtype)
    if mask is not None:
        # Selected, not multiplied: 0 * NaN would be NaN, and a masked point must not count.
        prediction = torch.where(mask[..., None], prediction, 0)
        target = torch.where(mask[..., None], target, 0)
    difference, reference = (prediction - target).abs(), target.abs()
    if order == 2:
        difference, reference = difference.square(), reference.square()
    per_channel = difference.sum(1), reference.sum(1)
    difference, reference = (
        torch.stack([pick(sums, channels).sum(-1) for channels in groups.values()], -1)
        for sums in per_channel
    )
    return ErrorSums(difference, reference, order)


def pick(tensor: Float[Tensor, "*B K"], channels: Sequence[int]) -> Float[Tensor, "*B C"]:
    """Some channels, by views: a list as index is copied to the device, and the host waits."""
    first, count = channels[0], len(channels)
    if list(channels) == list(range(first, first + count)):
        return tensor[..., first : first + count]
    return torch.stack([tensor[..., channel] for channel in channels], -1)


def relative_error(
    prediction: Float[Tensor, "S N K"],
    target: Float[Tensor, "S N K"],
    groups: Groups,
    *,
    order: Order = 1,
    mask: Bool[Tensor, "S N"] | None = None,
    on_zero: OnZero = "error",
    check_values: bool = True,
) -> Float[Tensor, ""]:
    """The mean relative error over samples and groups: the paper's metric, and the training loss.

    Raises ValueError for NaN or infinities among the points that count, and for a sample whose
    target is zero in a whole group; `on_zero="skip"` leaves such a pair out of the mean instead. A
    training loop passes `check_values=False`, so that the host need not wait for the device: zero
    targets are then skipped, and a NaN prediction gives a NaN loss, which the loop detects.
    """
    check_choice("on_zero", on_zero, ("error", "skip"))
    check_shape("target", target, "S N K", (None, None, None))
    sums = error_sums(prediction, target, groups, order=order, mask=mask)
    if check_values:
        _check_values(prediction, target, mask)
        _check_targets(sums, groups, on_zero)
    return sums.mean()


@dataclass(frozen=True)
class Errors:
    """The metric over a data set: the relative error of every sample and group.

    None where the target is zero throughout; NaN and infinities are kept for the caller to detect.
    """

    groups: tuple[str, ...]
    samples: Mapping[str, tuple[float | None, ...]]

    @classmethod
    def of(cls, sums: ErrorSums, groups: Groups, samples: Sequence[str]) -> Errors:
        """The errors of samples whose sums are complete, by the names of the samples."""
        ratios, defined = (part.tolist() for part in sums.relative())
        errors: dict[str, tuple[float | None, ...]] = {}
        for sample, values, known in zip(samples, ratios, defined, strict=True):
            pairs = zip(values, known, strict=True)
            errors[sample] = tuple(value if is_known else None for value, is_known in pairs)
        return cls(tuple(groups), errors)

    @classmethod
    def joined(cls, groups: Iterable[str], parts: Iterable[Errors]) -> Errors:
        """The errors of the samples of all parts, in the order of the samples' names."""
        names = tuple(groups)
        errors: dict[str, tuple[float | None, ...]] = {}
        for part in parts:
            if part.groups != names:
                raise ValueError(f"all parts must have groups {names}, got {part.groups}")
            errors.update(part.samples)
        return cls(names, dict(sorted(errors.items())))

    def by_group(self) -> dict[str, float]:
        """The mean over samples, per group; NaN for a group that no sample defines."""
        columns = zip(*self.samples.values(), strict=True)
        return {g: _mean(column) for g, column in zip(self.groups, columns, strict=True)}

    def mean(self) -> float:
        """The mean over samples and groups: the paper's metric."""
        return _mean(value for row in self.samples.values() for value in row)


def _mean(values: Iterable[float | None]) -> float:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else math.nan


def _check_arguments(
    prediction: Tensor, target: Tensor, groups: Groups, order: int, mask: Tensor | None
) -> None:
    check_choice("order", str(order), ("1", "2"))
    check_shape("target", target, "S N K", (None, ANY, None))
    samples, points, channels = target.shape
    check_shape("prediction", prediction, "S N K", (samples, points, channels))
    check_like("prediction", prediction, "target", target.new_empty(0, dtype=prediction.dtype))
    if not groups:
        raise ValueError("groups must name at least one group of output channels, got none")
    for name, members in groups.items():
        if not members or not all(0 <= channel < channels for channel in members):
            raise ValueError(
                f"groups[{name!r}] must hold channels from 0 to {channels - 1}, got"
                f" {tuple(members)}"
            )
    if mask is not None:
        check_shape("mask", mask, "S N", (samples, points))
        if mask.dtype != torch.bool:
            raise ValueError(f"mask must have dtype torch.bool, got {mask.dtype}")


def _check_values(prediction: Tensor, target: Tensor, mask: Tensor | None) -> None:
    for name, tensor in (("prediction", prediction), ("target", target)):
        check_finite(name, tensor if mask is None else tensor[mask])


def _check_targets(sums: ErrorSums, groups: Groups, on_zero: OnZero) -> None:
    zero = (sums.reference == 0).nonzero()
    if on_zero == "error" and len(zero):
        sample, group = zero[0].tolist()
        raise ValueError(
            f"target must not be zero in a whole group, got only zeros for sample {sample}, group"
            f' {list(groups)[group]!r} (on_zero="skip" leaves it out)'
        )
