"""Triton's interpreter with the dot product of a GPU, and quicker.

The interpreter leaves a product to NumPy, whose BLAS adds up in an order that depends on the shapes
of the matrices. Kernels that compute the same logit in tiles of different shape then differ by
rounding, which a GPU's do not: it adds the products along the inner axis in one order, whatever the
tile. On a GPU the exact kernels are held to 1.25 times eager's error with every tile of the table;
with NumPy's order the gradients of tiles 64 x 64 were up to 2.1 times as far off as eager's.

For every call from one device function to another it also looks through all of Triton's language
for what to replace, and finds that the kernel's own launch has replaced it. That was a third of its
time; here a launch looks once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

_NUMPYS: list[Any] = []
AT_ONCE = 16
"""Products that are added before the sum is rounded to the accumulator."""


def install() -> None:
    """For this process, and those forked from it."""
    _add_up_in_one_order()
    _look_once_a_launch()


def _look_once_a_launch() -> None:
    import triton.language as tl
    from triton.runtime import interpreter

    replace, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__
    replaced: set[int] = set()  # by the launch that is running

    @cache
    def languages(function: Any) -> frozenset[int]:
        known = (tl, tl.core)
        there = list(function.__globals__.values())
        return frozenset(id(value) for value in there if any(value is one for one in known))

    def replace_the_rest(function: Any) -> Any:
        wanted = languages(function)
        if wanted and wanted <= replaced:
            return interpreter._LangPatchScope()
        scope = replace(function)
        replaced.update(wanted)
        return scope

    def launch_anew(executor: Any, *arguments: Any, **named: Any) -> None:
        replaced.clear()
        try:
            launch(executor, *arguments, **named)
        finally:
            replaced.clear()

    interpreter._patch_lang = replace_the_rest
    interpreter.GridExecutor.__call__ = launch_anew


def _add_up_in_one_order() -> None:
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
