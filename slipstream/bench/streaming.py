"""Many points streamed through a model of the paper's kind: peak memory and time, a case a process.

The cloud is made block by block from a seed and is never held as a whole, and outputs are dropped
when they come. What is measured is therefore what streaming itself takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from slipstream.bench.cases import size
from slipstream.bench.cpu_process import peak_bytes
from slipstream.bench.gate import Verdict, compared, distance
from slipstream.bench.measure import allocated_gb, peak_gb
from slipstream.bench.subjects import COORDS, FEATURES, OUTPUTS, spread_slots
from slipstream.bench.workers import run_tasks
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, derive_seed, device_name
from slipstream.models.sweep_plan import Parked, SweepPlan, plan_sweeps
from slipstream.models.sweeps import Inputs, Points, stream_through
from slipstream.models.transolver import Transolver
from slipstream.models.variants import PAPER, Size

StreamedDtype = Literal["fp32", "bf16"]
BLOCK = 1 << 14
"""Points that one seed makes: the cloud does not depend on the size of a chunk."""
GATE_POINTS = 1000
GATE_CHUNK = 7 * 47
"""Points of a chunk in the gate: three chunks of it and one that is smaller."""
EXACT_LIMIT, OWN_LIMIT = 1e-12, 3.0
"""Of the relative distance to one pass in fp64; and of the error in the case's dtype, over that of
one pass in the same dtype."""
LONGEST_S = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class StreamingCase:
    """A number of points through a model, and how."""

    points: int
    chunk: int | None = None
    """None for what the plan takes on the device."""
    place: Parked = "auto"
    dtype: StreamedDtype = "fp32"
    """bf16 means autocast to it, with parameters and stream in fp32."""
    size: Size = PAPER
    variant: str = "baseline"
    folder: Path | None = None
    """Where the file of parked chunks is."""
    one_pass: bool = False
    """Whether all points are also taken at once, to be compared."""

    @property
    def name(self) -> str:
        """As in "streaming 4M fp32 C=256 L=8 chunk 32k file"."""
        parts = ["streaming", size(self.points), self.dtype]
        parts += [f"C={self.size.width}", f"L={self.size.layers}"]
        parts += [] if self.variant == "baseline" else [self.variant]
        parts += [] if self.chunk is None else ["chunk", size(self.chunk)]
        return " ".join([*parts, self.place])

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": None if self.folder is None else str(self.folder)}


def run_streaming(
    cases: Sequence[StreamingCase], out: Path, device: str
) -> Iterator[dict[str, Any]]:
    """Measure every case in a process of its own, and yield its record when it is written."""
    common = {"commit": commit(), "command": "streaming"}
    for case in cases:
        work = partial(measure_streaming, device=device)
        for _, outcome in run_tasks([[case]], work, workers=1, limit_s=LONGEST_S):
            fields = {
                "name": case.name, "case": case.as_json(), "gate": None, "result": None,
                "device": None, "error": outcome.error, **(outcome.result or {}),
            }  # fmt: skip
            yield append_record(out, "streaming", {**fields, **common})


def succeeded(record: dict[str, Any]) -> bool:
    return record["result"] is not None


def measure_streaming(case: StreamingCase, *, device: str) -> dict[str, Any]:
    """The verdict of the gate and, if it is green, memory and time."""
    verdict = judge_streaming(case, device)
    result = _measured(case, device) if verdict.green else None
    return {
        "gate": verdict.as_json(), "result": result, "device": device_name(torch.device(device)),
        **({} if verdict.green else {"error": "the gate is red"}),
    }  # fmt: skip


def judge_streaming(case: StreamingCase, device: str) -> Verdict:
    """A small cloud streamed as the case is, against one pass: in fp64, and in the case's dtype."""
    points = min(case.points, GATE_POINTS)
    small = replace(case, points=points, chunk=min(case.chunk or GATE_CHUNK, GATE_CHUNK))
    exactly = _model(case, device).double()
    cloud = Cloud(points, torch.device(device))
    whole = exactly(*cloud.read(0, points, torch.float64))
    parts = _collected(small, exactly, cloud, torch.float64)
    model = _model(case, device)
    with _autocast(case, device):
        at_once = distance(model(*cloud.read(0, points)), whole)
        streamed = distance(_collected(small, model, cloud, torch.float32), whole)
    ratio = streamed / at_once if at_once else math.inf if streamed else 0.0
    return compared(
        {"fp64": distance(parts, whole), f"{case.dtype} over one pass": ratio},
        {"fp64": EXACT_LIMIT, f"{case.dtype} over one pass": OWN_LIMIT},
    )


@dataclass(frozen=True)
class Cloud:
    """Random points in the unit cube with random features, made where they are needed."""

    count: int
    device: torch.device

    def read(self, first: int, end: int, dtype: torch.dtype = torch.float32) -> Inputs:
        """Coordinates and features of a span; the blocks that it touches are drawn whole."""
        rows = torch.empty(1, end - first, COORDS + FEATURES, device=self.device, dtype=dtype)
        for block in range(first // BLOCK, -(-end // BLOCK)):
            begin = block * BLOCK
            low, high = max(first, begin), min(end, begin + BLOCK)
            rows[0, low - first : high - first] = self._block(block)[low - begin : high - begin]
        return rows[..., :COORDS].contiguous(), rows[..., COORDS:].contiguous()

    def _block(self, block: int) -> Tensor:
        draw = torch.Generator(self.device).manual_seed(derive_seed(0, "cloud", block))
        return torch.rand(BLOCK, COORDS + FEATURES, generator=draw, device=self.device)


def _measured(case: StreamingCase, device: str) -> dict[str, Any]:
    model = _model(case, device)
    _stream(replace(case, points=GATE_POINTS, chunk=GATE_CHUNK), model, device)  # loads libraries
    before = allocated_gb(device)
    plan = _plan(case, model)
    figures: dict[str, Any] = {
        "plan": str(plan), "chunk": plan.chunk, "place": plan.place, "kernels": model.kernels,
        "parked_gb": plan.parked_bytes / 1e9, "model_gb": _parameter_bytes(model) / 1e9,
    }  # fmt: skip
    checks: list[float] = []

    def step() -> None:
        start = time.process_time(), time.perf_counter()
        checks.append(_stream(case, model, device))
        wall, cpu = time.perf_counter() - start[1], time.process_time() - start[0]
        figures.update(wall_s=wall, cpu_s=cpu, points_per_second=case.points / wall,
                       points_per_cpu_second=case.points / cpu)  # fmt: skip

    if torch.device(device).type == "cuda":
        figures["peak_gb"] = peak_gb(step, before, device)
    else:
        peak = peak_bytes(step)
        figures["peak_gb"] = None if peak is None else peak / 1e9
    if case.one_pass:
        figures["one_pass"] = _one_pass(case, model, device)
    return {**figures, "mean_square": checks[-1]}


def _stream(case: StreamingCase, model: Transolver, device: str) -> float:
    """Stream the cloud; the mean square of the outputs, which says that all were computed."""
    total = torch.zeros((), dtype=torch.float64, device=device)

    def write(first: int, end: int, part: Tensor) -> None:
        total.add_(part.double().square().sum())

    cloud = Cloud(case.points, torch.device(device))
    with _autocast(case, device):
        stream_through(model, Points(cloud.count, cloud.read), _plan(case, model).sweeping, write)
    return float(total) / (case.points * OUTPUTS)  # waits for the device


@torch.no_grad()
def _one_pass(case: StreamingCase, model: Transolver, device: str) -> dict[str, Any]:
    """All points at once: time, memory, and the distance of the streamed outputs."""
    cloud = Cloud(case.points, torch.device(device))
    streamed = _collected(case, model, cloud, torch.float32).float()
    whole: list[Tensor] = []
    inputs = cloud.read(0, case.points)

    def step() -> None:
        with _autocast(case, device):
            whole.append(model(*inputs).float())

    before = allocated_gb(device)
    start = time.perf_counter()
    on_gpu = torch.device(device).type == "cuda"
    peak = peak_gb(step, before, device) if on_gpu else (peak_bytes(step) or 0) / 1e9
    return {
        "wall_s": time.perf_counter() - start,
        "peak_gb": peak,
        "distance": distance(streamed, whole[0]),
        "largest_difference": float((streamed - whole[0]).abs().max()),
        "largest_output": float(whole[0].abs().max()),
    }


def _collected(case: StreamingCase, model: Transolver, cloud: Cloud, dtype: torch.dtype) -> Tensor:
    parts: list[Tensor] = []
    points = Points(cloud.count, partial(cloud.read, dtype=dtype))
    with _autocast(case, str(cloud.device)) if dtype != torch.float64 else torch.no_grad():
        stream_through(
            model, points, _plan(case, model).sweeping, lambda a, b, part: parts.append(part)
        )
    return torch.cat(parts, 1)


def _plan(case: StreamingCase, model: Transolver) -> SweepPlan:
    return plan_sweeps(model, case.points, chunk=case.chunk, place=case.place, folder=case.folder)


def _model(case: StreamingCase, device: str) -> Transolver:
    model = Transolver(COORDS, FEATURES, OUTPUTS, variant=case.variant, size=case.size)
    spread_slots(model)
    return model.to(device).requires_grad_(False).eval()


def _parameter_bytes(model: Transolver) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def _autocast(case: StreamingCase, device: str) -> torch.autocast:
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=case.dtype == "bf16")
