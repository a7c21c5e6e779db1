"""Triton's interpreter with the dot product of a GPU.

The interpreter leaves a product to NumPy, whose BLAS adds up in an order that depends on the shapes
of the matrices. Kernels that compute the same logit in tiles of different shape then differ by
rounding, which a GPU's do not: it adds the products along the inner axis in one order, whatever the
tile. On a GPU the exact kernels are held to 1.25 times eager's error with every tile of the table;
with NumPy's order the gradients of tiles 64 x 64 were up to 2.1 times as far off as eager's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_NUMPYS: list[Any] = []
AT_ONCE = 16
"""Products that are added before the sum is rounded to the accumulator."""


def install() -> None:
    """For this process, and those forked from it."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    numpys = InterpreterBuilder.create_dot

    def create_dot(builder: Any, a: Any, b: Any, d: Any, *how: Any) -> Any:
        if d.data.dtype != np.float32:
            return numpys(builder, a, b, d, *how)
        first, second = (np.asarray(side.data, np.float64) for side in (a, b))
        total = d.data
        for k in range(0, first.shape[-1], AT_ONCE):
            part = first[..., k : k + AT_ONCE] @ second[..., k : k + AT_ONCE, :]
            total = (total + part).astype(np.float32)
        return TensorHandle(total, d.dtype.scalar)

    InterpreterBuilder.create_dot = create_dot
    _NUMPYS.append(numpys)


@contextmanager
def numpys_order() -> Iterator[None]:
    """The interpreter as it comes, as a process has it that was started anew."""
    from triton.runtime.interpreter import InterpreterBuilder

    ours = InterpreterBuilder.create_dot
    if _NUMPYS:
        InterpreterBuilder.create_dot = _NUMPYS[0]
    yield
    InterpreterBuilder.create_dot = ours
