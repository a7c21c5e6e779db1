"""The cases that are measured, as rows of data: all rows of the paper's systems tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from slipstream.models.steps import StreamPrecision
from slipstream.models.variants import VARIANTS

K262, M1, M2, M3, M4 = 1 << 18, 1 << 20, 1 << 21, 3 << 20, 1 << 22
M8, M12, M16, M20 = 1 << 23, 3 << 22, 1 << 24, 5 << 22
Command = Literal["kernels", "model", "memory"]
Dtype = Literal["fp32", "bf16", "fp16"]
DTYPES: dict[Dtype, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The names of the dtypes in `plan.ALLOWED`."""
MAIN_DTYPES: tuple[Dtype, ...] = ("fp32", "bf16")
"""The dtypes of the paper; fp16 is checked for some operators only."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One step of one model or layer on one sample."""

    what: Literal["model", "layer"]
    points: int
    dtype: Dtype = "bf16"
    """bf16 means autocast to it, with fp32 parameters."""
    precision: str = "bf16"
    training: bool = True
    compiled: bool = False
    checkpointed: bool = False
    """Whether the backward pass computes the activations of a block again, to save memory."""
    lean: bool = False
    """Whether our model trains with lean memory; the peer's is then checkpointed."""
    stream: StreamPrecision = "fp32"
    """In what our model keeps the stream of points; the peer's is fp32."""
    slices: int = 32
    layers: int = 8
    heads: int = 8
    variant: str = "baseline"

    @property
    def name(self) -> str:
        """The name of the case, as in "model 262k bf16/bf16 training compiled G=32 L=8"."""
        step = "training" if self.training else "inference"
        kept = "checkpointed " if self.checkpointed else "lean " if self.lean else ""
        how = kept + ("compiled" if self.compiled else "eager")
        parts = [self.what, size(self.points), f"{self.dtype}/{self.precision}", step, how]
        parts.append(f"G={self.slices}")
        parts += [f"L={self.layers}"] if self.what == "model" else []
        parts += [f"H={self.heads}"] if self.heads != 8 else []
        parts += [self.variant] if self.variant != "baseline" else []
        parts += [f"stream={self.stream}"] if self.stream != "fp32" else []
        return " ".join(parts)

    @staticmethod
    def of(record: dict[str, Any]) -> Case:
        """The case that a record is about."""
        return Case(**record["case"])

    def apart_from(self, *fields: str) -> tuple[object, ...]:
        """The values of all other fields, which are equal for cases that differ in these only."""
        return tuple(value for name, value in asdict(self).items() if name not in fields)


def size(points: int) -> str:
    """A number of points as the paper rounds it: 262k, 1M, 8.4M."""
    if points < M1:
        return f"{points // 1000}k" if points >= 1000 else str(points)
    return f"{points / 1e6:.0f}M" if points < 5 * M1 else f"{points / 1e6:.1f}M"


FP32 = Case(what="model", points=K262, dtype="fp32", precision="ieee")
BF16 = Case(what="model", points=K262)
LAYER = Case(what="layer", points=K262, slices=256, layers=1)


def model_cases() -> list[Case]:
    """Tables "FlashSlice against eager", "compiled", "checkpointed"; and every variant once."""
    rows: list[Case] = []
    for compiled in (False, True):
        for base in (
            BF16,
            replace(BF16, points=M1),
            FP32,
            replace(FP32, precision="tf32"),
        ):
            rows += _both_steps(replace(base, compiled=compiled))
    rows += [replace(BF16, points=points, precision="ieee") for points in (K262, M1)]
    rows += [replace(BF16, variant=variant) for variant in VARIANTS if variant != "baseline"]
    rows += [replace(BF16, points=M2), replace(BF16, points=M4), replace(FP32, points=M1)]
    rows += [replace(BF16, points=points, training=False) for points in (M2, M4, M8, M12, M16)]
    rows += [replace(FP32, points=points, training=False) for points in (M1, M2, M4, M8, M12)]
    tf32 = replace(FP32, precision="tf32")
    large = [replace(BF16, points=M1), replace(BF16, points=M4), replace(tf32, points=M1),
             replace(tf32, points=M2)]  # fmt: skip
    for compiled in (False, True):
        rows += [replace(row, checkpointed=True, compiled=compiled) for row in large]
    rows += [replace(BF16, points=M1, training=training, compiled=compiled, stream="bf16")
             for training in (False, True) for compiled in (False, True)]  # fmt: skip
    return rows + largest_cases()


def largest_cases() -> list[Case]:
    """How many points train on one GPU in bf16: normal about the limit, and lean."""
    rows = [replace(BF16, points=M3)]
    rows += [replace(BF16, points=points, compiled=True) for points in (M2, M3, M4)]
    lean = replace(BF16, lean=True)
    for compiled in (False, True):
        counts = (M1, M4, M8, M12)
        rows += [replace(lean, points=points, compiled=compiled) for points in counts]
    rows += [replace(BF16, points=M3, compiled=True, stream="bf16")]
    rows += [
        replace(lean, points=points, compiled=True, stream="bf16") for points in (M1, M16, M20)
    ]
    return rows


def kernels_cases() -> list[Case]:
    """One layer: Table "one layer at large slice counts", and the paper's own slice count."""
    rows: list[Case] = []
    for slices in (256, 512, 1024):
        for points in (K262, M1):
            rows += _both_steps(replace(LAYER, slices=slices, points=points))
    rows += [replace(LAYER, slices=48), replace(LAYER, points=M4, training=False)]
    rows += _both_steps(replace(LAYER, slices=32, points=M1))
    for dtype, precision, points in (
        ("fp32", "tf32x3", K262), ("fp32", "tf32x3", M1), ("fp32", "tf32", K262),
        ("fp32", "ieee", K262), ("fp32", "ieee", M1), ("bf16", "tf32", K262),
        ("bf16", "ieee", K262), ("bf16", "ieee", M1), ("bf16", "bf16v", K262),
    ):  # fmt: skip
        rows.append(replace(LAYER, dtype=dtype, precision=precision, points=points))  # type: ignore[arg-type]
    return rows + [replace(LAYER, slices=32, heads=1)]


def memory_cases() -> list[Case]:
    """Table "structural scaling": slice count and depth; and one layer from 48 to 1024 slices."""
    rows: list[Case] = []
    for base in (BF16, FP32):
        rows += [replace(base, slices=slices) for slices in (16, 32, 64, 128)]
    rows += [replace(LAYER, slices=slices) for slices in (48, 100, 256, 512, 1024)]
    for base in (BF16, FP32):
        rows += [replace(base, layers=layers) for layers in (4, 16, 32, 48)]
    return rows


CASES = {"kernels": kernels_cases, "model": model_cases, "memory": memory_cases}


def _both_steps(case: Case) -> list[Case]:
    return [replace(case, training=False), case]
