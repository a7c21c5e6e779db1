"""TF32 products of torch itself: those of the GPU, imitated on a CPU by rounding the factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten
_FACTORS: dict[Callable[..., Any], tuple[int, int]] = {
    _ATEN.mm.default: (0, 1),
    _ATEN.bmm.default: (0, 1),
    _ATEN.addmm.default: (1, 2),
    _ATEN.baddbmm.default: (1, 2),
}
"""Which arguments of a matrix product are its factors."""


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Allow TF32 for torch's own fp32 products, or forbid it, in the backward pass too."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    imitated = allowed and not torch.cuda.is_available()
    try:
        with _Rounded() if imitated else nullcontext():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def rounded_to_tf32(tensor: Tensor) -> Tensor:
    """The tensor rounded to eleven binary digits, half away from zero, as cuBLAS does."""
    return ((tensor.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


class _Rounded(TorchDispatchMode):
    """Rounds the factors of every fp32 matrix product."""

    def __torch_dispatch__(
        self,
        operator: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        given = list(arguments)
        for place in _FACTORS.get(operator, ()):
            if given[place].dtype == torch.float32:
                given[place] = rounded_to_tf32(given[place])
        return operator(*given, **(options or {}))
