"""One slice, a map of the tokens and one deslice, as a problem for the gate.

Over the slots both use one membership with its statistics, as the models do. Over the points the
deslice uses the same query and slots normalised over the slots, and computes its own statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from slipstream.bench.gate import Tensors, Way, autocast
from slipstream.bench.tf32 import tf32_products
from slipstream.core.runtime import generator
from slipstream.kernels.api import couple, deslice_tokens, slice_points, with_statistics
from slipstream.kernels.membership import Axis, Membership
from slipstream.kernels.plan import How, Operation, make_plan
from slipstream.models.layers import attend
from slipstream.models.variants import EPSILON

PARAMETERS = ("slot_weight", "slot_bias", "temperature", "mix")
LEAVES = ("query", "values", "slot_weight", "slot_bias", "temperature")
Regime = Literal["as drawn", "idle slots", "sharp slices", "even slices", "one far point"]
"""States that a model may reach after training for a while.

`idle slots`: half of the slots have at most a thousandth of the others' mass, and their numerators
get by far the largest gradients. `sharp slices`: every point belongs to one slot. `even slices`:
every point belongs to all slots alike, so that tokens hardly differ. In these three the tokens are
mixed by attention. `one far point`: the values of one point are 10,000 times those of the others.
Attention among such tokens jumps from one to another at the slightest rounding, so they are mixed
without it.
"""


@dataclass(frozen=True, kw_only=True)
class OperatorProblem:
    """The shape and axis of the operations, and the dtype to which their inputs are rounded.

    They are rounded once, so that eager, the kernels and fp64 start from the same numbers.
    """

    over: Axis = "slots"
    slices: int
    width: int
    dtype: torch.dtype = torch.float32
    points: int = 2003
    batch: int = 2
    heads: int = 2
    device: str = "cuda"
    regime: Regime = "as drawn"

    def __call__(self, way: Way, draw: int) -> Tensors:
        return outputs_and_gradients(self, prepared(_inputs(self, draw), way), way)

    def plan(self, way: Way) -> str:
        """Which implementation computes it that way: on a GPU, unless it is the CPU's own."""
        dtype = torch.bfloat16 if way.autocast else way.dtype
        name = str(dtype).removeprefix("torch.")
        device = "cpu" if way.impl == "chunked" else "cuda"
        operation = Operation(device, name, self.slices, self.width, self.width, self.over)
        return str(make_plan(operation, impl=way.impl, precision=way.precision))


def prepared(inputs: Tensors, way: Way) -> Tensors:
    """Inputs in the dtypes of the way: under autocast all but the parameters are bf16."""
    cast_inputs = {}
    for name, tensor in inputs.items():
        cast = way.autocast and name not in PARAMETERS
        dtype = torch.bfloat16 if cast else way.dtype
        cast_inputs[name] = tensor.to(dtype).requires_grad_(name in LEAVES)
    return cast_inputs


def outputs_and_gradients(problem: OperatorProblem, given: Tensors, way: Way) -> Tensors:
    """By name the outputs of the operations, and the gradients of a fixed function of them.

    Over the slots there are two sets: by slice and deslice, and by `couple`, which has kernels of
    its own.
    """
    with tf32_products(way.tf32):
        with autocast(way, problem.device):
            outputs, tokens = _slice_and_deslice(problem, given, way)
        results = _with_gradients(outputs, tokens, given)
        if problem.over == "slots":
            with autocast(way, problem.device):
                outputs, tokens = _couple(problem, given, way)
            coupled = _with_gradients(outputs, tokens, given)
            results |= {f"coupled: {name}": tensor for name, tensor in coupled.items()}
    return results


def _slice_and_deslice(
    problem: OperatorProblem, given: Tensors, way: Way
) -> tuple[Tensors, Tensor]:
    """Outputs by name, and the tokens between the two operations."""
    how = _how(way)
    slicing = with_statistics(_membership(given, problem.over), **how)
    sums = slice_points(slicing, given["values"], **how)
    if problem.over == "slots":
        tokens = _mix(problem, given, sums.tokens(EPSILON))
        out = deslice_tokens(slicing, tokens, **how)
        return {"numerator": sums.numerator, "mass": sums.mass, "out": out}, tokens
    assert sums.log_normalizer is not None
    tokens = _mix(problem, given, sums.tokens())
    out = deslice_tokens(_membership(given, "slots"), tokens, **how)
    normalizer = sums.log_normalizer
    return {"numerator": sums.numerator, "log_normalizer": normalizer, "out": out}, tokens


def _couple(problem: OperatorProblem, given: Tensors, way: Way) -> tuple[Tensors, Tensor]:
    how, seen = _how(way), []

    def mix(means: Tensor) -> Tensor:
        seen.append(_mix(problem, given, means))
        return seen[-1]

    membership = with_statistics(_membership(given, "slots"), **how)
    out = couple(membership, given["values"], mix, epsilon=EPSILON, **how)
    return {"out": out}, seen[-1]


def _with_gradients(outputs: Tensors, tokens: Tensor, given: Tensors) -> Tensors:
    inputs = {name: given[name] for name in LEAVES} | {"tokens": tokens}
    gradients = torch.autograd.grad(
        list(outputs.values()),
        list(inputs.values()),
        [given[f"cotangent of {name}"].to(t.dtype) for name, t in outputs.items()],
    )
    named = {f"gradient of {n}": g for n, g in zip(inputs, gradients, strict=True)}
    return {name: tensor.detach() for name, tensor in {**outputs, **named}.items()}


def _how(way: Way) -> How:
    return {"impl": way.impl, "precision": way.precision}


def _membership(given: Tensors, over: Axis) -> Membership:
    slots = (given["slot_weight"], given["slot_bias"], given["temperature"])
    return Membership(given["query"], *slots, over)


def _mix(problem: OperatorProblem, given: Tensors, means: Tensor) -> Tensor:
    tokens = means @ given["mix"].to(means.dtype)
    plain = problem.regime in ("as drawn", "one far point")
    return tokens if plain else attend(tokens, tokens, tokens)


@lru_cache(maxsize=16)
def _inputs(problem: OperatorProblem, number: int = 0) -> Tensors:
    """Inputs and cotangents by name, rounded to the problem's dtype and stored in fp64."""
    draw = generator(number, "operators")
    b, n, h, g, d = problem.batch, problem.points, problem.heads, problem.slices, problem.width
    # Means of random values are small; with this scale the tokens are of the order of one.
    scale = (n / d if problem.over == "points" else n / (g * d)) ** 0.5
    shapes = {
        "query": (b, n, h, d), "values": (b, n, h, d), "slot_weight": (g, d), "slot_bias": (g,),
        "temperature": (h,), "mix": (d, d), "cotangent of numerator": (b, h, g, d),
        "cotangent of mass": (b, h, g), "cotangent of log_normalizer": (b, h, g),
        "cotangent of out": (b, n, h, d),
    }  # fmt: skip
    drawn = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    drawn["slot_weight"] /= d**0.5
    drawn["temperature"] = 0.5 + torch.rand(h, generator=draw)
    drawn["mix"] *= scale
    _bring_to(problem.regime, drawn)
    return {name: t.to(problem.device, problem.dtype).double() for name, t in drawn.items()}


def _bring_to(regime: Regime, drawn: Tensors) -> None:
    if regime == "idle slots":
        drawn["slot_bias"][len(drawn["slot_bias"]) // 2 :] -= 12
    elif regime == "sharp slices":
        drawn["temperature"] /= 20
    elif regime == "even slices":
        drawn["slot_weight"] *= 0.01
        drawn["slot_bias"] *= 0.01
    elif regime == "one far point":
        drawn["values"][:, 0] *= 1e4


def inputs_of(problem: OperatorProblem) -> Tensors:
    """The inputs of the problem in fp64, to compute it in another way."""
    return dict(_inputs(problem))
