"""The gate on problems made of a few numbers, where every error is known."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.bench.gate import (
    CPU_FLOOR,
    EXACT,
    Tensors,
    Way,
    Yardstick,
    bitwise,
    compared,
    distance,
    judge,
    limit,
)

IEEE = Way("fused", "ieee")
TRUE = torch.linspace(1, 2, 100, dtype=torch.float64)


def problem(fused: float, eager: float = 1e-5):  # noqa: ANN201
    """One tensor, off by a known share; twice that in the first of two draws, 0 in the second."""

    def compute(way: Way, draw: int) -> Tensors:
        off = 0.0 if way == EXACT else fused if way.impl == "fused" else eager
        return {"out": TRUE * (1 + off * (2**0.5 if draw == 0 else 0.0))}

    return compute


@pytest.mark.parametrize(
    ("fused", "passed"),
    [(1.2e-5, True), (1.3e-5, False), (math.nan, False)],
)
def test_the_fused_error_is_held_to_eagers_over_all_draws(fused: float, passed: bool) -> None:
    verdict = judge(Yardstick(problem(fused), draws=2), IEEE)
    assert verdict.passed is passed and verdict.deterministic is (not math.isnan(fused))
    assert verdict.limit == 1.25 and verdict.tensor == "out"
    if math.isnan(fused):
        assert verdict.as_json()["worst"] is None
    else:
        assert verdict.worst == pytest.approx(fused / 1e-5, rel=1e-3)


def test_errors_of_a_few_ulp_pass_and_slack_widens_every_limit() -> None:
    assert judge(Yardstick(problem(0.9 * CPU_FLOOR, eager=1e-9), 2), IEEE).passed
    assert not judge(Yardstick(problem(1.1 * CPU_FLOOR, eager=1e-9), 2), IEEE).passed
    assert judge(Yardstick(problem(2.4e-5), 2), IEEE, slack=2.0).passed


@pytest.mark.parametrize(
    ("floors", "passed"), [({}, False), ({"a": 2e-3}, False), ({"a": 2e-3, "b": 2e-3}, True)]
)
def test_an_error_of_a_single_tensor_may_be_let_pass(
    floors: dict[str, float], passed: bool
) -> None:
    def compute(way: Way, draw: int) -> Tensors:
        return {name: TRUE * (1 + 1e-3 * (way.impl == "fused")) for name in "ab"}

    assert judge(Yardstick(compute, 1), IEEE, floors=floors).passed is passed
    assert not judge(Yardstick(compute, 1), IEEE, floors=dict.fromkeys(floors, 9e-4)).passed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_the_result_to_half_precision_passes_and_no_more(dtype: torch.dtype) -> None:
    def problem(off: float):  # noqa: ANN202
        def compute(way: Way, draw: int) -> Tensors:
            if way == EXACT:
                return {"out": TRUE.clone()}
            return {"out": (TRUE * (1 + off if way.impl == "fused" else 1)).to(dtype)}

        return compute

    way = Way("fused", "ieee", dtype)
    assert judge(Yardstick(problem(0.0), 1), way).green
    assert not judge(Yardstick(problem(torch.finfo(dtype).eps), 1), way).green


@pytest.mark.parametrize("ours", [torch.bfloat16, torch.float64])
def test_a_result_of_another_dtype_than_eagers_is_red(ours: torch.dtype) -> None:
    def compute(way: Way, draw: int) -> Tensors:
        exact = torch.ones(4, dtype=torch.float64)
        return {"out": exact.to(ours if way.impl == "fused" else torch.float32)}

    verdict = judge(Yardstick(compute, 1), Way("fused", "bf16", autocast=True))
    assert not verdict.passed and verdict.worst == math.inf


def test_two_runs_that_differ_are_not_green() -> None:
    runs = iter(range(9))

    def compute(way: Way, draw: int) -> Tensors:
        return {"out": TRUE + 1e-9 * (next(runs) if way.impl == "fused" else 0)}

    verdict = judge(Yardstick(compute, 1), IEEE)
    assert verdict.passed and not verdict.deterministic and not verdict.green


def test_small_tensors_are_measured_against_the_largest() -> None:
    def compute(way: Way, draw: int) -> Tensors:
        return {"large": TRUE, "nothing": torch.zeros(3) + 1e-9 * (way.impl == "fused")}

    assert judge(Yardstick(compute, 1), IEEE).green


@pytest.mark.parametrize(
    ("precision", "fused", "eager", "passed"),
    [
        ("tf32", 4e-4, 0.5, True),  # eager has no digit of it right, and TF32 rounds by 5e-4
        ("tf32", 6e-4, 0.5, False),
        ("tf32", 4e-4, 0.05, False),  # eager has one
        ("bf16", 4e-4, 0.5, False),  # nothing asked for it in the others
        ("tf32x3", 4e-4, 0.5, False),
        ("ieee", 4e-4, 0.5, False),
    ],
)
def test_what_rounding_left_of_larger_tensors_may_be_off_by_rounding(
    precision: str, fused: float, eager: float, passed: bool
) -> None:
    """As the gradient of slots is that hold the same token: of `untied` with attention, 1e-9."""
    thousandth = 1e-3 * float(TRUE.norm())

    def compute(way: Way, draw: int) -> Tensors:
        share = 1e-5 * (1 + eager * (way != EXACT)) if way.impl != "fused" else 1e-5 + fused
        return {"large": TRUE, "left": torch.tensor([share * thousandth], dtype=torch.float64)}

    assert judge(Yardstick(compute, 1), Way("fused", precision)).passed is passed


def test_the_limits_of_the_paper() -> None:
    for precision, expected in {
        "ieee": 1.25,
        "tf32": 10,
        "tf32x3": 10,
        "bf16v": 2,
        "bf16": 2,
    }.items():
        assert limit(Way("fused", precision), "single-tile", "out", 1e-6) == expected
    temperature = "gradient of temperature"
    assert limit(IEEE, "single-tile", "out", 2e-4) == 3.0
    assert limit(Way("fused", "ieee", autocast=True), "single-tile", "out", 2e-3) == 1.25
    assert limit(IEEE, "single-tile, ieee dots", temperature, 1e-6) == 1.25
    assert limit(IEEE, "blocked, ieee dots", temperature, 1e-6) == 2.0
    assert Way("fused", "tf32").eager() == Way(tf32=True)


def test_comparing_to_the_bit() -> None:
    one = {"a": TRUE, "b": -TRUE}
    assert bitwise(one, {"a": TRUE.clone(), "b": -TRUE}).green
    other = bitwise({"a": TRUE, "b": -TRUE * (1 + 1e-6)}, one)
    assert not other.green and other.tensor == "b" and other.worst == pytest.approx(1e-6, rel=1e-3)
    assert not bitwise({"a": TRUE}, one).green
    assert not bitwise({"a": torch.zeros(2)}, {"a": torch.zeros(2) * math.nan}).green


def test_differences_with_limits_of_their_own() -> None:
    assert compared({"a": 1.0, "b": 0.0}, {"a": 2.0, "b": 0.0}).green
    verdict = compared({"a": 1.0, "b": 0.3}, {"a": 2.0, "b": 0.1})
    assert not verdict.green and (verdict.tensor, verdict.worst, verdict.limit) == ("b", 0.3, 0.1)
    assert distance(None, TRUE) == distance(TRUE[:2], TRUE) == math.inf
