from __future__ import annotations

import pytest

from slipstream.kernels.plan import make_plan


def test_the_plan_says_why() -> None:
    assert str(make_plan(device_type="cpu")) == (
        "reference: no CUDA device (the tensors are on cpu)"
    )
    assert str(make_plan(device_type="cuda")) == "reference: this version has no fused kernels"
    assert str(make_plan(device_type="cuda", impl="reference")) == "reference: asked for"


def test_fused_is_refused_with_the_reason(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match='got "fused": no CUDA device'):
        make_plan(device_type="cpu", impl="fused")
    with pytest.raises(ValueError, match="impl must be one of auto, fused, reference, got 'fast'"):
        make_plan(device_type="cpu", impl="fast")  # type: ignore[arg-type]
