"""What is measured, as rows of data: the paper's systems tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

K262, M1, M2, M4, M8 = 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23


@dataclass(frozen=True, kw_only=True)
class Case:
    """One step of one model or layer on one sample."""

    what: Literal["model", "layer"]
    points: int
    dtype: Literal["bf16", "fp32"] = "bf16"
    """bf16 is autocast, with fp32 parameters."""
    precision: str = "bf16"
    training: bool = True
    compiled: bool = False
    slices: int = 32
    layers: int = 8
    variant: str = "baseline"

    @property
    def name(self) -> str:
        """As in "model 262k bf16/bf16 training compiled G=32 L=8"."""
        size = f"{self.points >> 20}M" if self.points >= M1 else f"{self.points // 1000}k"
        step = "training" if self.training else "inference"
        how = "compiled" if self.compiled else "eager"
        depth = f" L={self.layers}" if self.what == "model" else ""
        kind = f"{self.what} {size} {self.dtype}/{self.precision} {step} {how}"
        return f"{kind} G={self.slices}{depth}"


def _both_steps(**fields: object) -> tuple[Case, Case]:
    return Case(training=False, **fields), Case(training=True, **fields)  # type: ignore[arg-type]


def model_cases(*, compiled: bool) -> list[Case]:
    """The full model: Tables "FlashSlice against eager" and "compiled baselines"."""
    rows: list[Case] = []
    for points in (K262, M1):
        rows += _both_steps(what="model", points=points, compiled=compiled)
    for precision in ("ieee", "tf32"):
        rows += _both_steps(
            what="model", points=K262, dtype="fp32", precision=precision, compiled=compiled
        )
    return rows


def compiled_cases() -> list[Case]:
    """The full model under torch.compile, bf16 first."""
    return model_cases(compiled=True)


def layer_cases() -> list[Case]:
    """One layer at large slice counts: Table "one layer at large slice counts"."""
    rows: list[Case] = []
    for slices, points in (
        (256, K262),
        (256, M1),
        (512, K262),
        (512, M1),
        (1024, K262),
        (1024, M1),
    ):
        rows += _both_steps(what="layer", points=points, slices=slices)
    return rows


def memory_cases() -> list[Case]:
    """Memory against the slice count: the model from 16 to 128, one layer from 48 to 1024."""
    model = [Case(what="model", points=K262, slices=g) for g in (16, 32, 64, 128)]
    return model + [Case(what="layer", points=K262, slices=g) for g in (48, 100, 256, 1024)]
