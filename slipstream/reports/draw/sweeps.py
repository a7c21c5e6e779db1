"""Charts of sweeps: errors, ratios to the baseline and training times against a setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slipstream.models.variants import BASELINE, headings, in_table_order
from slipstream.reports.draw.axes import (
    doubling_axis,
    empty_panel,
    finite,
    legend,
    line,
    log_axis,
    mark,
    note,
    panels,
    variant_handles,
)
from slipstream.reports.draw.style import figure_settings, literal, look_of


@dataclass(frozen=True)
class SweepPoint:
    """The error of a variant at one setting of a sweep."""

    variant: str
    at: float
    """The slice count, the depth, or another number; the place in order of what is none."""
    error: float
    std: float | None = None
    """Standard deviation over the seeds; None for a single seed."""
    experiment: str = ""
    step: int = 0
    """The training step at which the error was measured; 0 is not printed."""
    label: str = ""
    """The value where it is no number, as "window"."""
    seconds: float | None = None
    """Of the training; None where it is not known."""


@figure_settings()
def sweep_figure(points: Sequence[SweepPoint], setting: str) -> Figure:
    """Error against a setting, and its ratio to the baseline's error at the same setting.

    A third panel has the error against the time of the training, where that is known of all. Bars
    are one standard deviation, where it is known.
    """
    if not points:
        raise ValueError("points must hold at least one, got none")
    variants = in_table_order(p.variant for p in points)
    timed = all(point.seconds for point in points)
    figure, places = panels(3 if timed else 2, 2.1, headings(variants))
    left, right = places[:2]
    draw_sweep(left, points)
    log_axis(left, "y", [p.error for p in points])
    left.set_ylabel("validation error")
    bases = {p.at: p for p in points if p.variant == BASELINE and p.error > 0}
    ratios = [_ratio_to(bases[p.at], p) for p in points if p.at in bases and p.variant != BASELINE]
    if ratios:
        right.axhline(1, color=look_of(BASELINE).colour, lw=0.8)
        draw_sweep(right, ratios)
        log_axis(right, "y", [1.0, *(p.error for p in ratios)], suffix="×")
    else:
        empty_panel(right, "no baseline to compare with")
    right.set_ylabel("error over the baseline's")
    for axes in (left, right) if ratios else (left,):
        axes.set_title(literal(name_of_sweep(points)))
        axes.set_xlabel(setting)
        axes.grid(axis="y")
    if timed:
        _against_time(places[2], points)
    legend(figure, variant_handles(variants))
    return figure


def _against_time(axes: Axes, points: Sequence[SweepPoint]) -> None:
    for variant in in_table_order(p.variant for p in points):
        own = [p for p in points if p.variant == variant and finite(p.error)]
        times = [p.seconds or 0.0 for p in own]
        line(axes, look_of(variant), times, [p.error for p in own])
        if len(set(times)) > 1:  # a run that stands for all values has no value of its own
            for point in (own[0], own[-1]):
                text, place = literal(point.label or f"{point.at:g}"), (point.seconds or 0.0)
                note(axes, text, (place, point.error), (3, 2), color=look_of(variant).colour)
    log_axis(axes, "x", [p.seconds for p in points], room=0.12)
    log_axis(axes, "y", [p.error for p in points])
    axes.set_xlabel("training time [s]")
    axes.set_ylabel("validation error")
    axes.grid(axis="y")


def draw_sweep(axes: Axes, points: Sequence[SweepPoint]) -> None:
    """A line for each variant, with a bar at each point whose spread is known."""
    for variant in in_table_order(p.variant for p in points):
        own = sorted((p for p in points if p.variant == variant and finite(p.error)), key=_at)
        line(axes, look_of(variant), [p.at for p in own], [p.error for p in own])
        for point in own:
            if point.std is not None:
                mark(axes, look_of(variant), point.at, point.error, yerr=point.std)
    labels = {point.at: point.label for point in points if point.label}
    if labels:
        axes.set_xticks(sorted(labels), [literal(labels[at]) for at in sorted(labels)])
        axes.margins(x=0.15)
    else:
        doubling_axis(axes, [p.at for p in points])


def name_of_sweep(points: Sequence[SweepPoint]) -> str:
    """Experiment and steps, as "poisson, 4,000 to 8,000 steps"; either is left out if not given."""
    names = list(dict.fromkeys(point.experiment for point in points if point.experiment))
    steps = sorted({point.step for point in points if point.step})
    ends = [f"{step:,}" for step in dict.fromkeys((*steps[:1], *steps[-1:]))]
    return ", ".join([*names, *([f"{' to '.join(ends)} steps"] if ends else [])])


def _ratio_to(base: SweepPoint, point: SweepPoint) -> SweepPoint:
    """The point with its error over the baseline's; the spread is None unless both have one."""
    ratio, std = point.error / base.error, None
    if point.std is not None and base.std is not None:
        std = ratio * math.hypot(point.std / point.error, base.std / base.error)
    return replace(point, error=ratio, std=std)


def _at(point: SweepPoint) -> float:
    return point.at
