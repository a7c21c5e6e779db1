"""How every figure looks: colours and markers of the variants, sizes, fonts, and files.

Figures are made without pyplot: nothing is global, and nothing has to be closed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from slipstream.core.files import write_text
from slipstream.models.variants import Look, variant_or_default

COLUMN = 3.4
"""Inches: one column of a journal."""
PAGE = 7.0
"""Inches: both columns."""
DPI = 300

BAND = "#d9d9d9"
"""The colour of the band that shows the spread of the baseline's seeds."""
MUTED = "#6b6b6b"
"""The colour of guide lines and remarks."""
LEVEL_LINES: tuple[Any, ...] = (":", "-.", "--", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 3)))
"""The dashes of level lines, which are not of a variant."""

SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#332288", "#000000")
"""Colours of series other than variants: Okabe and Ito's without the yellow, and Tol's indigo."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


_PARAMETERS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "figure.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.unicode_minus": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "lines.markeredgewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.2,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "image.composite_image": False,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.h_pad": 0.02,
    "axes.formatter.limits": (-2, 4),
    "axes.formatter.use_mathtext": True,
}


@contextmanager
def figure_settings() -> Iterator[None]:
    """Draw with the settings of all figures, whatever settings of matplotlib the user has."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PARAMETERS)
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; call it within `figure_settings`."""
    return Figure(figsize=(width, height), layout="constrained")


def look_of(variant: str) -> Look:
    return variant_or_default(variant).drawn_as


def series_look(index: int) -> Look:
    return Look(SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)])


def plain(name: str) -> str:
    """The name of a field as words."""
    return name.replace("_", " ")


def with_unit(name: str, unit: str) -> str:
    """A label as "pressure [m²/s²]"; "1" and "" are no units."""
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    raised = re.sub(r"\^(-?\d+)", lambda power: power[1].translate(digits), unit)
    return plain(name) if unit in ("", "1") else f"{plain(name)} [{raised}]"


def literal(text: str) -> str:
    """A name as a figure shows it, dollars too: between two of them matplotlib sees mathematics.

    To be called last, when lines have been broken: a break may not come between "\\" and "$".
    """
    return text.replace("$", r"\$")


def number(value: float, digits: int = 3) -> str:
    """Significant digits, trailing zeros kept: 0.0580, 1.04, 12.0."""
    text = f"{value:#.{digits}g}"
    return text.rstrip(".") if "e" not in text else f"{value:.{digits - 1}e}"


def svg_text(figure: Figure, name: str = "") -> str:
    """The figure as SVG, the same bytes every time.

    `name` goes into the ids within: two figures on one page must not share clips.
    """
    _settle(figure)
    text = io.StringIO()
    with figure_settings(), matplotlib.rc_context({"svg.hashsalt": f"slipstream {name}"}):
        figure.savefig(text, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _settle(figure: Figure) -> None:
    """Compute the layout once and fix it, since every drawing would move the panels a little."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        with figure_settings():
            figure.draw_without_rendering()
        figure.set_layout_engine("none")


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.svg and `name`.png; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn, pixels = folder / f"{name}.svg", folder / f"{name}.png"
    write_text(drawn, svg_text(figure, name), durable=False)
    with figure_settings():
        figure.savefig(pixels, format="png", dpi=DPI, metadata={"Software": None})
    return drawn, pixels
