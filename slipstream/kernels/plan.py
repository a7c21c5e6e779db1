"""Which implementation runs, and why: pure functions of shapes, dtype, device and request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, TypedDict, get_args

from slipstream.core.checks import check_choice
from slipstream.kernels.membership import Axis
from slipstream.kernels.tiles import LEAST_SHARED_MEMORY, table_for

Impl = Literal["auto", "fused", "single-tile", "blocked", "chunked", "reference"]
"""`auto` takes the fastest family that can run on the device, and the plan says why it is not a
faster one. All others raise ValueError with the reason where they cannot run.

`fused` is the better of the two families for GPUs; the name of a family asks for that family.
"""
Family = Literal["reference", "chunked", "single-tile", "blocked"]
"""`single-tile` and `blocked` are Triton kernels, `chunked` is for CPUs, `reference` for all."""
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
    """The keyword arguments by which a caller chooses how the operations are computed."""

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
"""The precisions in which inputs of a dtype may be multiplied (the paper's table; fp16 is ours)."""

_DEFAULT = {"bfloat16": Precision.BF16}
# Looked up, not constructed: torch.compile breaks its graph at the call of an enumeration.
_BY_NAME: dict[str, Precision] = {precision.value: precision for precision in Precision}
_ALL = tuple(Precision)


class Operation(NamedTuple):
    """The facts about a slice or deslice on which the choice of an implementation depends."""

    device: str
    """Device type: cpu, cuda, ..."""
    dtype: str
    """The dtype of query and values, as in "bfloat16"."""
    slices: int
    head_width: int
    value_width: int
    over: Axis = "slots"
    deslice: bool = False
    interpreted: bool = False
    """Whether Triton runs on the CPU, through its interpreter."""
    triton: bool = True
    shared_memory: int | None = None
    """Bytes that a block may have on the device; None while compiling, and without a GPU."""
    plain: bool = True
    """False while a model is exported, and inside function transforms or forward-mode derivatives,
    all of which need operations of PyTorch itself."""


@dataclass(frozen=True)
class Plan:
    """The family that runs, its precision, and the reason where it is not one of the GPU's."""

    family: Family
    precision: Precision | None = None
    reason: str | None = None

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.family}: {self.reason}"
        return f"{self.family}, {self.precision} dots"


def make_plan(
    operation: Operation, *, impl: Impl = "auto", precision: Precision | str | None = None
) -> Plan:
    """Choose an implementation.

    Raises ValueError for a precision that the dtype does not allow, and, with the reason, for an
    `impl` that cannot run this operation.
    """
    check_choice("impl", impl, get_args(Impl))
    chosen = _precision(operation.dtype, precision)
    if impl == "reference":
        return Plan("reference", reason="asked for")
    why_not_chunked = _why_not_chunked(operation)
    if impl == "chunked":
        if why_not_chunked is not None:
            raise ValueError(f'impl must not be "chunked" here: {why_not_chunked}')
        return Plan("chunked", reason="asked for")
    why_not_fused = _why_not_fused(operation, chosen, asked=impl != "auto")
    if why_not_fused is None:
        family: Family = "blocked" if impl == "blocked" else _family(operation, chosen)
        if impl != "single-tile" or family == impl:
            return Plan(family, chosen)
        raise ValueError(
            f'impl must be "auto", "fused" or "blocked" here, got "{impl}": one tile'
            f" holds {_one_tile(operation)}"
        )
    if impl != "auto":
        others = '"auto" or "reference"' if why_not_chunked else '"auto", "chunked" or "reference"'
        raise ValueError(f'impl must be {others} here, got "{impl}": {why_not_fused}')
    if why_not_chunked is None:
        return Plan("chunked", reason=why_not_fused)
    reason = why_not_chunked if operation.device == "cpu" else why_not_fused
    return Plan("reference", reason=reason)


def _why_not_chunked(operation: Operation) -> str | None:
    """The reason why the chunked family cannot run; None where it can."""
    if operation.device != "cpu":
        return f"it is for CPUs (the tensors are on {operation.device})"
    if not operation.plain:
        return "the model is being exported or transformed"
    return None


def _one_tile(operation: Operation) -> str:
    """The sizes that the single-tile kernels are for, and those of the operation."""
    if operation.over == "points":
        return "weights over the slots, not over the points"
    sizes = ", ".join(map(str, _SINGLE_TILE))
    got = f"G = {operation.slices}, D = {operation.head_width}, V = {operation.value_width}"
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


def _why_not_fused(operation: Operation, precision: Precision, *, asked: bool) -> str | None:
    """The reason why no kernel for GPUs can run; None where one can.

    Triton's interpreter is slow and meant for tests, so it counts only where kernels are asked for.
    """
    if operation.device != "cuda" and not (operation.interpreted and asked):
        return f"no CUDA device (the tensors are on {operation.device})"
    if not operation.triton:
        return "Triton is not installed"
    if operation.shared_memory is not None and operation.shared_memory < LEAST_SHARED_MEMORY:
        return (
            f"the kernels need {LEAST_SHARED_MEMORY} bytes of shared memory a block, and this GPU"
            f" has {operation.shared_memory}"
        )
    if operation.dtype not in ALLOWED:
        return f"the kernels take {', '.join(ALLOWED)}, not {operation.dtype}"
    widest = max(operation.head_width, operation.value_width)
    if widest > WIDEST:
        return f"the kernels take widths up to {WIDEST}, not {widest}"
    if operation.over == "points" and operation.deslice:
        return "no kernel deslices by weights normalised over the points"
    table = table_for(operation.shared_memory)
    if not table.has_tiles("blocked", precision, operation.slices, widest):
        return f"this GPU has too little shared memory for {precision} at width {widest}"
    return None


def _family(operation: Operation, precision: Precision) -> Family:
    table, width = table_for(operation.shared_memory), operation.head_width
    fits = (
        operation.over == "slots"
        and operation.slices in _SINGLE_TILE
        and width in _SINGLE_TILE
        and operation.value_width == width
        and table.has_tiles("single-tile", precision, operation.slices, width)
    )
    return "single-tile" if fits else "blocked"
