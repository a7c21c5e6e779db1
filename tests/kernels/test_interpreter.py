"""The interpreter's dot product rounds as a GPU's: an element does not depend on its tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run on the GPU here")


def test_an_element_of_a_product_does_not_depend_on_the_tile() -> None:
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    draw = np.random.default_rng(0)
    a, b = (draw.normal(size=size).astype(np.float32) for size in ((64, 40), (40, 64)))

    def dot(rows: int, columns: int) -> np.ndarray:
        zero = np.zeros((rows, columns), np.float32)
        handles = [TensorHandle(x, tl.float32) for x in (a[:rows], b[:, :columns], zero)]
        return InterpreterBuilder().create_dot(*handles, None, 0).data

    whole = dot(64, 64)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)
    for rows, columns in ((1, 1), (13, 7), (16, 64), (64, 16), (33, 33)):
        np.testing.assert_array_equal(dot(rows, columns), whole[:rows, :columns])
