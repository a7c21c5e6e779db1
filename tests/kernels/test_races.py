"""Loops as Triton writes them for Hopper, cut down to what counts."""

from __future__ import annotations

import pytest

from .races import races

LAST = "%product = ttng.warp_group_dot %weights, %view, %sum {isAsync = true} : tensor<64x32xf32>"
FIRST = "%logits = ttng.warp_group_dot %view, %slots, %zero {isAsync = true} : tensor<64x64xf32>"


def wait(pendings: int) -> str:
    return f"%waited:2 = ttng.warp_group_dot_wait %some {{pendings = {pendings} : i32}} : tensor<>"


def kernel(*body: str, buffers: int, ahead: int = 2) -> str:
    copy = (
        "%token = ttg.async_copy_global_to_local %pointer, %next mask %mask : tensor<> -> <64x32>"
    )
    return "\n    ".join(
        [
            f"%ring = ttg.local_alloc : () -> !ttg.memdesc<{buffers}x64x32xbf16, #smem, mutable>",
            "%next = ttg.memdesc_index %ring[%zero] : !ttg.memdesc<> -> !ttg.memdesc<>",
            *[copy] * ahead,
            "%result:2 = scf.for %i = %zero to %points step %one iter_args(%sum = %zero) {",
            "%block = ttg.memdesc_index %ring[%i] : !ttg.memdesc<> -> !ttg.memdesc<>",
            "%view = ttg.memdesc_trans %block {order = array<i32: 1, 0>} : !ttg.memdesc<>",
            *body,
            "%next = ttg.memdesc_index %ring[%j] : !ttg.memdesc<> -> !ttg.memdesc<>",
            copy,
            "scf.yield %product, %token : tensor<>",
            "}",
            wait(0),
        ]
    )


@pytest.mark.parametrize(
    ("body", "buffers", "racing"),
    [
        ([LAST], 2, True),  # seen: the copy lands in the block of the product under way
        ([LAST, wait(1)], 3, False),  # in that of the one before, which has been waited for
        ([LAST], 3, True),
        ([LAST, wait(0)], 2, False),
        ([LAST, wait(1)], 2, True),
        ([FIRST, wait(0), LAST], 2, True),
        ([FIRST, LAST, wait(1)], 2, True),
        ([FIRST, LAST, wait(0)], 2, False),
    ],
)
def test_a_copy_into_what_a_product_reads_is_found(
    body: list[str], buffers: int, racing: bool
) -> None:
    found = races(kernel(*body, buffers=buffers))
    assert bool(found) is racing
    if racing:
        assert found[0].startswith("%ring is written while %product reads it")


def test_a_product_that_outlives_its_iteration_needs_another_buffer() -> None:
    """Three buffers, two copies ahead: the copy lands in what the iteration before has read."""
    waits_for_the_last = [FIRST, wait(1), LAST]
    assert not races(kernel(*waits_for_the_last, buffers=3))
    assert races(kernel("%nothing = arith.addi %i, %i : i32", LAST, buffers=3, ahead=3))


def test_products_that_are_waited_for_and_rings_nobody_multiplies() -> None:
    synchronous = LAST.replace("isAsync = true", "inputPrecision = 0 : i32")
    assert not races(kernel(synchronous, buffers=2))
    assert not races(kernel(LAST.replace("%view", "%slots"), buffers=2))
    assert not races("tt.func public @nothing() {\n tt.return\n}")
