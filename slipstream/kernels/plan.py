"""Which implementation runs, and why: pure functions of device and request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from slipstream.core.checks import check_choice

Impl = Literal["auto", "fused", "reference"]


@dataclass(frozen=True)
class Plan:
    """The implementation that runs and the reason, as `model.kernels` shows them."""

    family: Literal["reference"]
    reason: str

    def __str__(self) -> str:
        return f"{self.family}: {self.reason}"


def make_plan(*, device_type: str, impl: Impl = "auto") -> Plan:
    """Choose an implementation; `impl="fused"` raises with the reason where there is none."""
    check_choice("impl", impl, get_args(Impl))
    if impl == "reference":
        return Plan("reference", "asked for")
    reason = _why_not_fused(device_type)
    if impl == "fused":
        raise ValueError(f'impl must be "auto" or "reference" here, got "fused": {reason}')
    return Plan("reference", reason)


def _why_not_fused(device_type: str) -> str:
    if device_type != "cuda":
        return f"no CUDA device (the tensors are on {device_type})"
    return "this version has no fused kernels"
