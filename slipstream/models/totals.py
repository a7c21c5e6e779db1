"""The token sums of chunks of points, added up in fp64.

What is added up so does not depend on the number of chunks by more than the rounding of one, and
neither do the gradients that come back through it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from slipstream.kernels.membership import TokenSums


class Total:
    """Sums added up in fp64, and given back in the dtype that they came in."""

    def __init__(self) -> None:
        self._sums: TokenSums | None = None
        self._dtype: torch.dtype | None = None

    def add(self, sums: TokenSums) -> None:
        self._dtype = sums.numerator.dtype
        wide = _cast(sums, torch.float64)
        self._sums = wide if self._sums is None else self._sums + wide

    def sums(self) -> TokenSums:
        assert self._sums is not None and self._dtype is not None, "there is at least one chunk"
        return _cast(self._sums, self._dtype)


def _cast(sums: TokenSums, dtype: torch.dtype) -> TokenSums:
    normalizer = sums.log_normalizer
    return replace(
        sums,
        numerator=sums.numerator.to(dtype),
        mass=sums.mass.to(dtype),
        log_normalizer=None if normalizer is None else normalizer.to(dtype),
    )
