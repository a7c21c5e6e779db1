"""A whole sample that has more points than are taken at a time: its errors, and its prediction.

Both are bounded in memory. Numerator and denominator of a relative error are sums over points and
are added up chunk by chunk, in fp64; of the prediction at most `MOST_FULL_POINTS` points are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.data.batches import Normaliser
from slipstream.evaluation.slices import Probe, probing
from slipstream.metrics import Errors, ErrorSums, Groups, Order, error_sums
from slipstream.runs.evaluation_file import Protocol
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.streaming import Streaming
from slipstream.runs.tokens import Tokens

MOST_FULL_POINTS = 4_000_000
"""The largest number of points in a prediction of a whole sample; 60 bytes a point, three times."""
Kinds = Mapping[str, tuple[Groups, Order]]
"""Groups of channels and order of the norm, by the name of a measure."""


def is_streamed(
    trained: TrainedModel, protocol: Protocol, rows: int, chunk: int | None = None
) -> bool:
    """Whether a sample of so many rows is taken whole, and in chunks."""
    return protocol.full and not Streaming(trained, chunk).plan(rows).one_pass


def streamed_errors(
    trained: TrainedModel, sample: StoredSample, kinds: Kinds, chunk: int | None = None
) -> tuple[dict[str, Errors], Tokens]:
    """The errors of a sample by measure, and its tokens, for its prediction."""
    total: dict[str, ErrorSums] = {}

    def add(first: int, end: int, prediction: Tensor) -> None:
        truth = sample.rows(first, end).to(prediction.device, prediction.dtype).targets
        sums_of_chunk = sums_by_kind(trained.normaliser, prediction, truth, kinds, torch.float64)
        for name, sums in sums_of_chunk.items():
            total[name] = total[name] + sums if name in total else sums

    tokens = Streaming(trained, chunk, normalised=True).predict(sample.points(), add)
    errors = {
        name: Errors.of(total[name], groups, [sample.name]) for name, (groups, _) in kinds.items()
    }
    return errors, tokens


def sums_by_kind(
    normaliser: Normaliser, prediction: Tensor, truth: Tensor, kinds: Kinds, dtype: torch.dtype
) -> dict[str, ErrorSums]:
    """The sums of each measure in a dtype, from a normalised prediction and targets as stored."""
    targets = normaliser.targets
    normalised = prediction, targets.forward(truth)
    # As stored: relative errors stay the same where targets were divided by a number a sample.
    physical = targets.inverse(prediction), truth
    sums = {}
    for name, (groups, order) in kinds.items():
        one, other = normalised if name == "composite" else physical
        sums[name] = error_sums(one.to(dtype), other.to(dtype), groups, order=order)
    return sums


def streamed_prediction(
    trained: TrainedModel,
    sample: StoredSample,
    tokens: Tokens,
    *,
    weight_points: int,
    chunk: int | None = None,
) -> tuple[Float[Tensor, "N K"], Probe]:
    """The targets as stored at the first points, all if there are no more than allowed, by the
    tokens of all points; and the slices at the points of the first chunk."""
    how = Streaming(trained, chunk, normalised=True)
    used, first_chunk = min(sample.count, MOST_FULL_POINTS), how.plan(sample.count).chunk
    values = torch.empty(used, trained.schema.target_dim)

    def decode(begin: int, stop: int) -> None:
        def write(first: int, end: int, prediction: Tensor) -> None:
            stored = trained.normaliser.targets.inverse(prediction[0])
            values[begin + first : begin + end] = stored.float().cpu()

        how.decode(sample.points(begin, stop), tokens, write)

    with probing(trained.model, weight_points) as probe:
        decode(0, min(first_chunk, used))
    if used > first_chunk:
        decode(first_chunk, used)
    return values, probe
