from __future__ import annotations

import pytest
import torch

from slipstream.core.checks import (
    check_at_least,
    check_choice,
    check_finite,
    check_floating,
    check_like,
    check_shape,
    check_whole,
)


def test_choice_suggests_the_nearest() -> None:
    check_choice("variant", "baseline", ("baseline", "untied"))
    with pytest.raises(ValueError, match=r"variant must be one of baseline, untied, got 'baselin'; "
                       r"did you mean 'baseline'\?"):  # fmt: skip
        check_choice("variant", "baselin", ("baseline", "untied"))
    with pytest.raises(ValueError, match=r"got 'zzz'$"):
        check_choice("variant", "zzz", ("baseline", "untied"))


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
def test_whole_refuses(value: object) -> None:
    with pytest.raises(ValueError, match="heads must be a whole number of at least 1, got"):
        check_whole("heads", value, 1)


@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_at_least_refuses(value: float) -> None:
    with pytest.raises(ValueError, match="rate must be at least 0, got"):
        check_at_least("rate", value, 0)


def test_shape_names_argument_expected_and_got(no_shape_checks: None) -> None:
    check_shape("x", torch.zeros(2, 3), "B N", (2, None))
    with pytest.raises(ValueError, match=r"^x must have shape \(B, N\) = \(2, N\), got \(3, 3\)$"):
        check_shape("x", torch.zeros(3, 3), "B N", (2, None))
    with pytest.raises(ValueError, match=r"got \(2, 3, 1\)$"):
        check_shape("x", torch.zeros(2, 3, 1), "B N", (2, None))
    with pytest.raises(ValueError, match=r"with every size at least 1, got \(2, 0\)$"):
        check_shape("x", torch.zeros(2, 0), "B N", (2, None))
    with pytest.raises(ValueError, match="got list"):
        check_shape("x", [[1.0]], "B N", (2, None))  # type: ignore[arg-type]


def test_dtype_and_device() -> None:
    x = torch.zeros(2)
    check_like("y", torch.ones(3), "x", x)
    with pytest.raises(ValueError, match="y must have a floating dtype, got torch.int64"):
        check_floating("y", torch.ones(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="y must have dtype torch.float32 like x, got torch.f"):
        check_like("y", torch.ones(3).double(), "x", x)
    with pytest.raises(ValueError, match="y must be on device cpu like x, got meta"):
        check_like("y", torch.ones(3, device="meta"), "x", x)
    with torch.autocast("cpu", torch.bfloat16):
        check_like("y", torch.ones(3).bfloat16(), "x", x)


def test_finite_counts_what_is_not() -> None:
    check_finite("x", torch.zeros(3))
    with pytest.raises(ValueError, match="x must be finite, got 2 NaN or infinite of 3 values"):
        check_finite("x", torch.tensor([float("nan"), 1.0, float("inf")]))
