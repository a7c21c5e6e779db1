"""The cases of parity as rows of data, and how they are distributed to processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from slipstream.bench.cases import DTYPES, MAIN_DTYPES, Dtype
from slipstream.kernels.membership import Axis
from slipstream.kernels.plan import ALLOWED, Operation, make_plan
from slipstream.models.variants import VARIANTS

SLICES = (8, 16, 32, 48, 64, 100, 128, 256, 1024)
WIDTHS = (16, 32, 56, 64, 128, 256)
FP16_SLICES, FP16_WIDTHS = (32, 48, 256), (32, 56)
TORCH_DTYPES: dict[Dtype, torch.dtype] = {
    dtype: getattr(torch, name) for dtype, name in DTYPES.items()
}
COUPLED = tuple(v.name for v in VARIANTS.values() if v.stream != "pointwise")
SHAPES = (("baseline", 32), ("baseline", 48), ("untied-ln", 32), ("slice-once", 32))
"""Variants and slice counts that together run every kernel."""
REGIMES = {
    "idle slots": (8, 32, 48, 256),
    "sharp slices": (32, 48),
    "even slices": (32, 48),
    "one far point": (32, 48),
}


@dataclass(frozen=True, kw_only=True)
class OperatorCase:
    """Slice and deslice by themselves, in one family."""

    over: Axis
    family: Literal["single-tile", "blocked", "chunked"]
    slices: int
    width: int
    dtype: Dtype
    precision: str
    points: int

    @property
    def kind(self) -> str:
        return f"{self.family}, over points" if self.over == "points" else self.family

    @property
    def name(self) -> str:
        shape = f"G={self.slices} D={self.width}"
        return f"operator {self.kind} {shape} {self.dtype}/{self.precision}"

    @property
    def task(self) -> tuple[object, ...]:
        """Cases of one task share kernels: compiled code depends on whether 16 divides G only."""
        aligned = self.slices % 16 == 0
        return (self.kind, self.width, self.dtype, self.precision, aligned)

    @property
    def seconds(self) -> float:
        """A rough time on a GPU: mostly compilation, which is long for wide, exact products."""
        exact = 1 if self.precision == "bf16" else 4
        return exact * (0.3 + (self.width / 64) ** 1.5)


@dataclass(frozen=True, kw_only=True)
class ModelCase:
    """A model of the paper's width, heads and slices."""

    variant: str
    dtype: Dtype
    precision: str
    points: int
    layers: int = 2
    kind: str = "model"

    @property
    def name(self) -> str:
        return f"model {self.variant} {self.dtype}/{self.precision}"

    @property
    def task(self) -> tuple[object, ...]:
        return (self.kind, self.variant, self.dtype)

    @property
    def seconds(self) -> float:
        return 10.0 if self.variant == "slice-once" else 4.0


@dataclass(frozen=True, kw_only=True)
class SpecialCase:
    """One of the checks of `special.py`, which `check` names."""

    check: str
    dtype: Dtype = "fp32"
    precision: str = "ieee"
    variant: str = "baseline"
    over: Axis = "slots"
    slices: int = 32
    points: int
    layers: int = 2
    seconds: float = 10.0
    needs_cuda: bool = False
    kind: str = "special"

    @property
    def name(self) -> str:
        over = " over points" if self.over == "points" else ""
        shape = f"G={self.slices}{over}"
        return f"special {self.check} {self.variant} {shape} {self.dtype}/{self.precision}"

    @property
    def task(self) -> tuple[object, ...]:
        """A task for each case; but those that need much memory share one and run in turn."""
        return (self.check,) if self.check == "past 32 bits" else (self.name,)


ParityCase = OperatorCase | ModelCase | SpecialCase


def operator_cases(points: int) -> list[OperatorCase]:
    """Every slice count, width, dtype and precision, over both axes, in every family that fits."""
    axes: tuple[Axis, ...] = ("slots", "points")
    shapes = [(g, d, dtype) for g in SLICES for d in WIDTHS for dtype in MAIN_DTYPES]
    shapes += [(g, d, "fp16") for g in FP16_SLICES for d in FP16_WIDTHS]
    return [
        OperatorCase(
            over=over, family=family, slices=slices, width=width, dtype=dtype,
            precision=precision, points=points,
        )
        for over in axes
        for slices, width, dtype in shapes
        for precision in ALLOWED[DTYPES[dtype]]
        for family in _families(over, slices, width, dtype, precision)
    ]  # fmt: skip


def model_cases(points: int) -> list[ModelCase]:
    """Every variant in every precision."""
    return [
        ModelCase(variant=variant, dtype=dtype, precision=precision, points=points)
        for variant in VARIANTS
        for dtype in MAIN_DTYPES
        for precision in ALLOWED[DTYPES[dtype]]
    ]


def special_cases(points: int) -> list[SpecialCase]:
    """Cases for what a grid of shapes does not show."""
    rows = [SpecialCase(check="trajectory", variant=v, points=points, seconds=20) for v in COUPLED]
    for variant, slices in SHAPES:
        at = {"variant": variant, "slices": slices, "points": points}
        rows += [
            SpecialCase(check="batch of two", **at),  # type: ignore[arg-type]
            SpecialCase(check="one point, model", **{**at, "points": 1}),  # type: ignore[arg-type]
        ]
        for dtype, precision in (("fp32", "ieee"), ("bf16", "bf16")):
            at |= {"dtype": dtype, "precision": precision, "needs_cuda": True, "seconds": 15.0}
            rows += [
                SpecialCase(check="graph inference", **at),  # type: ignore[arg-type]
                SpecialCase(check="graph training", **at),  # type: ignore[arg-type]
            ]
    rows += [
        SpecialCase(check=check, slices=slices, points=points, dtype=dtype, precision=precision)
        for check, counts in REGIMES.items()
        for slices in counts
        for dtype in MAIN_DTYPES
        for precision in ALLOWED[DTYPES[dtype]]
    ]
    blocks = [v for v in COUPLED if v != "slice-once"]
    rows += [SpecialCase(check="checkpointing", variant=v, points=points) for v in blocks]
    rows += [
        SpecialCase(check="compiled", variant=v, points=points, seconds=60, layers=layers)
        for v, layers in (("baseline", 8), *((v, 2) for v in COUPLED if v != "baseline"))
    ]
    memberships: tuple[tuple[Axis, int], ...] = (("slots", 32), ("slots", 48), ("points", 32))
    for over, slices in memberships:
        rows.append(SpecialCase(check="strided", over=over, slices=slices, points=points))
        rows.append(SpecialCase(check="one point", over=over, slices=slices, points=1))
        rows.append(
            SpecialCase(
                check="past 32 bits", over=over, slices=slices, points=(1 << 23) + 4097,
                dtype="bf16", precision="bf16", seconds=50, needs_cuda=True,
            )
        )  # fmt: skip
    return rows


def as_tasks(cases: Iterable[ParityCase]) -> list[list[ParityCase]]:
    """Tasks of cases that share kernels; long ones first, so that none runs alone at the end."""
    tasks: dict[tuple[object, ...], list[ParityCase]] = {}
    for case in cases:
        tasks.setdefault(case.task, []).append(case)
    return sorted(tasks.values(), key=_seconds, reverse=True)


def _seconds(task: list[ParityCase]) -> float:
    """A rough time of a task: its first case compiles the kernels that the others use."""
    return task[0].seconds * (1 + 0.1 * len(task))


def cpu_cases() -> list[OperatorCase]:
    """The CPU's own family, with few and many slots, over the slots and over the points."""
    shapes: tuple[tuple[Axis, int], ...] = (("slots", 32), ("slots", 256), ("points", 32))
    return [
        OperatorCase(
            over=over, family="chunked", slices=slices, width=32, dtype="fp32", precision="ieee",
            points=1030,
        )
        for over, slices in shapes
    ]  # fmt: skip


def _families(
    over: Axis, slices: int, width: int, dtype: Dtype, precision: str
) -> list[Literal["single-tile", "blocked"]]:
    """`blocked` for every shape, and `single-tile` where the plan would choose it."""
    operation = Operation("cuda", DTYPES[dtype], slices, width, width, over)
    fits = make_plan(operation, precision=precision).family == "single-tile"
    return ["single-tile", "blocked"] if fits else ["blocked"]
