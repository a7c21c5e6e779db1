"""What a training step keeps between its forward and its backward pass, and what that costs.

Kept bytes are counted: autograd shows every tensor that it saves, those of custom functions and of
checkpoints too, and each memory counts once. The bytes of a layer are the difference between two
depths, divided. Peaks and times are those of whole steps, each way in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from slipstream.bench.cases import Case, Dtype, size
from slipstream.bench.cpu_process import peak_bytes
from slipstream.bench.cpu_subjects import SUBJECTS, build_subject
from slipstream.bench.gate import Verdict, compared, distance
from slipstream.bench.subjects import (
    COORDS,
    FEATURES,
    OUTPUTS,
    build,
    checkpoint_blocks,
    draw_inputs,
    spread_slots,
)
from slipstream.bench.workers import run_tasks
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, device_name, package_version
from slipstream.models.lean import lean_forward
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size

Keeper = Literal["normal", "recompute", "lean", "flashslice", "flashslice checkpointed"]
"""Our modes, and flashslice's eager model, with each of its blocks checkpointed or not."""
KEEPERS: tuple[Keeper, ...] = get_args(Keeper)
OURS = KEEPERS[:3]
COUNTED_POINTS, DEPTHS = (512, 1024), (2, 4)
GATE_POINTS, GATE_CHUNK, GATE_LIMIT = 1000, 77, 1e-12
REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class KeptCase:
    """A number of points through a training step of a baseline; without points, kept bytes only."""

    keeper: Keeper
    dtype: Dtype = "fp32"
    points: int | None = None
    width: int = 256
    layers: int = 8

    @property
    def name(self) -> str:
        """As in "kept bf16 C=256 lean" and "step 131k fp32 C=64 L=4 lean"."""
        if self.points is None:
            return f"kept {self.dtype} C={self.width} {self.keeper}"
        return f"step {size(self.points)} {self.dtype} C={self.width} L={self.layers} {self.keeper}"


def kept_cases(*, peer: bool) -> list[KeptCase]:
    """Kept bytes of the paper's width, in both dtypes."""
    keepers = KEEPERS if peer else OURS
    return [
        KeptCase(keeper=keeper, dtype=dtype) for dtype in ("fp32", "bf16") for keeper in keepers
    ]


def step_cases(points: list[int], *, width: int, layers: int) -> list[KeptCase]:
    """Whole steps of our modes."""
    return [
        KeptCase(keeper=keeper, points=count, width=width, layers=layers)
        for count in points
        for keeper in OURS
    ]


def run_kept(cases: list[KeptCase], out: Path) -> Iterator[dict[str, Any]]:
    """Measure every case in a process of its own, and yield its record when it is written."""
    common = {
        "commit": commit(), "device": device_name(torch.device("cpu")), "command": "memory-kept",
        "peer": package_version("flashslice"),
    }  # fmt: skip
    for case in cases:
        for _, outcome in run_tasks([[case]], measure_kept, workers=1, limit_s=3600):
            fields = {"name": case.name, "case": asdict(case), "error": outcome.error}
            result = outcome.result or {"gate": None, "result": None}
            yield append_record(out, "kept", {**fields, **result, **common})


def succeeded(record: dict[str, Any]) -> bool:
    return record["result"] is not None


def measure_kept(case: KeptCase) -> dict[str, Any]:
    """The verdict of the gate and, if it is green, the figures."""
    verdict = judge_lean()
    result = None
    if verdict.green:
        result = _counted(case) if case.points is None else _stepped(case, case.points)
    return {"gate": verdict.as_json(), "result": result}


def judge_lean() -> Verdict:
    """Output and gradients of lean memory against normal, in fp64 and many chunks."""
    model = _model(KeptCase(keeper="normal", width=32, layers=2)).double()
    inputs = [tensor.double() for tensor in _inputs(GATE_POINTS)]
    found = []
    for output in (model(*inputs), lean_forward(model, inputs[0], inputs[1], chunk=GATE_CHUNK)):
        gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()))
        found.append(
            torch.cat([output.detach().flatten(), *(each.flatten() for each in gradients)])
        )
    return compared({"fp64": distance(found[1], found[0])}, {"fp64": GATE_LIMIT})


def kept_bytes(module: nn.Module, forward: Callable[[], object]) -> int:
    """Bytes that a forward pass keeps for the backward pass, without parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(saved: Tensor) -> Tensor:
        kept.setdefault(saved.untyped_storage().data_ptr(), saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        graph = forward()  # held, so that no memory is used twice
        total = sum(t.untyped_storage().nbytes() for at, t in kept.items() if at not in own)
    del graph
    return total


def _counted(case: KeptCase) -> dict[str, Any]:
    """Bytes a point, of each layer and of all that is not a layer; and bytes whatever the points.

    From four counts, as they are sums of these four terms.
    """
    counts = [[_kept(case, layers, points) for points in COUNTED_POINTS] for layers in DEPTHS]
    points, layers = COUNTED_POINTS[1] - COUNTED_POINTS[0], DEPTHS[1] - DEPTHS[0]
    slopes = [(many - few) / points for few, many in counts]
    each = (slopes[1] - slopes[0]) / layers
    of_tokens = (counts[1][0] - counts[0][0]) / layers - each * COUNTED_POINTS[0]
    return {
        "bytes_per_point_and_layer": each, "bytes_per_point_besides": slopes[0] - DEPTHS[0] * each,
        "bytes_per_layer": of_tokens,
    }  # fmt: skip


def _kept(case: KeptCase, layers: int, points: int) -> int:
    model, inputs = _subject(case.keeper, layers, points)
    with torch.autocast("cpu", torch.bfloat16, enabled=case.dtype == "bf16"):
        return kept_bytes(model, lambda: model(*inputs))


def peer_case() -> Case:
    """What flashslice must have for its bytes to be counted."""
    return Case(what="model", points=COUNTED_POINTS[0], dtype="fp32", precision="ieee")


def _subject(keeper: Keeper, layers: int, points: int) -> tuple[nn.Module, list[Tensor]]:
    checkpointed, lean = keeper == "recompute", keeper == "lean"
    case = replace(peer_case(), points=points, layers=layers, checkpointed=checkpointed, lean=lean)
    if keeper in OURS:
        return spread_slots(build(case, "auto")), draw_inputs(case)
    peer = SUBJECTS["flashslice"]
    model = build_subject(peer, case)
    model = checkpoint_blocks(model) if keeper == "flashslice checkpointed" else model
    return model, peer.inputs(draw_inputs(case))


def _stepped(case: KeptCase, points: int) -> dict[str, Any]:
    """Peak memory of a step above the model and its inputs, and CPU seconds of one thread.

    Two threads that share their cores with other programs count their waiting as CPU time.
    """
    torch.set_num_threads(1)
    model, inputs = _model(case), _inputs(points)
    few = [tensor[:, :64] for tensor in inputs]

    def step(given: list[Tensor] = inputs) -> None:
        model(*given).square().mean().backward()
        model.zero_grad()

    step(few)  # loads libraries
    peak = peak_bytes(step)
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    return {
        "peak_gb": None if peak is None else peak / 1e9, "cpu_s": sorted(seconds)[REPEATS // 2],
        "cpu_s_all": seconds,
    }  # fmt: skip


def _model(case: KeptCase) -> Transolver:
    shape = Size(width=case.width, layers=case.layers, heads=max(1, case.width // 32))
    model = Transolver(COORDS, FEATURES, OUTPUTS, size=shape)
    spread_slots(model)
    model.recompute = case.keeper == "recompute"
    model.memory = "lean" if case.keeper == "lean" else "normal"
    return model


def _inputs(points: int) -> list[Tensor]:
    return draw_inputs(Case(what="model", points=points))
