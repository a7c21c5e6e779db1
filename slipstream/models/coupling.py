"""The coupling: membership -> slice -> mix -> deslice, for all variants but two.

Every coupling has these four steps as methods (`steps.py:CouplingSteps`), and `forward` takes them
one after another for points that are all there at once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels import chunked_ops
from slipstream.kernels.api import (
    couple,
    couple_halves,
    deslice_tokens,
    slice_points,
    with_statistics,
)
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.pending import Pending
from slipstream.kernels.plan import How
from slipstream.kernels.pointwise import has_hooks, runs_on_gpu
from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.folding import (
    are_plain,
    can_fold,
    fold_membership,
    fold_query_bias,
    fold_sums,
    fold_tokens,
    fold_value_bias,
)
from slipstream.models.layers import Slots, attend, split_heads
from slipstream.models.steps import Summing
from slipstream.models.variants import Size, Variant


class TokenAttention(nn.Module):
    """Softmax attention among the G tokens of a head; the three maps are shared by the heads."""

    def __init__(self, width: int, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Float[Tensor, "B H G D"]) -> Float[Tensor, "B H G D"]:
        query, key, value = self.query(tokens), self.key(tokens), self.value(tokens)
        return attend(query, key, value, self.causal)


class TokenLinear(nn.Module):
    """One linear map on every token by itself: what is left of attention without its softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Float[Tensor, "B H G D"]) -> Float[Tensor, "B H G D"]:
        return self.value(tokens)


class Coupling(Summing):
    """One slice/deslice round. It holds only the parameters its variant and its layer use."""

    def __init__(
        self,
        variant: Variant,
        size: Size,
        layer: int,
        how: How,
        constants: Constants = DEFAULT,
    ) -> None:
        super().__init__()
        self.epsilon, clamp = constants.epsilon, constants.temperatures
        self.heads, self.slices, self.how = size.heads, size.slices, how
        self.reused = variant.slicing == "first-layer"
        self.values = nn.Linear(size.width, size.width)
        self.query: nn.Linear | None = None
        self.slice_slots: Slots | None = None
        self.deslice_slots: Slots | None = None
        if variant.slicing == "each-layer" or layer == 0:
            self.query = nn.Linear(size.width, size.width)
            self.slice_slots = Slots(size.head_width, size.slices, size.heads, clamp=clamp)
        if variant.deslice == "own":
            self.deslice_slots = Slots(size.head_width, size.slices, size.heads, clamp=clamp)
        if variant.mix == "attention":
            self.mix: nn.Module = TokenAttention(size.head_width, constants.causal)
        else:
            self.mix = TokenLinear(size.head_width)
        self.output = nn.Linear(size.width, size.width)

    def forward(
        self, x: Float[Tensor, "B N C"], previous: Membership | None = None
    ) -> tuple[Float[Tensor, "B N C"], Membership]:
        """The update of the point stream, and the membership it was sliced by.

        A layer without slots of its own slices by `previous`, the membership of the layer before.
        """
        if self._joins(x):
            update, slicing = self._joined(x)
            return self.output(update), slicing
        slicing = self.membership(x, previous)
        if self.deslice_slots is not None:
            tokens = self.mixed(self.complete_sums(self.sums(x, slicing)))
            return self.update(x, slicing, tokens), slicing
        if self._folds(x):
            update = chunked_ops.couple(
                slicing, self._folded_values(x), self._mix_folded, summed=True
            )
            return update.squeeze(2), slicing
        # By name and not as **how, which would keep the values from being freed in there.
        impl, precision = self.how["impl"], self.how["precision"]
        update = couple(
            slicing, self._values(x), self.mix, epsilon=self.epsilon, impl=impl,
            precision=precision, complete=self.complete_sums,
        )  # fmt: skip
        return self.output(update.flatten(-2)), slicing

    def pending(
        self, x: Float[Tensor, "B N C"], previous: Membership | None
    ) -> tuple[Tensor | Pending, Membership]:
        """What `forward` gives, on a GPU without the bias of the update."""
        if type(self) is not Coupling or has_hooks(self) or not self._joins(x):
            return self(x, previous)
        rows, slicing = self._joined(x)
        return Pending(F.linear(rows, self.output.weight), self.output.bias), slicing

    def _joined(self, x: Float[Tensor, "B N C"]) -> tuple[Float[Tensor, "B N C"], Membership]:
        """The heads' outputs from one product for query and values, whose biases are folded."""
        assert self.query is not None and self.slice_slots is not None
        weight = torch.cat((self.query.weight, self.values.weight))
        joint = F.linear(x, weight).unflatten(-1, (2, self.heads, -1))
        slots, bias = self.slice_slots, fold_query_bias(self.query, self.slice_slots)
        update, slicing = couple_halves(
            joint, (slots.weight, bias, slots.clamped_temperature()), self.mix,
            epsilon=self.epsilon, complete=self._complete_joint, **self.how,
        )  # fmt: skip
        return update.flatten(-2), slicing

    def _joins(self, x: Float[Tensor, "B N C"]) -> bool:
        """Whether a GPU runs here, and no other layer needs the query."""
        own = (self.query, self.values, self.output, self.slice_slots)
        if None in own or self.reused or self.deslice_slots is not None:
            return False
        return runs_on_gpu(x, self.how["impl"]) and x.dtype != torch.float64 and are_plain(*own)

    def _complete_joint(self, sums: TokenSums) -> TokenSums:
        return self.complete_sums(fold_value_bias(self.values, sums))

    def membership(self, x: Float[Tensor, "B N C"], previous: Membership | None) -> Membership:
        if self.query is None or self.slice_slots is None:
            assert previous is not None, "a layer without slots needs a membership to slice by"
            return previous
        if self._folds(x):
            return fold_membership(self.query, self.slice_slots, x)
        membership = self.slice_slots(split_heads(self.query(x), self.heads))
        return with_statistics(membership, **self.how) if self.reused else membership

    def sums(self, x: Float[Tensor, "B N C"], membership: Membership) -> TokenSums:
        if self._folds(x):
            sums = chunked_ops.slice_points(membership, self._folded_values(x))
            return fold_sums(self.values, sums)
        return slice_points(membership, self._values(x), **self.how)

    def mixed(self, sums: TokenSums) -> Float[Tensor, "B H G D"]:
        return self.mix(sums.tokens(self.epsilon))

    def update(
        self,
        x: Float[Tensor, "B N C"],
        membership: Membership,
        tokens: Float[Tensor, "B H G D"],
    ) -> Float[Tensor, "B N C"]:
        folds = self._folds(x)
        if self.deslice_slots is not None:
            if folds:
                assert self.query is not None, "deslice slots of their own need a query"
                membership = fold_membership(self.query, self.deslice_slots, x)
            else:
                membership = self.deslice_slots(membership.query)
        if folds:
            folded = fold_tokens(self.output, tokens)
            return chunked_ops.deslice_tokens(membership, folded, summed=True).squeeze(2)
        return self.output(deslice_tokens(membership, tokens, **self.how).flatten(-2))

    def _folds(self, x: Float[Tensor, "B N C"]) -> bool:
        """Whether the products of `folding` give the same here, up to rounding, with less work."""
        if self.reused and self.deslice_slots is not None:
            return False  # later layers need the query of the first, which folding never forms
        own = (self.query, self.values, self.output, self.slice_slots, self.deslice_slots)
        return can_fold(x, self.heads, self.slices, self.how) and are_plain(*own)

    def _folded_values(self, x: Float[Tensor, "B N C"]) -> Float[Tensor, "B N 1 C"] | None:
        """What is sliced in a folded coupling: x, or None where the query is x already."""
        return None if self.query is not None else x[:, :, None]

    def _mix_folded(self, sums: TokenSums) -> Float[Tensor, "B H G C"]:
        sums = self.complete_sums(fold_sums(self.values, sums))
        return fold_tokens(self.output, self.mixed(sums))

    def _values(self, x: Float[Tensor, "B N C"]) -> Float[Tensor, "B N H D"]:
        return split_heads(self.values(x), self.heads)
