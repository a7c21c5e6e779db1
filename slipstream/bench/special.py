"""Checks beyond the grid of shapes: each is a function from a case and a device to a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from slipstream.bench import large, operators
from slipstream.bench.cases import Case
from slipstream.bench.gate import (
    BF16_FLOOR,
    Tensors,
    Verdict,
    Way,
    Yardstick,
    autocast,
    bitwise,
    compared,
    draws_on,
    judge,
)
from slipstream.bench.modules import (
    ModuleProblem,
    judge_module,
    outputs_and_gradients,
    way_of,
    yardstick_of,
)
from slipstream.bench.operators import OperatorProblem
from slipstream.bench.parity_cases import TORCH_DTYPES, SpecialCase
from slipstream.bench.subjects import checkpoint_blocks

STEPS, LEARNING_RATE = 60, 1e-4
TRAJECTORY_LIMIT = 2e-6
"""Largest relative distance of all parameters after the steps."""
COMPILED_SLACK = 8.0
"""Factor on the limits, ten in all for `ieee`: the compiler also changes what is no kernel."""
ONE_POINT_SLACK = 8.0
EVEN_TEMPERATURE = 1e-5
"""Error of the temperature's gradient that passes where weights are almost even: the single-tile
kernel computes the logits back from the weights, which loses digits there. Seen: 4e-6."""
EVEN_DRAWS = 64
"""Draws on a GPU where weights are even, and the gradient of the temperature is what cancellation
leaves: one number a head. Over 8 its ratio was 2.07 in bf16 with G = 48, over 64 it is 0.87 (H200).
"""
COMPILERS = {"cuda": "inductor", "cpu": "aot_eager"}
"""On a CPU the kernels are interpreted, and compiling the rest would check nothing of them."""


def run_special(case: SpecialCase, device: str) -> Verdict:
    return CHECKS[case.check](case, device)


def trajectory(case: SpecialCase, device: str) -> Verdict:
    """Train fused and eager from the same initial values, and compare the parameters.

    Their distance must be at most 2e-6, or twice that of two eager runs whose points come in
    another order: AdamW turns a gradient that is nothing but rounding into a whole step.
    """
    problem = _problem(case, device)
    eager = _train(problem, Way(), 0)
    fused = _train(problem, way_of(problem.case), 0)
    others = [_train(problem, Way(), order) for order in (1, 2)]
    own = max(_apart(other, eager) for other in others)
    verdict = compared(
        {"parameters": _apart(fused, eager)}, {"parameters": max(TRAJECTORY_LIMIT, 2 * own)}
    )
    distances = {"eager in another order": own, "last loss": _apart(fused[-1:], eager[-1:])}
    return replace(verdict, ratios=verdict.ratios | distances)


def _train(problem: ModuleProblem, way: Way, order: int) -> list[Tensor]:
    """The parameters after some steps of AdamW, and the last loss."""
    model, inputs, noise = problem.setting(way, order=order)
    coords = inputs[0]
    target = torch.cat((coords.sin(), coords.prod(-1, keepdim=True)), -1) + 0.1 * noise
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    loss = target.new_zeros(())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(*inputs) - target).square().mean()
        loss.backward()
        optimizer.step()
    return [*(p.detach() for p in model.parameters()), loss.detach()]


def _apart(one: list[Tensor], other: list[Tensor]) -> float:
    """Relative distance of two lists of tensors, each as one vector."""
    a, b = (torch.cat([t.double().flatten() for t in each]) for each in (one, other))
    return float((a - b).norm() / b.norm())


def one_point(case: SpecialCase, device: str) -> Verdict:
    """The gate on slice and deslice of a cloud of a single point, with some slack.

    The tokens of a single point are its values whatever the weights are. The gradients of the slots
    are what cancellation leaves, orders of magnitude below the others.
    """
    problem, way = _operators(case, device), Way("fused", case.precision)
    return judge(
        Yardstick(problem, draws_on(device)), way, plan=problem.plan(way), slack=ONE_POINT_SLACK
    )


def one_point_model(case: SpecialCase, device: str) -> Verdict:
    """The gate on a model of a single point."""
    return judge_module(_problem(case, device).case, device, slack=ONE_POINT_SLACK)


def regime(case: SpecialCase, device: str) -> Verdict:
    """The gate on operations in a state that a trained model may have; the check names the state.

    Random inputs are not enough. Slots without points once spoiled the gradients of all others, and
    ended the training of baselines with G = 8 and 256, while every other case was green.
    """
    problem = replace(_operators(case, device), regime=cast(operators.Regime, case.check))
    autocast = case.precision in ("bf16", "bf16v")
    way = Way("fused", case.precision, torch.float32 if autocast else problem.dtype, autocast)
    even = problem.regime == "even slices"
    floors = _even_floors(autocast) if even else {}
    many = even and torch.device(device).type == "cuda"
    yardstick = Yardstick(problem, EVEN_DRAWS if many else draws_on(device))
    return judge(yardstick, way, plan=problem.plan(way), floors=floors)


def _even_floors(bf16: bool) -> dict[str, float]:
    """Errors that pass where weights are almost even.

    In bf16 the mass is the sum of rounded weights, by which the numerator is summed too. Weights
    that are all alike are all rounded in the same direction, so the mass is off by that rounding;
    it cancels in the tokens.
    """
    floors = {"gradient of temperature": EVEN_TEMPERATURE}
    return floors | {"mass": BF16_FLOOR} if bf16 else floors


def batch_of_two(case: SpecialCase, device: str) -> Verdict:
    return judge_module(_problem(case, device).case, device, batch=2)


def checkpointing(case: SpecialCase, device: str) -> Verdict:
    """Recomputing the activations of every block gives the same gradients to the bit."""
    problem = _problem(case, device)
    way = way_of(problem.case)
    module, inputs, cotangent = problem.setting(way)
    plain = outputs_and_gradients(module, inputs, cotangent, way, device)
    again = outputs_and_gradients(checkpoint_blocks(module), inputs, cotangent, way, device)
    return bitwise({name.replace(".block.", "."): t for name, t in again.items()}, plain)


def compiled(case: SpecialCase, device: str) -> Verdict:
    """The gate, with some slack, on a model that torch.compile turns into a single graph."""
    problem = _problem(case, device)
    backend = COMPILERS[torch.device(device).type]
    torch._dynamo.reset()
    if backend == "inductor":
        _compile_in_this_process()
    way = way_of(problem.case)
    module, _, _ = problem.setting(way)
    whole: Any = torch.compile(module, fullgraph=True, backend=backend)

    def through_the_compiler(way: Way, draw: int) -> Tensors:
        _, inputs, cotangent = problem.setting(way, draw=draw)
        results = outputs_and_gradients(whole, inputs, cotangent, way, device)
        return {name.removeprefix("_orig_mod."): tensor for name, tensor in results.items()}

    return judge(
        yardstick_of(problem), way, problem=through_the_compiler, slack=COMPILED_SLACK,
        plan=module.kernels,  # type: ignore[arg-type]
    )  # fmt: skip


def _compile_in_this_process() -> None:
    """Let the compiler start no processes of its own: many compile at the same time already."""
    import torch._inductor.config as config

    config.compile_threads = 1


def strided(case: SpecialCase, device: str) -> Verdict:
    """Inputs that are views, with gaps or axes in another order, give the same bits."""
    problem, way = _operators(case, device), Way("fused", case.precision)
    given = operators.prepared(operators.inputs_of(problem), way)
    plain = operators.outputs_and_gradients(problem, given, way)
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "gaps": _with_gaps,
        "heads first": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        "width first": lambda t: t.transpose(1, 3).contiguous().transpose(1, 3),
    }
    results: Tensors = {}
    for what, view in views.items():
        changed = dict(given)
        for name in ("query", "values", "cotangent of out"):
            changed[name] = view(given[name].detach()).requires_grad_(given[name].requires_grad)
        outputs = operators.outputs_and_gradients(problem, changed, way)
        results |= {f"{name}, {what}": tensor for name, tensor in outputs.items()}
    return bitwise(results, {f"{n}, {what}": t for what in views for n, t in plain.items()})


def _with_gaps(tensor: Tensor) -> Tensor:
    """A view of a tensor twice as wide, as when one projection makes query and values."""
    return torch.cat((torch.full_like(tensor, torch.nan), tensor), -1)[..., tensor.shape[-1] :]


def graph_inference(case: SpecialCase, device: str) -> Verdict:
    """A captured forward pass, replayed on other inputs, gives the same bits as an eager one."""
    return _replayed(case, device, training=False)


def graph_training(case: SpecialCase, device: str) -> Verdict:
    """A captured forward and backward pass, replayed, gives the bits of an eager one."""
    return _replayed(case, device, training=True)


def _replayed(case: SpecialCase, device: str, *, training: bool) -> Verdict:
    problem = _problem(case, device)
    way = way_of(problem.case)
    module, inputs, cotangent = problem.setting(way)

    def step() -> Tensors:
        if training:
            return outputs_and_gradients(module, inputs, cotangent, way, device)
        return {"output": _forward(module, inputs, way, device)}

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        captured = step()
    for tensor in inputs:
        tensor.copy_(tensor.flip(1))
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        expected = step()
    torch.cuda.synchronize()
    return bitwise(captured, expected)


@torch.no_grad()
def _forward(module: nn.Module, inputs: list[Tensor], way: Way, device: str) -> Tensor:
    with autocast(way, device):
        return module(*inputs)


def past_32_bits(case: SpecialCase, device: str) -> Verdict:
    """One layer's slice and deslice of so many points that their offsets need 64 bits."""
    way = Way("fused", case.precision, autocast=case.dtype == "bf16")
    return large.check_in_chunks(
        way, over=case.over, points=case.points, slices=case.slices, device=device
    )


def _operators(case: SpecialCase, device: str) -> OperatorProblem:
    return OperatorProblem(
        over=case.over, slices=case.slices, width=32, dtype=TORCH_DTYPES[case.dtype],
        points=case.points, device=device,
    )  # fmt: skip


def _problem(case: SpecialCase, device: str) -> ModuleProblem:
    row = Case(
        what="model", points=case.points, dtype=case.dtype, precision=case.precision,
        slices=case.slices, layers=case.layers, variant=case.variant,
    )  # fmt: skip
    return ModuleProblem(row, device=device)


CHECKS: dict[str, Callable[[SpecialCase, str], Verdict]] = {
    "trajectory": trajectory,
    **dict.fromkeys(get_args(operators.Regime)[1:], regime),
    "batch of two": batch_of_two,
    "one point": one_point,
    "one point, model": one_point_model,
    "strided": strided,
    "checkpointing": checkpointing,
    "compiled": compiled,
    "graph inference": graph_inference,
    "graph training": graph_training,
    "past 32 bits": past_32_bits,
}
