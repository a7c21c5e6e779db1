"""Checks of arguments: errors name the argument, what was expected and what was given.

Every function raises ValueError with one sentence; the command line turns it into exit code 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slipstream.core.plain_checks import check_at_least, check_choice, check_whole

__all__ = [
    "ANY",
    "autocast_is_on",
    "check_at_least",
    "check_choice",
    "check_finite",
    "check_floating",
    "check_like",
    "check_shape",
    "check_whole",
]


ANY = -1
"""Stands for any size in `check_shape`, none included: of points that may all be elsewhere."""


def check_shape(name: str, tensor: Tensor, letters: str, sizes: Sequence[int | None]) -> None:
    """Raise unless `tensor` has these sizes; None stands for any size of at least one.

    `letters` names the axes, as in "B N H D", for the message only.
    """
    got = tuple(tensor.shape) if isinstance(tensor, Tensor) else None
    if got is not None and _fits(got, sizes):
        return  # before the message is built: every call of an operator comes through here
    axes = letters.split()
    open_sizes = (None, ANY)
    pairs = zip(axes, sizes, strict=True)
    expected = (axis if size in open_sizes else str(size) for axis, size in pairs)
    where = f"shape ({', '.join(axes)}) = ({', '.join(expected)})"
    if got is None:
        raise ValueError(f"{name} must be a tensor of {where}, got {type(tensor).__name__}")
    at_least = " with every size at least 1" if 0 in got else ""
    raise ValueError(f"{name} must have {where}{at_least}, got {got}")


def _fits(got: tuple[int, ...], sizes: Sequence[int | None]) -> bool:
    if len(got) != len(sizes):
        return False
    for size, expected in zip(got, sizes, strict=True):
        if expected != ANY and (size < 1 if expected is None else size != expected):
            return False
    return True


def check_floating(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must have a floating dtype, got {tensor.dtype}")


def check_like(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Raise unless `tensor` is on the device of `other` and, outside autocast, has its dtype."""
    check_floating(name, tensor)
    if tensor.device != other.device:
        raise ValueError(
            f"{name} must be on device {other.device} like {other_name}, got {tensor.device}"
        )
    if tensor.dtype != other.dtype and not autocast_is_on(tensor.device):
        raise ValueError(
            f"{name} must have dtype {other.dtype} like {other_name}, got {tensor.dtype}"
        )


def autocast_is_on(device: torch.device) -> bool:
    """Whether autocast is on. The device `meta` has none, and PyTorch would raise if asked."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def check_finite(name: str, tensor: Tensor) -> None:
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise ValueError(
            f"{name} must be finite, got {bad} NaN or infinite of {tensor.numel()} values"
        )
