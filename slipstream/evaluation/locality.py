"""The best that a model without coupling can reach, from the physics instead of from a training.

A pointwise model sees the inputs of one point only. For two problems the error of the best such
model is known, in the metric of the tables (relative L1 per variable, physical units):

* Poisson. At a fixed place, the density seen there is one number, and many draws of the charges
  show how potential and field are distributed given that number. Their (weighted) median is the
  best answer of a pointwise model: its error is a lower limit, the paper's locality gap. The
  potential falls off as 1 / r and the field as 1 / r^2, so the limit is the Green's function's. It
  is an estimate, known to about 0.01: see `poisson_limit`.
* Potential and Stokes flow. Without the integral over the rest of the body, a boundary integral
  equation leaves local-inclination theory: pressure and velocity or shear as functions of the angle
  between wall and stream (in the volume, of the distance from the wall), exact on spheres of one
  size. The best such functions, fitted on the training split, are a prediction and no limit: a
  model may also use where the point is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from slipstream.core.runtime import generator
from slipstream.core.shapes import Float
from slipstream.data.store import Store
from slipstream.evaluation.measure import variables
from slipstream.physics.builtin import builtin_config
from slipstream.physics.poisson import Charges, draw_charges, solution
from slipstream.runs.evaluation_file import Locality

PLACES, DRAWS, TRIALS, NEIGHBOURS = 128, 12_000, 4_000, 151
"""Of the Poisson limit: points, draws to fit the medians, draws to test them, draws in a median."""
AT_ONCE = 256
"""Draws that are solved together."""
BINS = 64
"""Number of bins of the angle or the distance."""
MOST_ROWS = 500_000
"""Rows of a split that are read."""
FLOWS = [
    f"{flow}-{where}" for flow in ("potential-flow", "stokes") for where in ("surface", "volume")
]
"""The built-in problems with bodies in a stream."""
STREAM = "freestream"
"""Their feature; data of users may be called as these problems are and lack it."""


def find_locality(store: Store) -> Locality | None:
    """The errors of pointwise answers on a store's problem; None where they are not known."""
    origin = store.manifest.origin
    if origin.source == "poisson":
        options = {k: v for k, v in origin.options.items() if k in ("number", "width", "box")}
        config = builtin_config("poisson", options)
        assert isinstance(config, Charges)
        return Locality("limit", poisson_limit(config))
    if origin.source in FLOWS and any(field.name == STREAM for field in store.schema.features):
        return Locality("theory", inclination_errors(store))
    return None


def poisson_limit(charges: Charges, seed: int = 0) -> dict[str, float]:
    """The least mean error of any function of a place and of the density at that place.

    Medians are too good on the draws they are fitted on and too bad on others, by 0.01 each: the
    limit is the mean of both. It then stays the same to 0.001 with 51 or 401 draws in a median, and
    to 0.002 with four times the places; other seeds change it with a standard deviation of 0.003. A
    model measured on a few hundred samples may lie below the limit by the scatter of those samples,
    about 0.2 over the root of their number.
    """
    places = torch.quasirandom.SobolEngine(3, scramble=True, seed=seed).draw(
        PLACES, dtype=torch.float64
    )
    density, target = _solved(places, charges, generator(seed, "locality"))
    # A sample and its negative are equally likely, so signs are flipped to a positive density:
    # a window of the density then holds twice as many draws.
    sign = torch.where(density < 0, -1.0, 1.0).double()
    errors = {}
    for name, channels in (("potential", [0]), ("field", [1, 2, 3])):
        values = target[..., channels] * sign[..., None]
        size = values.abs().sum((1, 2))  # the denominator of each draw's error
        difference = torch.zeros_like(size)
        for place in range(PLACES):
            answer = _answers(density[:, place].abs(), values[:, place], 1 / size)
            difference += (answer - values[:, place]).abs().sum(-1)
        fitted, tested = (difference / size).split([DRAWS, TRIALS])
        errors[name] = float(fitted.mean() + tested.mean()) / 2
    return errors


def _solved(
    places: Float[Tensor, "P 3"], charges: Charges, draw: torch.Generator
) -> tuple[Float[Tensor, "S P"], Float[Tensor, "S P 4"]]:
    """Density, and potential and field, of all draws at all places."""
    drawn = [draw_charges(charges, draw) for _ in range(DRAWS + TRIALS)]
    # Draws of fewer charges are padded with charges of 0 and width 1, which add nothing.
    centre, width, charge = (
        pad_sequence(list(part), batch_first=True, padding_value=fill)
        for part, fill in zip(zip(*drawn, strict=True), (0.0, 1.0, 0.0), strict=True)
    )
    solve = torch.vmap(solution, in_dims=(None, 0, 0, 0), chunk_size=AT_ONCE)
    return solve(places, centre, width, charge)


def _answers(
    seen: Float[Tensor, " S"], values: Float[Tensor, "S K"], weight: Float[Tensor, " S"]
) -> Float[Tensor, "S K"]:
    """For every draw, the weighted median over the fitting draws with nearly the same density.

    The fitting draws are sorted by density; windows of NEIGHBOURS of them begin a quarter of a
    window apart, and every draw gets the median of the window whose centre is nearest.
    """
    step = max(1, NEIGHBOURS // 4)
    order = seen[:DRAWS].argsort()
    first = torch.arange(0, DRAWS - NEIGHBOURS + 1, step)
    near = order[first[:, None] + torch.arange(NEIGHBOURS)]  # W M
    columns = range(values.shape[-1])
    medians = torch.stack([weighted_median(values[near, k], weight[near]) for k in columns], -1)
    at = torch.searchsorted(seen[:DRAWS][order], seen.contiguous())
    window = ((at - NEIGHBOURS // 2) / step).round().long().clamp(0, len(first) - 1)
    return medians[window]


def weighted_median(
    values: Float[Tensor, "*B M"], weights: Float[Tensor, "*B M"]
) -> Float[Tensor, "*B"]:
    """For each row, the value at which half of the weight is reached."""
    ordered, order = values.sort(-1)
    reached = weights.gather(-1, order).cumsum(-1)
    place = (reached < reached[..., -1:] / 2).sum(-1, keepdim=True)
    return ordered.gather(-1, place).squeeze(-1)


def inclination_errors(store: Store) -> dict[str, float]:
    """Test errors of the best functions of only the angle (surface) or the distance (volume)."""
    seen, along, scale, targets, _ = _local(store, "train")
    low, high = float(seen.min()), float(seen.max())
    bins = _bins(seen, low, high)
    groups = variables(store.schema)
    tables = {}
    for name, channels in groups.items():
        value = _projected(targets[:, list(channels)], along, scale)
        tables[name] = torch.stack([_median(value[bins == b]) for b in range(BINS)])
    return _test_errors(store, tables, low, high)


def _test_errors(
    store: Store, tables: Mapping[str, Tensor], low: float, high: float
) -> dict[str, float]:
    seen, along, scale, targets, sample = _local(store, "test")
    bins = _bins(seen, low, high)
    errors = {}
    for name, channels in variables(store.schema).items():
        truth = targets[:, list(channels)]
        answer = tables[name][bins][:, None]
        answer = answer * (along if len(channels) > 1 else scale)
        count = int(sample.max()) + 1
        sums = [
            torch.zeros(count, dtype=torch.float64).index_add_(0, sample, part.abs().sum(-1))
            for part in (answer - truth, truth)
        ]
        errors[name] = float((sums[0] / sums[1]).mean())
    return errors


def _local(store: Store, split: str) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """For each row: angle or distance (N), direction of the vector answer (N 3), what a scalar one
    is proportional to (N 1), targets, sample.

    On a surface the flow follows the wall, so the direction is the stream without its normal part.
    A coefficient does not depend on the speed; the pressure of a Stokes flow is proportional to it.
    """
    ids = store.ids(split)
    rows = [
        torch.from_numpy(store.array(i)[: max(1, MOST_ROWS // len(ids))].copy()).double()
        for i in ids
    ]
    sample = torch.repeat_interleave(
        torch.arange(len(ids)), torch.tensor([len(part) for part in rows])
    )
    table, schema = torch.cat(rows), store.schema
    stream = table[:, schema.columns(STREAM)]
    targets = table[:, schema.columns("targets")]
    speed = stream.norm(dim=-1, keepdim=True)
    slow = store.manifest.origin.source.startswith("stokes-")
    scale = speed if slow else torch.ones_like(speed)
    on_wall, from_wall = schema.computed("normals"), schema.computed("distance")
    if on_wall is None:
        assert from_wall is not None, "the problem has one of the two"
        return table[:, schema.columns(from_wall.name)][:, 0], stream, scale, targets, sample
    normal = table[:, schema.columns(on_wall.name)]
    across = (normal * stream).sum(-1, keepdim=True)
    return (
        (across / speed)[:, 0],
        stream - across * normal,
        scale,
        targets,
        sample,
    )


def _projected(values: Tensor, along: Tensor, scale: Tensor) -> Tensor:
    """A scalar over its scale; of a vector, the factor that scales `along` to its projection."""
    if values.shape[-1] == 1:
        return (values / scale)[:, 0]
    return (values * along).sum(-1) / along.square().sum(-1).clamp(min=1e-12)


def _bins(seen: Tensor, low: float, high: float) -> Tensor:
    return ((seen - low) / (high - low) * BINS).long().clamp(0, BINS - 1)


def _median(values: Tensor) -> Tensor:
    return values.median() if len(values) else torch.zeros((), dtype=values.dtype)
