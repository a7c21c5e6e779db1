"""How much longer a step of the trainer takes than the bare step of the model.

The trainer's step includes data, loss, optimiser and records. The bare step is that of `bench
model`: forward and backward on inputs that are on the device. Blocks of steps of the two take
turns, and at the end of each the device is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from slipstream.bench.cases import Case
from slipstream.bench.data import RandomRows
from slipstream.bench.measure import quantile
from slipstream.bench.subjects import make_step
from slipstream.core.checks import check_whole
from slipstream.data.batches import endless
from slipstream.data.store import Field, Schema, ingest, open_store
from slipstream.kernels.plan import Impl
from slipstream.models.variants import PAPER, Size
from slipstream.runs.config import DataConfig, ModelConfig, RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.training.distributed import World
from slipstream.training.trainer import Trainer

SCHEMA = Schema(
    (Field("position", "m", components=3),),
    (Field("normal", components=3), Field("inflow", "m/s", components=2)),
    (Field("pressure", "Pa"), Field("shear", "Pa", components=3)),
)
"""3 coordinates, 5 features, 4 outputs: those of `bench model`."""
SPARE = 4
"""A sample has this many rows for each row that a step draws."""


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """The step to measure: its points, dtype and how it is run."""

    points: int
    dtype: Literal["fp32", "bf16"] = "bf16"
    dots: Literal["ieee", "tf32", "bf16"] = "bf16"
    compiled: bool = False
    cuda_graph: bool = True
    workers: int = 4
    size: Size = PAPER
    impl: Impl = "fused"

    def __post_init__(self) -> None:
        check_whole("points", self.points, 1)

    def run_config(self, store: Path, steps: int) -> RunConfig:
        return RunConfig(
            experiment="overhead",
            data=DataConfig(
                problem=None, store=str(store), points=self.points, workers=self.workers
            ),
            model=ModelConfig(size=self.size, impl=self.impl, dots=self.dots),
            steps=steps,
            precision=self.dtype,
            compile=self.compiled,
            cuda_graph=self.cuda_graph,
            evaluate_every=steps,
        )


def measure_overhead(
    wanted: Overhead, folder: Path, *, device: str, block: int = 20, blocks: int = 5
) -> dict[str, Any]:
    """Milliseconds of a trainer's step and of a bare one, and their ratio, by blocks of steps."""
    samples = RandomRows(SPARE * wanted.points, samples=4, schema=SCHEMA)
    ingest(samples, folder / "store")
    config = wanted.run_config(folder / "store", steps=10 * block * (blocks + 2))
    run = RunFolder(folder / "run")
    run.begin(config)
    trainer = Trainer(config, open_store(folder / "store"), run, World(torch.device(device)))
    batches = endless(trainer.state.loader)
    bare = make_step(_case(wanted), "fused" if wanted.impl == "fused" else "reference", device)
    ways: dict[str, Callable[[], object]] = {
        "trainer": lambda: trainer.advance(next(batches)),
        "bare": bare,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(blocks + 1):
        for name, step in ways.items():
            taken = _milliseconds(step, block, device)
            if turn:  # the first turn warms up
                times[name].append(taken)
    medians = {f"{name}_ms": quantile(taken, 0.5) for name, taken in times.items()}
    rows = run.history("train")
    return {
        "points": wanted.points, "dtype": wanted.dtype, "dots": wanted.dots,
        "compiled": wanted.compiled, "workers": wanted.workers, "block": block, "times": times,
        **medians, "ratio": medians["trainer_ms"] / medians["bare_ms"],
        "launches": "one by one" if trainer.one_by_one else "CUDA graph",
        "records": len(rows), "kernels": rows[-1]["kernels"], "peak_gb": rows[-1]["peak_gb"],
    }  # fmt: skip


def _case(wanted: Overhead) -> Case:
    case = Case(
        what="model", points=wanted.points, dtype=wanted.dtype, precision=wanted.dots,
        compiled=wanted.compiled,
    )  # fmt: skip
    size = wanted.size
    return replace(case, slices=size.slices, layers=size.layers, heads=size.heads)


def _milliseconds(step: Callable[[], object], count: int, device: str) -> float:
    """The mean milliseconds of `count` steps; the device is idle before and after them."""
    _wait(device)
    started = time.perf_counter()
    for _ in range(count):
        step()
    _wait(device)
    return 1e3 * (time.perf_counter() - started) / count


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
