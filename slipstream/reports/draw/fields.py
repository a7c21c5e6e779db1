"""Pictures of fields: on the surface of a body, on a section through a volume, slice functions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from slipstream.core.checks import check_choice
from slipstream.models.variants import variant_or_default
from slipstream.reports.content import Array, Scene, SceneField
from slipstream.reports.draw import style
from slipstream.reports.draw.canvas import AXES, Canvas, canvas_of, section_canvas, surface_canvas
from slipstream.reports.draw.raster import Floats

SEQUENTIAL, DIVERGING, UNSURE = "viridis", "RdBu_r", "cividis"
ERROR = LinearSegmentedColormap.from_list(
    "error", ["#f4f4f4", "#fdd49e", "#fc8d59", "#d7301f", "#7f0000", "#2a0008"]
)
"""From nearly white, for no error, to nearly black, always darker for a larger error."""
SHARE = LinearSegmentedColormap.from_list(
    "share", ["#f4f4f4", "#c6dbef", "#6baed6", "#2171b5", "#08306b"]
)

_ABREAST = 4  # variants in a row, beside the truth
_CLIPPED = 0.5  # percent of the values beyond either end of a scale
_MISSING = "#c8c8c8"
_SMALL = 6.5  # font size of a title above a section, whose panels are narrowed by tick labels


def field_figure(
    scene: Scene,
    field: str,
    variants: Sequence[str],
    *,
    axis: str | None = None,
    position: float | None = None,
    body: Array | None = None,
) -> Figure:
    """Truth and predictions above, absolute errors below, with one scale for each row.

    A volume is shown on the plane across `axis` at `position`, with the `body` in it (points of
    its surface) in grey. ValueError for a field or a variant that the scene does not have.
    """
    check_choice("field", field, [each.name for each in scene.fields])
    shown = next(each for each in scene.fields if each.name == field)
    if not variants:
        raise ValueError("variants must name at least one variant, got none")
    for variant in variants:
        check_choice("variant", variant, shown.predictions)
    if scene.kind == "surface" or body is None:
        canvas = canvas_of(scene, axis, position)
    else:
        canvas = section_canvas(scene.coords, scene.unit, axis=axis, position=position, body=body)
    with style.figure_settings():
        return _blocks(scene, shown, tuple(variants), canvas)


def _blocks(scene: Scene, shown: SceneField, variants: tuple[str, ...], canvas: Canvas) -> Figure:
    """For every four variants a row of values and a row of errors."""
    blocks = [variants[k : k + _ABREAST] for k in range(0, len(variants), _ABREAST)]
    below = 0.0 if canvas.extent is None else 0.3
    figure, grid = _grid(2 * len(blocks), 1 + len(blocks[0]), canvas, beside=1.0, below=below)
    seen = canvas.raster.shown
    values = {"": shown.truth, **{variant: shown.predictions[variant] for variant in variants}}
    errors = {variant: shown.errors[variant] for variant in variants}
    scales = value_scale(shown.truth[seen]), error_scale([errors[v][seen] for v in variants])
    for k, block in enumerate(blocks):
        for row, names, arrays, scale, label in (
            (grid[2 * k], ("", *block), values, scales[0], shown.name),
            (grid[2 * k + 1, 1:], block, errors, scales[1], "absolute error"),
        ):
            for axes, name in zip(row, names, strict=False):
                image = show_on(axes, canvas, arrays[name], *scale)
            bar = colour_bar(figure, image, [array[seen] for array in arrays.values()], row)
            text = _filled(style.with_unit(label, shown.unit), 11)
            bar.ax.set_ylabel(text, rotation=0, ha="left", va="center")
        grid[2 * k, 0].set_title("truth", loc="center")
        for axes, variant in zip(grid[2 * k, 1:], block, strict=False):
            name = _filled(variant_or_default(variant).heading, 20)
            error = style.number(shown.relative[variant])
            size = None if canvas.extent is None else _SMALL
            axes.set_title(f"{name}\nrelative $L^1$ {error}", loc="center", fontsize=size)
    _remarks(grid[1, 0], canvas, (scene.experiment, scene.sample, canvas.note))
    _label_edges(grid, canvas)
    return figure


def value_scale(truth: Floats) -> tuple[Colormap, Normalize]:
    """Colours of values, without the outermost ones.

    The scale is symmetric about zero where either sign reaches more than 15 % as far as the other:
    -0.2 to 1 becomes -1 to 1, and -0.1 to 1 stays.
    """
    low, high = ends(truth)
    if low < 0 < high and min(-low, high) > 0.15 * max(-low, high):
        largest = max(-low, high)
        return colours_named(DIVERGING), Normalize(-largest, largest)
    return colours_named(SEQUENTIAL), Normalize(low, high)


def error_scale(errors: Sequence[Floats]) -> tuple[Colormap, Normalize]:
    """Colours of absolute errors, from zero to the largest of all variants."""
    return ERROR.with_extremes(bad=_MISSING), Normalize(
        0, max(ends(each)[1] for each in errors) or 1.0
    )


def ends(values: Floats) -> tuple[float, float]:
    finite = np.asarray(values, np.float64)[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = (float(end) for end in np.percentile(finite, [_CLIPPED, 100 - _CLIPPED]))
    return (low, high) if high > low else (low, low + max(abs(low), 1.0) * 1e-3)


def colours_named(name: str) -> Colormap:
    return matplotlib.colormaps[name].with_extremes(bad=_MISSING)


def _grid(
    rows: int, columns: int, canvas: Canvas, *, beside: float, below: float
) -> tuple[Figure, NDArray[Any]]:
    """Panels of the canvas's proportions, five across a page.

    `beside` is the room for colour bars in inches, `below` that for axis labels under each second
    row.
    """
    panel = (style.PAGE - 1.0) / 5 if columns >= 4 else 1.6
    height = panel * canvas.raster.shape[0] / canvas.raster.shape[1]
    size = columns * panel + beside, rows * (max(height, 0.4) + 0.06 + (0.34 + below) / 2)
    figure = style.new_figure(*size)
    close = {"wspace": 0.01, "hspace": 0.01}
    return figure, figure.subplots(rows, columns, squeeze=False, gridspec_kw=close)


def show_on(
    axes: Axes, canvas: Canvas, values: Floats, colours: Colormap, norm: Normalize
) -> AxesImage:
    picture = np.clip(canvas.image(values, colours, norm), 0, 1)
    pixels = (picture * 255).round().astype(np.uint8)
    return axes.imshow(pixels, colours, norm, origin="lower", extent=canvas.extent)


def colour_bar(
    figure: Figure, image: AxesImage, values: Sequence[Floats], panels: NDArray[Any], **where: Any
) -> Colorbar:
    """The colour bar of some panels, with a pointed end where values go beyond it."""
    places = np.asarray(image.norm(np.concatenate(values)))  # 0 to 1 on the scale
    beyond = bool(np.any(places < 0)), bool(np.any(places > 1))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(beyond)
    given = {"aspect": 12, "pad": 0.01, "fraction": 0.05, "extend": extend or "neither", **where}
    bar = figure.colorbar(image, ax=list(panels), **given)
    bar.outline.set_linewidth(0.4)
    bar.ax.tick_params(width=0.4)
    return bar


def _remarks(axes: Axes, canvas: Canvas, lines: Sequence[str]) -> None:
    """Write into the free panel which sample it is; with a body, draw how its axes are turned."""
    text = "\n".join(_filled(line, 24) for line in lines if line)
    axes.text(0.0, 0.95, text, transform=axes.transAxes, va="top", color=style.MUTED, fontsize=6)
    if canvas.triad is None:
        return
    arrow = {"arrowstyle": "-|>", "lw": 0.6, "color": style.MUTED, "shrinkA": 0, "shrinkB": 0}
    labelled: list[Floats] = []
    for name, (right, up, _) in zip(AXES, canvas.triad, strict=True):
        end = np.array([66 + 16 * right, 8 + 16 * up])
        if any(np.linalg.norm(end - other) < 6 for other in labelled):
            continue  # two names would overlap: this axis is seen from its end
        labelled.append(end)
        start, tip = (66, 8), (66 + 11 * right, 8 + 11 * up)
        axes.annotate("", tip, start, "axes points", "axes points", arrowprops=arrow)
        centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6}
        axes.annotate(name, (end[0], end[1]), xycoords="axes points", color=style.MUTED, **centred)


def _label_edges(grid: NDArray[Any], canvas: Canvas) -> None:
    """Label the axes of a section at the lowest and leftmost panels only; hide empty panels."""
    for (row, column), axes in np.ndenumerate(grid):
        if canvas.extent is None or not axes.images:
            axes.set_axis_off()
            continue
        last = row % 2 == 1 or not grid[row + 1, column].images
        first = column == 0 or not grid[row, column - 1].images
        axes.spines[:].set(visible=True, linewidth=0.4)
        axes.tick_params(labelbottom=last, labelleft=first, width=0.4)
        axes.set_xlabel(style.literal(canvas.labels[0]) if last else "")
        axes.set_ylabel(style.literal(canvas.labels[1]) if first else "")


def _filled(name: str, width: int) -> str:
    """A name in lines of at most `width` letters."""
    return style.literal(textwrap.fill(name, width))


def slice_figure(
    coords: Array,
    normals: Array | None,
    tops: Sequence[Array],
    entropies: Sequence[Array],
    similarities: Sequence[float],
    labels: Sequence[str],
) -> Figure:
    """Matched slice functions of two runs, one row per run, and the entropy of every point.

    `tops` holds K functions (K N) of each run, each drawn over its own maximum; `similarities` are
    the cosines of the K pairs. The entropies, in nats, share a scale.
    """
    count = len(similarities)
    _check_slices(coords, tops, entropies, labels, count)
    canvas = surface_canvas(coords, normals)
    seen = [each[canvas.raster.shown] for each in entropies]
    _, spread = value_scale(np.concatenate(seen))
    with style.figure_settings():
        figure, grid = _grid(len(labels), count + 1, canvas, beside=0.3, below=0.3)
        for row, top, entropy, label in zip(grid, tops, entropies, labels, strict=True):
            for axes, function in zip(row[:-1], top, strict=True):
                share = function / max(float(function.max()), 1e-30)
                left = show_on(axes, canvas, share, SHARE, Normalize(0, 1))
            right = show_on(row[-1], canvas, entropy, colours_named(UNSURE), spread)
            name, at = _filled(label, 14), row[0].transAxes
            row[0].text(-0.03, 0.5, name, transform=at, rotation=90, ha="right", va="center")
        for axes, k, cosine in zip(grid[0], range(count), similarities, strict=False):
            axes.set_title(f"pair {k + 1}, cosine {cosine:.2f}", loc="center")
        grid[0, -1].set_title("entropy per point", loc="center")
        below = {"location": "bottom", "aspect": 24, "pad": 0.02}
        bar = colour_bar(figure, left, [share], grid[:, :-1].ravel(), shrink=1 / count, **below)
        bar.set_label("slice function over its maximum")
        colour_bar(figure, right, seen, grid[:, -1], **below).set_label("entropy [nats]")
        _label_edges(grid, canvas)
    return figure


def _check_slices(
    coords: Array,
    tops: Sequence[Array],
    entropies: Sequence[Array],
    labels: Sequence[str],
    count: int,
) -> None:
    points, runs = len(coords), len(labels)
    for name, given in (("tops", tops), ("entropies", entropies)):
        if len(given) != runs:
            raise ValueError(
                f"{name} must hold one array for each of {runs} labels, got {len(given)}"
            )
    for top in tops:
        if top.shape != (count, points):
            raise ValueError(f"tops must have shape (K, N) = ({count}, {points}), got {top.shape}")
    for entropy in entropies:
        if entropy.shape != (points,):
            raise ValueError(f"entropies must have shape (N,) = ({points},), got {entropy.shape}")
