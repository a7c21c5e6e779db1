"""Transolver's physics attention and a model, from the formula, in thuml's names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipstream.core.runtime import generator


class Physics_Attention_Irregular_Mesh(nn.Module):
    def __init__(
        self, dim: int, heads: int, slices: int, dropout: float = 0.0, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        head = dim // heads
        self.heads, self.head, self.scale, self.epsilon = heads, head, head**-0.5, epsilon
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)
        self.temperature = nn.Parameter(torch.full((1, heads, 1, 1), 0.5))
        self.in_project_x = nn.Linear(dim, dim)
        self.in_project_fx = nn.Linear(dim, dim)
        self.in_project_slice = nn.Linear(head, slices)
        self.to_q = nn.Linear(head, head, bias=False)
        self.to_k = nn.Linear(head, head, bias=False)
        self.to_v = nn.Linear(head, head, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        query = self.in_project_x(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        values = self.in_project_fx(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        weights = self.softmax(self.in_project_slice(query) / self.temperature)  # (B, H, N, G)
        tokens = weights.transpose(-1, -2) @ values / (weights.sum(2) + self.epsilon)[..., None]
        return self.to_out((weights @ self.attend(tokens)).transpose(1, 2).flatten(-2))

    def attend(self, tokens: Tensor) -> Tensor:
        scores = self.to_q(tokens) @ self.to_k(tokens).transpose(-1, -2) * self.scale
        return self.dropout(self.softmax(scores)) @ self.to_v(tokens)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, slices: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.Attn = Physics_Attention_Irregular_Mesh(dim, heads, slices, dropout)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.Attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    """Two blocks; weights and temperatures spread as after training."""

    def __init__(
        self, dim: int = 32, heads: int = 4, slices: int = 8, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.preprocess = nn.Linear(3, dim)
        self.blocks = nn.ModuleList([Block(dim, heads, slices, dropout) for _ in range(2)])
        self.head = nn.Linear(dim, 2)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                drawn = torch.rand(parameter.shape, generator=generator(0, name))
                if name.endswith("temperature"):
                    parameter.copy_(0.3 + drawn)
                elif parameter.ndim == 2:
                    parameter.copy_((drawn - 0.5) * 3 / parameter.shape[1] ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.preprocess(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
