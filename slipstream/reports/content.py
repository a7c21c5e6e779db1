"""What a report consists of, as values: `study` and `draw` make them, `page` lays them out.

Numbers are plain Python or NumPy; nothing in here is HTML, LaTeX or a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.audit.certificate import Finding

Array = NDArray[np.float32]
PAGE = "report.html"
"""The file that a reader opens."""


@dataclass(frozen=True)
class Cell:
    """One number of a table, or `text` where `value` is None."""

    value: float | None = None
    std: float | None = None
    best: bool = False
    """Whether it is the best of its row; that one is set in bold."""
    text: str = ""
    digits: int = 3
    """Significant digits."""
    kind: Literal["error", "ratio", "percent", "count", "text"] = "error"
    interval: tuple[float, float] | None = None
    """Shown in the place of `std`, as [0.701, 0.822]."""


@dataclass(frozen=True)
class Table:
    name: str
    """The stem of its files: `main` is written to main.md and main.tex."""
    title: str
    caption: str
    """What the numbers are: norm, units, split, seeds."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """What is missing, and why."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure as SVG, for the page."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, eq=False)
class SceneField:
    """One scalar of a sample: a field, a component, or the length of a vector."""

    name: str
    unit: str
    truth: Array  # N
    predictions: Mapping[str, Array]  # N, by variant
    errors: Mapping[str, Array]
    """Absolute errors; of a vector, the length of the difference."""
    relative: Mapping[str, float]
    """Relative L1 error of this sample, by variant."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A sample with what every variant predicts on it."""

    name: str
    experiment: str
    sample: str
    kind: Literal["surface", "volume"]
    coords: Array  # N 3
    unit: str
    """Unit of the coordinates."""
    fields: tuple[SceneField, ...]
    normals: Array | None = None  # N 3
    triangles: NDArray[np.int32] | None = None  # T 3, of a surface
    reconstructed: bool = False
    """Whether the triangles were laid through the points for the picture, for want of a mesh."""
    wall_distance: Array | None = None  # N, of a volume: distance to the body in it

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(self.fields[0].predictions)


@dataclass(frozen=True, eq=False)
class Panel:
    """One picture of the opening, with its colour bar."""

    title: str
    note: str
    png: bytes
    colours: tuple[str, ...]
    """Of the colour bar, from low to high, at equal distances."""
    ticks: tuple[str, str, str]
    """The numbers at the bar's ends and in its middle."""
    label: str
    """The quantity."""


@dataclass(frozen=True)
class Fact:
    number: str
    text: str
    """What the number is; the sentence begins with the number."""


@dataclass(frozen=True, eq=False)
class Opening:
    """What a report begins with: a sample that no model has learned from."""

    caption: str
    panels: tuple[Panel, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class RunCard:
    """A run as the page shows it."""

    name: str
    status: str
    """"finished", or why not."""
    facts: Mapping[str, str]
    """Parameters, steps, device, kernels, ..."""
    config: Mapping[str, Any]
    checks: Sequence[Finding] = ()
    """The checks of its certificate; empty where it was not audited."""


@dataclass(frozen=True)
class Definition:
    """What a word of the report means."""

    term: str
    text: str


@dataclass(frozen=True, eq=False)
class Section:
    title: str
    text: str = ""
    items: tuple[Table | Picture, ...] = ()


@dataclass(frozen=True, eq=False)
class Report:
    title: str
    subtitle: str
    """Date, versions, where the numbers come from."""
    conclusion: str
    """What the numbers say, in a few sentences."""
    sections: tuple[Section, ...]
    scenes: tuple[Scene, ...] = ()
    runs: tuple[RunCard, ...] = ()
    definitions: tuple[Definition, ...] = ()
    problems: tuple[str, ...] = field(default=())
    """What is missing or failed, a sentence each."""
    opening: Opening | None = None
    """None where no run has predictions."""
    notice: str = ""
    """What a reader must know before all numbers."""


@dataclass(frozen=True)
class Measurement:
    """Memory or time of one configuration."""

    series: str
    axis: str
    """What `at` is a value of, as "slices G"."""
    at: float
    quantity: str
    unit: str
    value: float | None
    """None where it did not fit."""
