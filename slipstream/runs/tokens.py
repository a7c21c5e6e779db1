"""The mixed tokens of every layer of a model on one cloud: kilobytes that stand for its points.

File TOKENS.safetensors (see checkpoint.py, what = "tokens"): header with the hash of the weights,
the number of points and a note; tensors "0", "1", ... (B, H, G, V), one a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slipstream.core.files import naming_file
from slipstream.core.schemas import Positive, parsed
from slipstream.runs.checkpoint import Header, read_tensors, write_tensors


@dataclass(frozen=True, eq=False)
class Tokens:
    """What `TrainedModel.encode` returns and `decode` takes."""

    layers: tuple[Tensor, ...]
    """Mixed tokens (B, H, G, V) of every layer that couples points."""
    points: int
    """The number of points that they are of."""
    weights: str
    """The hash of the model's weights."""
    note: str = ""
    """Of which points, for people."""

    @property
    def clouds(self) -> int:
        """B; 1 where no layer couples points."""
        return self.layers[0].shape[0] if self.layers else 1

    def save(self, path: Path | str) -> None:
        state = {"points": self.points, "weights": self.weights, "note": self.note}
        tensors = {str(layer): tokens for layer, tokens in enumerate(self.layers)}
        write_tensors(Path(path), "tokens", state, tensors)

    @classmethod
    def mean(cls, several: Sequence[Tokens], note: str) -> Tokens:
        """The mean over subsets of one cloud, each with the weight of its points."""
        total = sum(one.points for one in several)
        layers = tuple(
            torch.stack([t.double() * (s.points / total) for t, s in zip(ts, several, strict=True)])
            .sum(0)
            .to(ts[0].dtype)
            for ts in zip(*(one.layers for one in several), strict=True)
        )
        return cls(layers, total, several[0].weights, note)


@dataclass(frozen=True)
class TokensHeader(Header):
    points: Positive
    weights: str
    note: str


def load_tokens(path: Path | str) -> Tokens:
    """Raises ValueError where the file does not hold whole tokens."""
    path = Path(path)
    header, tensors = read_tensors(path, "tokens")
    with naming_file(path):
        written = parsed(TokensHeader, header, open=True)
        names = [str(layer) for layer in range(len(tensors))]
        if sorted(tensors) != sorted(names):
            raise ValueError(f"tensors must be {', '.join(names)}, got {', '.join(tensors)}")
    layers = tuple(tensors[name] for name in names)
    return Tokens(layers, written.points, written.weights, written.note)
