"""Parts of the charts: panels, logarithmic axes with plain numbers, legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeGuard

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from slipstream.models.variants import Look, headings
from slipstream.reports.draw import style
from slipstream.reports.draw.style import literal, look_of

EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}
"""A white edge around every marker, so that markers that overlap can be told apart."""
BARS: dict[str, Any] = {"capsize": 1.5, "elinewidth": 0.8, "capthick": 0.8}

_MOST_TICKS = 7
_STEPS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Ticks within a decade, from the densest choice to the sparsest."""


def panels(
    count: int, height: float, labels: Sequence[str], columns: int = 3
) -> tuple[Figure, list[Axes]]:
    """`count` panels of this height in rows, with room below for a legend of these labels.

    A row has at most `columns` panels, and rows are as even as possible: four panels in three
    columns become two rows of two.
    """
    rows = math.ceil(count / columns)
    per_row = math.ceil(count / rows)
    width = style.PAGE * (1 if per_row > 1 else 0.62)
    figure = style.new_figure(width, rows * height + legend_height(labels, width))
    places = list(figure.subplots(rows, per_row, squeeze=False).ravel())
    for spare in places[count:]:
        spare.remove()
    return figure, places[:count]


def mark(
    axes: Axes,
    look: Look,
    x: float,
    y: float,
    *,
    xerr: float | None = None,
    yerr: float | None = None,
) -> None:
    """A point, with an error bar where `xerr` or `yerr` is given."""
    axes.errorbar(x, y, xerr=xerr, yerr=yerr, fmt="none", ecolor=look.colour, **BARS)
    line(axes, look, [x], [y])


def line(axes: Axes, look: Look, x: Sequence[float], y: Sequence[float], **given: Any) -> None:
    kind = {"color": look.colour, "marker": look.marker, "ls": look.line, **EDGE}
    axes.plot(x, y, **{**kind, **given})


def note(
    axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **given: Any
) -> None:
    """Small print beside the place `at`, moved by `offset` (in typographic points)."""
    axes.annotate(text, at, offset, textcoords="offset points", **{"fontsize": 6, **given})


def empty_panel(axes: Axes, text: str = "not run") -> None:
    """A panel without axes that says why it shows nothing."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    place = axes.transAxes
    axes.text(0.5, 0.5, text, transform=place, ha="center", va="center", color=style.MUTED)


def finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def thousands(value: float, _: object = None) -> str:
    """1500 as "1.5k", 262144 as "262k", 2000000 as "2M"."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def setting_text(value: float, _: object = None) -> str:
    """As `thousands`, but powers of two below 1e5 are written in full: 1024, 65536, "131k"."""
    power_of_two = value < 1e5 and math.frexp(value)[0] == 0.5
    return f"{value:.0f}" if power_of_two and value >= 1 else thousands(value)


def log_axis(
    axes: Axes,
    which: Literal["x", "y"],
    values: Iterable[float | None],
    *,
    suffix: str = "",
    room: float = 0.05,
) -> None:
    """A logarithmic axis over the values, with a few plain numbers as ticks.

    Values that are missing or not positive do not count. `room` is the share of the axis that is
    left free at either end.
    """
    positive = [value for value in values if finite(value) and value > 0]
    low, high = (min(positive), max(positive)) if positive else (0.9, 1.1)
    length = max(math.log(high / low), 0.02)
    middle = math.sqrt(low * high)
    half = math.exp(length * (0.5 + room))
    low, high = middle / half, middle * half
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(_ticks(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}{suffix}"))


def _ticks(low: float, high: float) -> list[float]:
    """The densest of `_STEPS` that gives at most seven ticks, or even ones where it gives too few.

    0.9 to 4 has 1, 1.5, 2 and 3; 0.95 to 1.1 would have 1 alone and gets 0.95, 1, 1.05 and 1.1.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in _STEPS:
        values = (float(f"{step}e{decade}") for decade in decades for step in steps)
        ticks = [value for value in values if low <= value <= high]
        if len(ticks) <= _MOST_TICKS:
            break
    if len(ticks) >= 3:
        return ticks
    even = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(tick) for tick in even if low <= tick <= high]


def doubling_axis(axes: Axes, at: Sequence[float]) -> None:
    """A logarithmic x axis with a tick at each setting, or at every n-th of more than eight."""
    axes.set_xscale("log", base=2)
    settings = sorted(set(at))
    stride = math.ceil(len(settings) / 8)
    axes.xaxis.set_major_locator(FixedLocator(settings[::stride]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(setting_text))
    axes.set_xlim(settings[0] / 1.25, settings[-1] * 1.25)


def rows_axis(axes: Axes, labels: Sequence[str]) -> None:
    """A y axis of names, the first at the top."""
    axes.set_yticks(range(len(labels)), list(map(literal, labels)))
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    between = np.arange(0.5, len(labels) - 1)
    axes.hlines(between, 0, 1, style.BAND, lw=0.4, transform=axes.get_yaxis_transform())


def handle(look: Look, label: str, *, line: bool = True, marker: bool = True) -> Line2D:
    """An entry of a legend, with a name as its label."""
    dashes, sign = look.line if line else "", look.marker if marker else ""
    return Line2D([], [], color=look.colour, ls=dashes, marker=sign, label=literal(label), **EDGE)


def variant_handles(variants: Sequence[str], **given: bool) -> list[Any]:
    labelled = zip(variants, headings(variants), strict=True)
    return [handle(look_of(variant), label, **given) for variant, label in labelled]


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """A legend below all panels, in as few rows as fit."""
    labels = [handle.get_label() for handle in handles]
    columns = math.ceil(len(labels) / _legend_rows(labels, figure.get_figwidth()))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def legend_height(labels: Sequence[str], width: float) -> float:
    """Height of the legend in inches, for a figure of this width in inches."""
    return 0.15 * _legend_rows(labels, width)


def _legend_rows(labels: Sequence[str], width: float) -> int:
    """The fewest rows whose columns fit in the width; a letter takes some 0.056 inches."""
    for rows in range(1, len(labels)):
        columns = np.array_split([len(label) for label in labels], math.ceil(len(labels) / rows))
        if sum(0.45 + 0.056 * max(column) for column in columns) <= width:
            return rows
    return max(len(labels), 1)


def legend_above(axes: Axes, handles: Sequence[Any]) -> None:
    """A legend between one panel and its title."""
    close: dict[str, Any] = {"bbox_to_anchor": (0, 0.98), "borderpad": 0, "handlelength": 1.4}
    axes.legend(handles=handles, ncols=min(len(handles), 3), loc="lower left", **close)
