"""Any number of points through a model in chunks: the same result as in one pass.

Sweep l adds up the sums of layer l over all chunks; then its tokens are mixed. The sweep that
applies layer l also slices layer l + 1, so L layers take L + 1 sweeps, and one chunk is computed at
a time. What is added up is added in fp64, so that the result does not depend on the size of
a chunk by more than the rounding of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slipstream.core.checks import check_whole
from slipstream.core.shapes import Float
from slipstream.kernels.membership import TokenSums
from slipstream.models.parking import Parking, Place, make_parking
from slipstream.models.steps import Steps, Stream
from slipstream.models.totals import Total
from slipstream.models.transolver import Transolver

Inputs = tuple[Float[Tensor, "B n d"], Float[Tensor, "B n f"] | None]
Watch = Callable[[int, int], None]
"""Called with chunks done and chunks in all, over all sweeps."""


@dataclass(frozen=True)
class Points:
    """N points that are read some at a time, on the device and in the dtype of the model."""

    count: int
    read: Callable[[int, int], Inputs]
    """Coords and features of the points from the first up to, not including, the second number."""

    def __post_init__(self) -> None:
        check_whole("count", self.count, 1)


@dataclass(frozen=True)
class Sweeping:
    """How points are taken through a model."""

    chunk: int
    place: Place = "device"
    """Where chunks wait between two sweeps."""
    folder: Path | None = None
    """Where the file of parked chunks is."""

    def __post_init__(self) -> None:
        check_whole("chunk", self.chunk, 1)


@torch.no_grad()
def encode(
    model: Transolver, points: Points, how: Sweeping, watch: Watch = lambda done, total: None
) -> list[Tensor]:
    """The mixed tokens of every layer that couples the points; none without such a layer."""
    with _sweeps(model, points, how, watch, finishing=False) as sweeps:
        return sweeps.tokens()


@torch.no_grad()
def decode(
    model: Transolver,
    tokens: Sequence[Tensor],
    points: Points,
    chunk: int,
    watch: Watch = lambda done, total: None,
) -> Iterator[Float[Tensor, "B n k"]]:
    """The outputs at points that do not contribute to the tokens, chunk by chunk."""
    steps = Steps(model)
    check_tokens(steps, tokens)
    spans = _spans(points.count, chunk)
    for done, (first, end) in enumerate(spans, 1):
        with torch.no_grad():  # a generator runs in the context of whoever takes from it
            stream = steps.begin(*points.read(first, end))
            for layer, mixed in enumerate(tokens):
                stream = steps.apply(layer, stream, mixed)
            outputs = steps.finish(stream)
        yield outputs
        watch(done, len(spans))


@torch.no_grad()
def stream_through(
    model: Transolver,
    points: Points,
    how: Sweeping,
    write: Callable[[int, int, Tensor], None],
    watch: Watch = lambda done, total: None,
) -> list[Tensor]:
    """Write the outputs at all points, span by span, and return the tokens, as `encode` does.

    It is `decode(points, encode(points))`, without computing the layers again.
    """
    with _sweeps(model, points, how, watch, finishing=True) as sweeps:
        tokens = sweeps.tokens()
        sweeps.finish(tokens, write)
        return tokens


def check_tokens(steps: Steps, tokens: Sequence[Tensor]) -> None:
    if len(tokens) != steps.couplings:
        raise ValueError(
            f"tokens must be those of {steps.couplings} layers, as the model has, got {len(tokens)}"
        )


@contextmanager
def _sweeps(
    model: Transolver, points: Points, how: Sweeping, watch: Watch, *, finishing: bool
) -> Iterator[_Sweeps]:
    steps = Steps(model)
    device = next(model.parameters()).device
    # Without a layer to come after the first sums nothing is ever taken from the parking.
    needed = steps.couplings > (0 if finishing else 1)
    parking = make_parking(how.place, device, how.folder) if needed else None
    with closing(parking) if parking is not None else nullcontext():
        yield _Sweeps(steps, points, how.chunk, parking, watch, finishing)


class _Sweeps:
    def __init__(
        self,
        steps: Steps,
        points: Points,
        chunk: int,
        parking: Parking | None,
        watch: Watch,
        finishing: bool,
    ) -> None:
        self._steps, self._points, self._parking = steps, points, parking
        self._spans = _spans(points.count, chunk)
        self._watch, self._done = watch, 0
        self._finishing = finishing
        self._total = len(self._spans) * (steps.couplings + finishing)
        self._like: Stream | None = None

    def tokens(self) -> list[Tensor]:
        """The mixed tokens of every layer, a sweep each."""
        tokens: list[Tensor] = []
        for layer in range(self._steps.couplings):
            last = layer == self._steps.couplings - 1
            total = Total()
            for chunk in range(len(self._spans)):
                total.add(self._sums(layer, chunk, tokens, park=self._finishing or not last))
                self._step()
            tokens.append(self._steps.mixed(layer, total.sums()))
        return tokens

    def _sums(self, layer: int, chunk: int, tokens: Sequence[Tensor], *, park: bool) -> TokenSums:
        stream, sums = self._steps.sums(layer, self._before(layer, chunk, tokens))
        if park and self._parking is not None:
            self._like = self._like or stream.of_first_point()
            self._parking.put(chunk, stream.tensors)
        return sums

    def finish(self, tokens: Sequence[Tensor], write: Callable[[int, int, Tensor], None]) -> None:
        for chunk, (first, end) in enumerate(self._spans):
            stream = self._before(self._steps.couplings, chunk, tokens)
            write(first, end, self._steps.finish(stream))
            self._step()

    def _before(self, layer: int, chunk: int, tokens: Sequence[Tensor]) -> Stream:
        """A chunk's stream before a layer: parked before the last one, or computed again."""
        steps = self._steps
        if self._parking is not None and layer > 0:
            assert self._like is not None, "the first sweep parks every chunk"
            parked = self._like.like(self._parking.get(chunk))
            return steps.apply(layer - 1, parked, tokens[layer - 1])
        stream = steps.begin(*self._points.read(*self._spans[chunk]))
        for before in range(layer):
            stream = steps.apply(before, stream, tokens[before])
        return stream

    def _step(self) -> None:
        self._done += 1
        self._watch(self._done, self._total)


def _spans(count: int, chunk: int) -> list[tuple[int, int]]:
    check_whole("chunk", chunk, 1)
    return [(first, min(first + chunk, count)) for first in range(0, count, chunk)]
