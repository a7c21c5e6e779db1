"""Force coefficients: predicted over true, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from slipstream.models.variants import headings
from slipstream.reports.draw.axes import EDGE, legend, note, panels, variant_handles
from slipstream.reports.draw.style import BAND, MUTED, figure_settings, literal, look_of

BAND_SHARE = 0.05
"""The band around the diagonal, as a share of the true coefficient."""


@dataclass(frozen=True)
class CoefficientPairs:
    """One coefficient of an experiment: (true, predicted) of every sample, by variant."""

    experiment: str
    name: str
    pairs: Mapping[str, Sequence[tuple[float, float]]]
    mean: float | None
    """The mean of the training samples."""


@figure_settings()
def coefficient_scatter(coefficients: Sequence[CoefficientPairs]) -> Figure:
    """A panel for each coefficient, with the diagonal and a band of 5 % around it."""
    if not coefficients:
        raise ValueError("coefficients must hold at least one, got none")
    variants = list(dict.fromkeys(v for own in coefficients for v in own.pairs))
    band, mean = "± 5 %", "mean of training"
    figure, places = panels(len(coefficients), 2.4, [*headings(variants), band, mean])
    several = len({own.experiment for own in coefficients}) > 1
    for axes, own in zip(places, coefficients, strict=True):
        _panel(axes, own)
        axes.set_title(literal(own.experiment) if several else "")
    handles = [*variant_handles(variants, line=False), Patch(facecolor=BAND, label=band)]
    if any(own.mean is not None for own in coefficients):
        handles.append(Line2D([], [], color=MUTED, ls="--", lw=0.8, label=mean))
    legend(figure, handles)
    return figure


def _panel(axes: Axes, own: CoefficientPairs) -> None:
    numbers = [value for pairs in own.pairs.values() for pair in pairs for value in pair]
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or max(abs(high), 1e-3) * 0.1
    ends = [low - room, high + room]
    # The band changes its side where the coefficient changes its sign.
    across = sorted({*ends, *([0.0] if ends[0] < 0 < ends[1] else [])})
    below, above = ([x + sign * BAND_SHARE * abs(x) for x in across] for sign in (-1, 1))
    axes.fill_between(across, below, above, color=BAND, lw=0, zorder=0)
    axes.plot(ends, ends, color="black", lw=0.7, zorder=1)
    if own.mean is not None:
        axes.axhline(own.mean, color=MUTED, ls="--", lw=0.8, zorder=1)
    for variant, pairs in own.pairs.items():
        look = look_of(variant)
        true, predicted = ([pair[k] for pair in pairs] for k in (0, 1))
        axes.plot(true, predicted, ls="", color=look.colour, marker=look.marker, **EDGE)
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.set_xlabel(f"{own.name} true")
    axes.set_ylabel(f"{own.name} predicted")
    counts = {len(pairs) for pairs in own.pairs.values()}
    note(axes, f"{max(counts)} samples", (0, 1), (3, -8), xycoords="axes fraction", color=MUTED)
