from __future__ import annotations

import numpy as np
import pytest

from slipstream.data.geometry import z_order_codes


@pytest.mark.parametrize(("axes", "bits"), [(1, 5), (2, 20), (3, 10), (3, 20)])
def test_a_code_is_the_bits_of_the_coordinates_in_turn(axes: int, bits: int) -> None:
    cells = np.random.default_rng(0).integers(0, 1 << bits, (50, axes))
    for code, cell in zip(z_order_codes(cells, bits), cells.tolist(), strict=True):
        by_text = [f"{number:0{bits}b}" for number in reversed(cell)]
        assert int(code) == int("".join(map("".join, zip(*by_text, strict=True))), 2)


def test_squares_of_cells_follow_each_other() -> None:
    cells = np.stack(np.meshgrid(range(4), range(4), indexing="ij"), -1).reshape(-1, 2)
    along = cells[np.argsort(z_order_codes(cells, 2))]
    assert along[:4].tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert np.array_equal(along.reshape(4, 4, 2).min(1), [[0, 0], [2, 0], [0, 2], [2, 2]])


def test_a_code_has_64_bits_at_most() -> None:
    with pytest.raises(ValueError, match="at most 64 bits, got 3 axes of 22 bits"):
        z_order_codes(np.zeros((1, 3), np.int64), 22)
