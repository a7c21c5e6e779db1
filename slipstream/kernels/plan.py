"""Which implementation runs, and why: pure functions of shapes, dtype, device and request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, TypedDict, get_args

from slipstream.core.checks import check_choice
from slipstream.kernels.membership import Axis
from slipstream.kernels.tiles import LEAST_SHARED_MEMORY, table_for

Impl = Literal["auto", "fused", "single-tile", "blocked", "reference"]
"""`auto` falls back to the reference and says why; the others are had or raise the reason.

`fused` is whichever family fits best; a family's name asks for that one.
"""
Family = Literal["reference", "single-tile", "blocked"]
WIDEST = 256
"""Largest head or value width of the blocked family."""
_SINGLE_TILE = (16, 32, 64, 128)


class Precision(StrEnum):
    """How the kernels multiply; sums are fp32 always. See `PRODUCTS` for what each means."""

    IEEE = "ieee"
    TF32 = "tf32"
    BF16V = "bf16v"
    BF16 = "bf16"
    TF32X3 = "tf32x3"


class How(TypedDict):
    """What a caller may ask of the operations; passed on as keyword arguments."""

    impl: Impl
    precision: Precision | str | None


PRODUCTS: dict[Precision, tuple[str, str]] = {
    Precision.IEEE: ("bf16x6", "bf16x6"),
    Precision.TF32: ("bf16x6", "tf32"),
    Precision.BF16V: ("bf16x6", "bf16"),
    Precision.BF16: ("bf16", "bf16"),
    Precision.TF32X3: ("tf32x3", "tf32x3"),
}
"""The product that forms the logits, and all the others.

bf16x6 is fp32 on tensor cores: each operand is split into three bf16 numbers and the six products
above the rounding of fp32 are summed. Measured on an H200 (2026-11-15) it is two to three times
closer to fp64 than Triton's fp32 FMA product.
"""

ALLOWED: dict[str, tuple[Precision, ...]] = {
    "float32": (Precision.IEEE, Precision.TF32, Precision.TF32X3),
    "bfloat16": (Precision.IEEE, Precision.TF32, Precision.BF16V, Precision.BF16),
    "float16": (Precision.IEEE, Precision.TF32),
}
"""Which precisions an input dtype may be multiplied in (the paper's table; fp16 is ours)."""

_DEFAULT = {"bfloat16": Precision.BF16}
# Looked up, not constructed: torch.compile breaks its graph at the call of an enumeration.
_BY_NAME: dict[str, Precision] = {precision.value: precision for precision in Precision}
_ALL = tuple(Precision)


class Problem(NamedTuple):
    """What an operation is about, as far as the choice of a kernel depends on it."""

    device: str
    """Device type: cpu, cuda, ..."""
    dtype: str
    """Of query and values, as in "bfloat16"."""
    slices: int
    head_width: int
    value_width: int
    over: Axis = "slots"
    deslice: bool = False
    interpreted: bool = False
    """Whether Triton runs on the CPU, through its interpreter."""
    triton: bool = True
    shared_memory: int | None = None
    """Bytes of it that a block may have on the device; None where nobody asked."""


@dataclass(frozen=True)
class Plan:
    """The family that runs, its precision, and the reason where it is the reference."""

    family: Family
    precision: Precision | None = None
    reason: str | None = None

    def __str__(self) -> str:
        if self.family == "reference":
            return f"reference: {self.reason}"
        return f"{self.family}, {self.precision} dots"


def make_plan(
    problem: Problem, *, impl: Impl = "auto", precision: Precision | str | None = None
) -> Plan:
    """Choose an implementation.

    Raises ValueError for a precision that the dtype does not allow, and with the reason where the
    kernels asked for cannot be had.
    """
    check_choice("impl", impl, get_args(Impl))
    chosen = _precision(problem.dtype, precision)
    if impl == "reference":
        return Plan("reference", reason="asked for")
    reason = _why_not_fused(problem, chosen, asked=impl != "auto")
    if reason is None:
        family: Family = "blocked" if impl == "blocked" else _family(problem, chosen)
        if impl != "single-tile" or family == impl:
            return Plan(family, chosen)
        raise ValueError(
            f'impl must be "auto", "fused" or "blocked" here, got "{impl}": one tile'
            f" holds {_one_tile(problem)}"
        )
    if impl != "auto":
        raise ValueError(f'impl must be "auto" or "reference" here, got "{impl}": {reason}')
    return Plan("reference", reason=reason)


def _one_tile(problem: Problem) -> str:
    """What the single-tile kernels are for, and what the problem is instead."""
    if problem.over == "points":
        return "weights over the slots, not over the points"
    sizes = ", ".join(map(str, _SINGLE_TILE))
    got = f"G = {problem.slices}, D = {problem.head_width}, V = {problem.value_width}"
    return f"G and D = V of {sizes}, as far as the tile table goes, not {got}"


def _precision(dtype: str, precision: Precision | str | None) -> Precision:
    if precision is None:
        return _DEFAULT.get(dtype, Precision.IEEE)
    if not isinstance(precision, str) or precision not in _BY_NAME:
        check_choice("precision", precision, _BY_NAME)
    chosen = _BY_NAME[precision]
    allowed = ALLOWED.get(dtype, _ALL)
    if chosen not in allowed:
        raise ValueError(
            f"precision must be one of {', '.join(allowed)} for {dtype} inputs, got {str(chosen)!r}"
        )
    return chosen


def _why_not_fused(problem: Problem, precision: Precision, *, asked: bool) -> str | None:
    if not problem.triton:
        return "Triton is not installed"
    if problem.device != "cuda" and not (problem.interpreted and asked):
        return f"no CUDA device (the tensors are on {problem.device})"
    if problem.shared_memory is not None and problem.shared_memory < LEAST_SHARED_MEMORY:
        return (
            f"the kernels need {LEAST_SHARED_MEMORY} bytes of shared memory a block, and this GPU"
            f" has {problem.shared_memory}"
        )
    if problem.dtype not in ALLOWED:
        return f"the kernels take {', '.join(ALLOWED)}, not {problem.dtype}"
    widest = max(problem.head_width, problem.value_width)
    if widest > WIDEST:
        return f"the kernels take widths up to {WIDEST}, not {widest}"
    if problem.over == "points" and problem.deslice:
        return "no kernel deslices by weights normalised over the points"
    table = table_for(problem.shared_memory)
    if not table.has_tiles("blocked", precision, problem.slices, widest):
        return f"this GPU has too little shared memory for {precision} at width {widest}"
    return None


def _family(problem: Problem, precision: Precision) -> Family:
    table, width = table_for(problem.shared_memory), problem.head_width
    fits = (
        problem.over == "slots"
        and problem.slices in _SINGLE_TILE
        and width in _SINGLE_TILE
        and problem.value_width == width
        and table.has_tiles("single-tile", precision, problem.slices, width)
    )
    return "single-tile" if fits else "blocked"
