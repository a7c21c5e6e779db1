"""`slice-once`: slice the lifted features once, a transformer on the G tokens, deslice once."""

from __future__ import annotations

from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels.api import couple, deslice_tokens, slice_points
from slipstream.kernels.membership import TokenSums
from slipstream.kernels.plan import How
from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.layers import Mlp, Slots, attend, split_heads
from slipstream.models.steps import Stream, Summing
from slipstream.models.variants import Size


class MultiHeadAttention(nn.Module):
    """Self-attention with biases, but for the key's: softmax cancels it, it would never train."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: Float[Tensor, "B G C"]) -> Float[Tensor, "B G C"]:
        query, key, value = (
            split_heads(project(tokens), self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        return self.output(attend(query, key, value, self.causal).transpose(1, 2).flatten(-2))


class TokenBlock(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, size: Size, constants: Constants) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size.width)
        self.attention = MultiHeadAttention(size.width, size.heads, constants.causal)
        self.mlp_norm = nn.LayerNorm(size.width)
        hidden = size.mlp_ratio * size.width
        self.mlp = Mlp(size.width, hidden, size.width, constants.activation)

    def forward(self, tokens: Float[Tensor, "B G C"]) -> Float[Tensor, "B G C"]:
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.mlp(self.mlp_norm(tokens))


class SliceOnce(Summing):
    """One head as wide as the stream; query and values are both the lifted features."""

    def __init__(self, size: Size, how: How, constants: Constants = DEFAULT) -> None:
        super().__init__()
        self.how, self.epsilon = how, constants.epsilon
        self.slots = Slots(size.width, size.slices, heads=1, clamp=constants.temperatures)
        self.token_blocks = nn.ModuleList(TokenBlock(size, constants) for _ in range(size.layers))

    def forward(self, x: Float[Tensor, "B N C"]) -> Float[Tensor, "B N C"]:
        features = split_heads(x, 1)
        membership = self.slots(features)
        update = couple(
            membership, features, self._mix, epsilon=self.epsilon,
            complete=self.complete_sums, **self.how,
        )  # fmt: skip
        return x + update.squeeze(2)

    def sums(self, stream: Stream) -> tuple[Stream, TokenSums]:
        membership = self.slots(split_heads(stream.x, 1))
        return stream, slice_points(membership, membership.query, **self.how)

    def mixed(self, sums: TokenSums) -> Float[Tensor, "B 1 G C"]:
        return self._mix(self.complete_sums(sums).tokens(self.epsilon))

    def apply_tokens(self, stream: Stream, tokens: Float[Tensor, "B 1 G C"]) -> Stream:
        membership = self.slots(split_heads(stream.x, 1))
        return Stream(stream.x + deslice_tokens(membership, tokens, **self.how).squeeze(2))

    def _mix(self, tokens: Float[Tensor, "B 1 G C"]) -> Float[Tensor, "B 1 G C"]:
        tokens = tokens.squeeze(1)
        for block in self.token_blocks:
            tokens = block(tokens)
        return tokens[:, None]
