"""`untied-ln`, the LinearNO layer: two memberships, the slice's normalised over the points.

Written from the formula of Hu et al. (2026): with features x' = x W + b split into heads, tokens =
softmax_points(x' K / tau_k)^T (x' V) and update = softmax_slots(x' Q / tau_q) tokens, then a
two-layer output map.
"""

from __future__ import annotations

from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels.api import deslice_tokens, slice_points
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.plan import How
from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.layers import Mlp, Slots, split_heads
from slipstream.models.steps import SteppedCoupling
from slipstream.models.variants import LINEAR_NO_TEMPERATURES, Size


class LinearNoCoupling(SteppedCoupling):
    """Takes the place of `Coupling`; the number of slots is key_ratio x head width."""

    def __init__(self, size: Size, how: How, constants: Constants = DEFAULT) -> None:
        super().__init__()
        self.heads, self.how = size.heads, how
        width, slices = size.head_width, size.key_ratio * size.head_width
        clamp = constants.temperatures or LINEAR_NO_TEMPERATURES
        self.query = nn.Linear(size.width, size.width)
        self.slice_slots = Slots(width, slices, size.heads, bias=False, over="points", clamp=clamp)
        self.deslice_slots = Slots(width, slices, size.heads, bias=False, clamp=clamp)
        self.value = nn.Linear(width, width, bias=False)
        self.output = Mlp(size.width, size.width, size.width)

    def membership(
        self, x: Float[Tensor, "B N C"], previous: Membership | None = None
    ) -> Membership:
        return self.slice_slots(split_heads(self.query(x), self.heads))

    def sums(self, x: Float[Tensor, "B N C"], membership: Membership) -> TokenSums:
        return slice_points(membership, self.value(membership.query), **self.how)

    def mixed(self, sums: TokenSums) -> Float[Tensor, "B H M D"]:
        return sums.tokens()

    def update(
        self,
        x: Float[Tensor, "B N C"],
        membership: Membership,
        tokens: Float[Tensor, "B H M D"],
    ) -> Float[Tensor, "B N C"]:
        own = self.deslice_slots(membership.query)
        return self.output(deslice_tokens(own, tokens, **self.how).flatten(-2))
