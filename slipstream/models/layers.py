"""The parts of which every variant consists, and the initial values of parameters."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.core.runtime import generator
from slipstream.core.shapes import Float
from slipstream.kernels.membership import Axis, Membership
from slipstream.kernels.pending import Pending
from slipstream.kernels.plan import Impl
from slipstream.kernels.pointwise import has_hooks, linear_gelu_linear
from slipstream.models.constants import Activation
from slipstream.models.variants import INITIAL_TEMPERATURE, INITIAL_WEIGHT_STD


class Mlp(nn.Module):
    """Linear, GELU, linear, applied to every point separately."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, activation: Activation = "gelu"
    ) -> None:
        super().__init__()
        self.approximate = "tanh" if activation == "gelu-tanh" else "none"
        self.expand = nn.Linear(inputs, hidden)
        self.contract = nn.Linear(hidden, outputs)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch K"]:
        return self.contract(F.gelu(self.expand(x), approximate=self.approximate))

    def update(self, x: Float[Tensor, "*batch C"], impl: Impl) -> Tensor | Pending:
        """What `forward` gives, on a GPU without the last bias."""
        if type(self) is not Mlp or has_hooks(self):
            return self(x)
        tanh = self.approximate == "tanh"
        return linear_gelu_linear(x, self.expand, self.contract, tanh=tanh, impl=impl)


class Slots(nn.Module):
    """G slots, shared by the heads, and a temperature per head; with a query, a Membership."""

    def __init__(
        self,
        width: int,
        slices: int,
        heads: int,
        *,
        bias: bool = True,
        over: Axis = "slots",
        clamp: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(slices, width))
        self.bias = nn.Parameter(torch.empty(slices)) if bias else None
        self.temperature = nn.Parameter(torch.empty(heads))
        self.over: Axis = over
        self.clamp = clamp

    @property
    def heads(self) -> int:
        return len(self.temperature)

    def clamped_temperature(self) -> Tensor:
        return self.temperature if self.clamp is None else self.temperature.clamp(*self.clamp)

    def forward(self, query: Float[Tensor, "B N H D"]) -> Membership:
        return Membership(query, self.weight, self.bias, self.clamped_temperature(), self.over)


def attend(
    query: Float[Tensor, "*batch G D"],
    key: Float[Tensor, "*batch G D"],
    value: Float[Tensor, "*batch G D"],
    causal: bool = False,
) -> Float[Tensor, "*batch G D"]:
    """Softmax attention, written out: bit-deterministic, and with few tokens it costs little.

    Where it is causal, a token attends only to itself and to those before it.
    """
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1) @ value


def split_heads(x: Float[Tensor, "B N C"], heads: int) -> Float[Tensor, "B N H D"]:
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads)


@torch.no_grad()
def draw_initial_values(model: nn.Module, seed: int) -> None:
    """Set every parameter to a value that depends on the seed and on its name only.

    Parameters that two variants share by name therefore start equal, on any device and in any order
    of construction.
    """
    for name, parameter in model.named_parameters():
        start = torch.empty(parameter.shape)
        kind = name.rpartition(".")[2]
        if kind == "temperature":
            start.fill_(INITIAL_TEMPERATURE)
        elif kind == "bias":
            start.zero_()
        elif kind == "placeholder":
            start.uniform_(0.0, 1.0 / start.numel(), generator=generator(seed, name))
        elif start.ndim == 1:
            start.fill_(1.0)
        else:
            nn.init.trunc_normal_(start, std=INITIAL_WEIGHT_STD, generator=generator(seed, name))
        parameter.copy_(start)
