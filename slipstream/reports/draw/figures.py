"""The charts of the report: errors, ratios, controls, curves, sweeps, memory and time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from slipstream.evaluation.compare import Curve, Row, ratio_std
from slipstream.models.variants import BASELINE, headings, in_table_order
from slipstream.reports.content import Measurement
from slipstream.reports.draw import style
from slipstream.reports.draw.axes import (
    BARS,
    doubling_axis,
    empty_panel,
    finite,
    handle,
    legend,
    legend_above,
    legend_height,
    line,
    log_axis,
    mark,
    note,
    panels,
    rows_axis,
    thousands,
    variant_handles,
)
from slipstream.reports.draw.style import (
    BAND,
    MUTED,
    figure_settings,
    literal,
    look_of,
    new_figure,
    plain,
    with_unit,
)
from slipstream.reports.draw.sweeps import SweepPoint, draw_sweep, name_of_sweep

TYING = {
    BASELINE: "attention, tied",
    "no-token-attention": "no attention, tied",
    "untied": "attention, untied",
    "untied-no-token-attention": "no attention, untied",
    "untied-ln": "LinearNO, untied",
}
CAPACITY = ("mlp-only", "mlp-only-wide", BASELINE)

_UNFIT = "does not fit"
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class FieldRatio:
    """Error of mlp-only over the baseline's on one field."""

    experiment: str
    field: str
    measured: float | None
    predicted: float | None = None


@dataclass(frozen=True)
class LayerEntropy:
    """How concentrated the slices of a run are, layer by layer."""

    variant: str
    slices: int
    entropies: tuple[float, ...]
    """Mean over the points, in nats."""
    effective: tuple[float, ...]
    """Effective number of slices."""


@figure_settings()
def ratio_plot(rows: Sequence[Row]) -> Figure:
    """Error of each variant over the baseline's, a line for each experiment.

    The band is the baseline's spread over its seeds; bars are one standard deviation.
    """
    _check_some("rows", rows)
    experiments = _in_order(row.experiment for row in rows)
    variants = in_table_order(row.variant for row in rows)
    drawn = [variant for variant in variants if variant != BASELINE]
    band = "baseline ± std"
    width, pitch = style.PAGE * 0.72, max(0.24, 0.055 * len(drawn))
    height = 0.6 + pitch * len(experiments) + legend_height([*headings(drawn), band], width)
    figure = new_figure(width, height)
    axes = figure.subplots()
    axes.axvline(1, color="black", lw=0.7, zorder=1)
    reached: list[float] = []
    for place, experiment in enumerate(experiments):
        own = [row for row in rows if row.experiment == experiment]
        reached += _ratio_line(axes, place, own, drawn)
    rows_axis(axes, experiments)
    log_axis(axes, "x", [1.0, *reached], suffix="×")
    axes.set_xlabel("validation error over the baseline's")
    legend(figure, [*variant_handles(drawn, line=False), Patch(facecolor=BAND, label=band)])
    return figure


def _ratio_line(
    axes: Axes, place: int, rows: Sequence[Row], variants: Sequence[str]
) -> list[float]:
    """Draw one experiment, and return the ends of everything drawn, from which the axis follows."""
    base = next((row for row in rows if row.variant == BASELINE), None)
    if base is None or not base.mean > 0:
        note(axes, "no baseline", (1, place), (4, 0), color=MUTED, va="center")
        return []
    spread = (base.std or 0.0) / base.mean
    ends = [1 - spread, 1 + spread]
    axes.fill_betweenx([place - 0.42, place + 0.42], ends[0], ends[1], color=BAND, lw=0)
    for row in rows:
        if row.variant != BASELINE and finite(row.ratio):
            offset = 0.6 * ((variants.index(row.variant) + 0.5) / len(variants) - 0.5)
            bar = ratio_std(row, base)
            mark(axes, look_of(row.variant), row.ratio, place + offset, xerr=bar)
            ends += [row.ratio - (bar or 0.0), row.ratio + (bar or 0.0)]
    return ends


@figure_settings()
def controls(
    *,
    grid: Sequence[Row] = (),
    slices: Sequence[SweepPoint] = (),
    capacity: Sequence[Row] = (),
    parameters: Mapping[str, int] | None = None,
    fields: Sequence[FieldRatio] = (),
) -> Figure:
    """Four controls, each in a panel, which reads "not run" where there are no results.

    (a) Attention and tying, in one experiment (`grid`); (b) the number of slices; (c) capacity,
    with the number of `parameters` of each variant; (d) the ratio of each field.
    """
    figure = new_figure(style.PAGE, 4.2 + 0.06 * max(0, len(fields) - 16))
    places = figure.subplots(2, 2).ravel()
    _tying(places[0], grid)
    _slice_counts(places[1], slices)
    _capacity(places[2], capacity, parameters or {})
    _per_field(places[3], fields)
    counts = ", ".join(part for part in ("slice count", name_of_sweep(slices)) if part)
    titles = ("attention and tying", counts, "capacity", "per field")
    for axes, letter, title in zip(places, "abcd", titles, strict=True):
        axes.set_title(f"({letter}) {literal(title)}", pad=14)
    return figure


def _tying(axes: Axes, rows: Sequence[Row]) -> None:
    by_variant = {row.variant: row for row in rows if finite(row.mean)}
    base = by_variant.get(BASELINE)
    if base is None or not base.mean > 0:
        return empty_panel(axes)
    spread = 100 * (base.std or 0.0) / base.mean
    axes.axvspan(-spread, spread, color=BAND, lw=0)
    axes.axvline(0, color="black", lw=0.6)
    shown = [variant for variant in TYING if variant in by_variant]
    for place, variant in enumerate(shown):
        row = by_variant[variant]
        bar = None if row.std is None else 100 * row.std / base.mean
        mark(axes, look_of(variant), 100 * (row.mean / base.mean - 1), place, xerr=bar)
    rows_axis(axes, [TYING[variant] for variant in shown])
    axes.set_xlabel(f"change of error [%], {literal(base.experiment)}")


def _slice_counts(axes: Axes, points: Sequence[SweepPoint]) -> None:
    if not points:
        return empty_panel(axes)
    draw_sweep(axes, points)
    axes.set_xlabel("slices $G$")
    axes.set_ylabel("validation error")
    axes.margins(y=0.3)
    legend_above(axes, variant_handles(in_table_order(p.variant for p in points)))


def _capacity(axes: Axes, rows: Sequence[Row], parameters: Mapping[str, int]) -> None:
    rows = [row for row in rows if row.variant in CAPACITY and finite(row.mean)]
    if not rows:
        return empty_panel(axes)
    experiments = _in_order(row.experiment for row in rows)
    for row in rows:
        at = experiments.index(row.experiment) + 0.27 * (CAPACITY.index(row.variant) - 1)
        colour = look_of(row.variant).colour
        axes.bar(at, row.mean, 0.25, color=colour, yerr=row.std, ecolor=MUTED, error_kw=BARS)
    names = [name.replace("-", "-\n") if len(experiments) > 1 else name for name in experiments]
    axes.set_xticks(range(len(experiments)), list(map(literal, names)))
    axes.set_ylabel("validation error")
    axes.margins(y=0.15)
    axes.set_xlim(-0.55, len(experiments) - 0.45)
    shown = [v for v in CAPACITY if any(row.variant == v for row in rows)]
    legend_above(axes, [Patch(color=look_of(v).colour, label=literal(v)) for v in shown])
    base = parameters.get(BASELINE)
    if base:
        shares = [f"{parameters[v] / base:.2f}×" for v in shown if v in parameters]
        axes.set_xlabel(f"parameters over the baseline's: {', '.join(shares)}")


def _per_field(axes: Axes, fields: Sequence[FieldRatio]) -> None:
    known = [(f.experiment, f.field, f.measured) for f in fields if finite(f.measured)]
    if not known:
        return empty_panel(axes)
    experiments = _in_order(experiment for experiment, _, _ in known)
    ratios = [1.0, *(ratio for _, _, ratio in known)]
    middle = math.sqrt(min(ratios) * max(ratios))
    for row, name in enumerate(experiments):
        own = [(field, ratio) for experiment, field, ratio in known if experiment == name]
        for k, (field, ratio) in enumerate(own):
            place = row + 0.7 * ((k + 0.5) / len(own) - 0.5)
            mark(axes, style.series_look(k), ratio, place)
            left = ratio > middle  # the name goes to the side that has more room
            side: dict[str, Any] = {"ha": "right" if left else "left", "va": "center"}
            note(axes, literal(plain(field)), (ratio, place), (-4 if left else 4, 0), **side)
    axes.axvline(1, color="black", lw=0.6, zorder=1)
    rows_axis(axes, experiments)
    log_axis(axes, "x", ratios, suffix="×")
    axes.set_xlabel("test error of mlp-only over the baseline's")


@figure_settings()
def validation_curves(
    curves: Sequence[Curve], bounds: Mapping[str, Mapping[str, float]] | None = None
) -> Figure:
    """Validation error against the step, a panel for each experiment and a line for each seed.

    `bounds` are errors without a model, by experiment and name: level lines.
    """
    _check_some("curves", curves)
    experiments = _in_order(curve.experiment for curve in curves)
    variants = in_table_order(curve.variant for curve in curves)
    bounds = bounds or {}
    names = _in_order(name for experiment in experiments for name in bounds.get(experiment, {}))
    levels = {n: style.LEVEL_LINES[k % len(style.LEVEL_LINES)] for k, n in enumerate(names)}
    figure, places = panels(len(experiments), 1.6, [*headings(variants), *names])
    columns = len({axes.get_position().x0 for axes in places})
    for k, (axes, experiment) in enumerate(zip(places, experiments, strict=True)):
        axes.set_title(literal(experiment))
        shown = [c for c in curves if c.experiment == experiment and c.errors]
        if not shown:
            empty_panel(axes, "no validation")
            continue
        for curve in sorted(shown, key=lambda c: (variants.index(c.variant), c.seed)):
            steps = sorted(curve.errors)
            look, errors = look_of(curve.variant), [curve.errors[step] for step in steps]
            line(axes, look, steps, errors, lw=0.8, marker=look.marker if len(steps) == 1 else "")
        own = bounds.get(experiment, {})
        for name, error in own.items():
            axes.axhline(error, color=MUTED, lw=0.7, ls=levels[name], zorder=1)
        reached = [error for curve in shown for error in curve.errors.values()]
        log_axis(axes, "y", [*reached, *own.values()])
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        axes.set_xlabel("training step" if k + columns >= len(places) else "")
        axes.set_ylabel("validation error" if k % columns == 0 else "")
        axes.grid(axis="y")
    lines = [Line2D([], [], color=MUTED, lw=0.7, ls=levels[n], label=literal(n)) for n in names]
    legend(figure, [*variant_handles(variants, marker=False), *lines])
    return figure


@figure_settings()
def systems(rows: Sequence[Measurement]) -> Figure:
    """Memory and time: a panel for each quantity and axis; a cross stands for what did not fit."""
    _check_some("rows", rows)
    kinds = _in_order((row.quantity, row.unit, row.axis) for row in rows)
    series = _in_order(row.series for row in rows)
    looks = {name: style.series_look(k) for k, name in enumerate(series)}
    figure, places = panels(len(kinds), 1.9, [*series, _UNFIT], columns=2)
    for axes, (quantity, unit, axis) in zip(places, kinds, strict=True):
        shown = [r for r in rows if (r.quantity, r.unit, r.axis) == (quantity, unit, axis)]
        for name in series:
            fits = sorted((r.at, r.value) for r in shown if r.series == name and finite(r.value))
            line(axes, looks[name], [at for at, _ in fits], [value for _, value in fits])
        _scales(axes, shown)
        for row in shown:
            if not finite(row.value):
                given = {"color": looks[row.series].colour, "ha": "center", "va": "center"}
                beside = (4 * series.index(row.series), 0)
                top = {"xycoords": ("data", "axes fraction"), "annotation_clip": False}
                note(axes, "×", (row.at, 1), beside, fontsize=9, **given, **top)
        axes.set_xlabel(literal(axis))
        axes.set_ylabel(literal(with_unit(quantity, unit)))
        axes.grid(axis="y")
    handles = [handle(looks[name], name) for name in series]
    if any(not finite(row.value) for row in rows):
        handles.append(Line2D([], [], ls="", marker="x", color=MUTED, label=_UNFIT))
    legend(figure, handles)
    return figure


def _scales(axes: Axes, rows: Sequence[Measurement]) -> None:
    """A logarithmic y axis where the values span a factor of eight, else a linear one from zero."""
    doubling_axis(axes, [row.at for row in rows])
    values = [row.value for row in rows if finite(row.value)]
    if values and min(values) > 0 and max(values) >= 8 * min(values):
        log_axis(axes, "y", values)
    elif values:
        axes.set_ylim(0, 1.12 * max(values))


@figure_settings()
def locality(rows: Sequence[FieldRatio]) -> Figure:
    """The error of each field without coupling over the baseline's, measured and predicted."""
    _check_some("rows", rows)
    figure = new_figure(style.COLUMN * 1.25, 0.85 + 0.3 * len(rows))
    axes = figure.subplots()
    kinds = (("measured", "#0072B2", ""), ("predicted", "#E69F00", "////"))
    for k, (kind, colour, hatch) in enumerate(kinds):
        for place, row in enumerate(rows):
            value = getattr(row, kind)
            if finite(value):
                at = place + 0.36 * (k - 0.5)
                (bar,) = axes.barh(at, value - 1, 0.34, left=1, color=colour)
                bar.set(hatch=hatch, edgecolor="white", linewidth=0)
                note(
                    axes,
                    f"{style.number(value)}×",
                    (max(value, 1), at),
                    (2, 0),
                    va="center",
                    fontsize=5.5,
                )
    axes.axvline(1, color="black", lw=0.6)
    rows_axis(axes, [f"{row.experiment}\n{plain(row.field)}" for row in rows])
    given = [value for row in rows for value in (row.measured, row.predicted)]
    log_axis(axes, "x", [1.0, *given], suffix="×", room=0.12)
    axes.set_xlabel("error of mlp-only over the baseline's")
    legend(
        figure,
        [Patch(facecolor=c, hatch=h, edgecolor="white", lw=0, label=kind) for kind, c, h in kinds],
    )
    return figure


@figure_settings()
def entropy(runs: Sequence[LayerEntropy]) -> Figure:
    """Mean entropy of the points' slice weights, and effective number of slices, by layer."""
    _check_some("runs", runs)
    variants = in_table_order(run.variant for run in runs)
    figure, (left, right) = panels(2, 1.8, headings(variants))
    for axes, values, top, label in (
        (left, [run.entropies for run in runs], math.log, "mean entropy [nats]"),
        (right, [run.effective for run in runs], float, "effective slices"),
    ):
        for run, layers in zip(runs, values, strict=True):
            line(axes, look_of(run.variant), range(1, len(layers) + 1), layers)
        for count in sorted({run.slices for run in runs}):
            axes.axhline(top(count), color=MUTED, ls="--", lw=0.8)
            text = f"ln {count} = {top(count):.2f}" if axes is left else f"$G$ = {count}"
            right_end = {"xycoords": ("axes fraction", "data"), "ha": "right"}
            note(axes, text, (1, top(count)), (0, 2), color=MUTED, **right_end)
        axes.set_ylim(0, 1.12 * max(top(run.slices) for run in runs))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.set_xlabel("layer")
        axes.set_ylabel(label)
    legend(figure, variant_handles(variants))
    return figure


def _check_some(name: str, items: Sequence[object]) -> None:
    if not items:
        raise ValueError(f"{name} must hold at least one, got none")


def _in_order(items: Iterable[_Item]) -> list[_Item]:
    return list(dict.fromkeys(items))
