"""A model in steps, so that the sums of a layer may come from other points than those at hand.

A coupling is membership, sums, mix, apply. Whoever drives these steps decides of which points the
sums are: of a chunk and of all chunks after it (streaming), or of another cloud (querying, where
the mixed tokens are given).

    steps = Steps(model)
    stream = steps.begin(coords, features)
    for layer in range(steps.couplings):
        stream, sums = steps.sums(layer, stream)            # of these points: they add up
        stream = steps.apply(layer, stream, steps.mixed(layer, sums))
    steps.finish(stream)                                    # model(coords, features)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels.membership import Complete, Membership, TokenSums, as_they_are


@runtime_checkable
class CouplingSteps(Protocol):
    """What a coupling offers beside `forward`, which is these four one after another.

    The methods of a plug-in's coupling may use any value as membership, None among them, as long
    as the sums of disjoint chunks of points add up to the sums of all.
    """

    def membership(self, x: Float[Tensor, "B N C"], previous: Membership | None) -> Membership:
        """By which the points are sliced; `previous` is that of the layer before."""
        ...

    def sums(self, x: Float[Tensor, "B N C"], membership: Membership) -> TokenSums:
        """The sums of these points."""
        ...

    def mixed(self, sums: TokenSums) -> Tensor:
        """The mixed tokens of the sums of all points."""
        ...

    def update(
        self, x: Float[Tensor, "B N C"], membership: Membership, tokens: Tensor
    ) -> Float[Tensor, "B N C"]:
        """The update of the point stream by mixed tokens."""
        ...


class Summing(nn.Module):
    """A module whose sums may be completed by points that it does not see."""

    complete_sums: Complete = staticmethod(as_they_are)
    """The sums of all points from those of the points at hand, before anything is made of them."""


class SteppedCoupling(Summing):
    """A coupling that is given by its four steps alone.

    With x (B, N, C) the normalised stream: `membership(x, previous)`, `sums(x, membership)`, a
    TokenSums of these points, `mixed(sums)`, the tokens, and `update(x, membership, tokens)`, which
    is (B, N, C). From these come one pass, streaming, sharding and lean training.
    """

    def forward(self, x: Float[Tensor, "B N C"], previous: Any = None) -> tuple[Tensor, Any]:
        """The update of the points, and their membership for the layers after it."""
        steps = cast(CouplingSteps, self)
        membership = steps.membership(x, previous)
        tokens = steps.mixed(self.complete_sums(steps.sums(x, membership)))
        return steps.update(x, membership, tokens), membership


def steps_of(coupling: nn.Module, variant: str) -> CouplingSteps:
    """The steps of a coupling; ValueError for one of a plug-in that has none."""
    if not isinstance(coupling, CouplingSteps):
        raise ValueError(
            f"the coupling of variant {variant!r} must have the methods membership, sums, mixed and"
            " update to be run in steps, got one without (examples/mean_pool.py has them)"
        )
    return coupling


StreamPrecision = Literal["fp32", "bf16"]
"""In what the stream is kept under autocast to bf16."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Some points between two layers."""

    x: Float[Tensor, "B N C"]
    update: Float[Tensor, "B N C"] | None = None
    """What the layer before adds to x; added by whoever takes the stream."""
    membership: Membership | None = None
    """Of the layer before, in variants that hand it on."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that a stream with its update added is, apart from the model's parameters."""
        assert self.update is None, "the update must be added before a stream is kept"
        return (self.x,) if self.membership is None else (self.x, self.membership.query)

    def of_first_point(self) -> Stream:
        """What the streams of all chunks share, for `like`, without the memory of a chunk."""
        membership = self.membership
        if membership is not None:
            query = membership.query[:, :1].clone()
            membership = replace(membership, query=query, statistics=None)
        return Stream(self.x[:, :1].clone(), None, membership)

    def like(self, tensors: tuple[Tensor, ...]) -> Stream:
        """The stream of other points from its tensors."""
        membership = self.membership
        if membership is not None:
            membership = replace(membership, query=tensors[1], statistics=None)
        return Stream(tensors[0], None, membership)


@runtime_checkable
class SteppedLayer(Protocol):
    """A layer that can stop before its tokens are mixed, and go on with given ones."""

    def sums(self, stream: Stream) -> tuple[Stream, TokenSums]: ...

    def mixed(self, sums: TokenSums) -> Tensor: ...

    def apply_tokens(self, stream: Stream, tokens: Tensor) -> Stream: ...


@runtime_checkable
class SteppedModel(Protocol):
    def begin(self, coords: Tensor, features: Tensor | None) -> Stream: ...

    def stepped_layers(self) -> list[SteppedLayer]: ...

    def finish(self, stream: Stream) -> Tensor: ...


class Steps:
    """The steps of a model. ValueError for a plug-in's coupling that has none."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._stepped = cast(SteppedModel, model)
        self._layers = self._stepped.stepped_layers()

    @property
    def couplings(self) -> int:
        """How often points are coupled: once a layer, once in all, or never."""
        return len(self._layers)

    def begin(self, coords: Float[Tensor, "B N d"], features: Tensor | None = None) -> Stream:
        return self._stepped.begin(coords, features)

    def sums(self, layer: int, stream: Stream) -> tuple[Stream, TokenSums]:
        """The sums of these points, and their stream with its update added."""
        return self._layers[layer].sums(stream)

    def mixed(self, layer: int, sums: TokenSums) -> Tensor:
        return self._layers[layer].mixed(sums)

    def apply(self, layer: int, stream: Stream, tokens: Tensor) -> Stream:
        """The stream after the layer, if these are its mixed tokens."""
        return self._layers[layer].apply_tokens(stream, tokens)

    def finish(self, stream: Stream) -> Float[Tensor, "B N k"]:
        return self._stepped.finish(stream)
