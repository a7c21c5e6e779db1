"""`mlp-only` with as many parameters as the baseline, at every size: the paper's suggestion.

    slipstream study poisson --plugin examples/mlp_only_matched.py --out studies/depth \\
        --variants baseline,mlp-only-matched --sweep model.size.layers=4,8,16,32
    slipstream report studies/depth --plugin examples/mlp_only_matched.py --out report

In every layer a second pointwise MLP takes the place of the coupling, with as many parameters as
that has, to within half a hidden unit (0.05 % of a model of the paper's size). The model stays
pointwise: if its error does not fall with the depth while the baseline's does, the cause is
locality and not capacity. `mlp-only-wide` is not this control: it has 112 % of the baseline's
parameters at the paper's size, and another share at every other.
"""

from __future__ import annotations

from torch import Tensor, nn

from slipstream import Size, TokenSums, register_variant
from slipstream.models import Look, SteppedCoupling, Variant


def hidden_width(size: Size) -> int:
    """Of the MLP with as many parameters as the baseline's coupling."""
    width, head = size.width, size.head_width
    maps = 3 * width * (width + 1)  # query, values, output
    slots = size.slices * (head + 1) + size.heads  # weights, biases, temperatures
    attention = 3 * head**2
    return max(1, round((maps + slots + attention - width) / (2 * width + 1)))


class Pointwise(SteppedCoupling):
    """Takes the place of slice and deslice in a layer; nothing passes between points."""

    def __init__(self, size: Size, layer: int, how: object) -> None:
        super().__init__()
        hidden = hidden_width(size)
        self.expand = nn.Linear(size.width, hidden)
        self.contract = nn.Linear(hidden, size.width)

    def membership(self, x: Tensor, previous: None) -> None:
        """No point belongs to a slot."""

    def sums(self, x: Tensor, membership: None) -> TokenSums:
        """Nothing, of no mass."""
        nothing = x.new_zeros(x.shape[0], 1, 1, 1)
        return TokenSums(nothing, nothing[..., 0])

    def mixed(self, sums: TokenSums) -> Tensor:
        return sums.numerator

    def update(self, x: Tensor, membership: None, tokens: Tensor) -> Tensor:
        return self.contract(nn.functional.gelu(self.expand(x)))


def structure(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
    """What a checkpoint must hold of a layer: written down again, so that it can be compared."""
    width, hidden = size.width, hidden_width(size)
    return {
        "expand.weight": (hidden, width),
        "expand.bias": (hidden,),
        "contract.weight": (width, hidden),
        "contract.bias": (width,),
    }


register_variant(
    Variant(
        "mlp-only-matched",
        "mlp-only with as many parameters as the baseline",
        coupling=Pointwise,
        structure=structure,
        budget="0",
        ceiling="yes, locality",
        look=Look("#DDCC77", "<", "--"),
    )
)
