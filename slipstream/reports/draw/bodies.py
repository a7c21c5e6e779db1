"""Two bodies side by side with a predicted field, and the difference of the field on the second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slipstream.data.geometry import distance_to_triangles
from slipstream.data.meshes import Location, Wanted, mesh_info, read_mesh, triangle_cells
from slipstream.reports.draw import style
from slipstream.reports.draw.canvas import Canvas, surface_canvas
from slipstream.reports.draw.fields import (
    DIVERGING,
    colour_bar,
    colours_named,
    ends,
    show_on,
    value_scale,
)
from slipstream.reports.draw.raster import Floats

NEAR = 0.02
"""How far the surface of the other body may be, as a share of the diagonal of its box."""
_LEAST = 0.5
"""The share of places so near to it, below which two bodies have no common surface."""


@dataclass(frozen=True, eq=False)
class Body:
    """A predicted surface: faces, and one number at each of its points or cells."""

    name: str
    points: Floats
    triangles: NDArray[np.int64]
    cells: NDArray[np.int64]
    """The cell that each triangle is cut from."""
    location: Location
    values: Floats

    @property
    def places(self) -> Floats:
        """Where the values are: points, or the middles of the cells."""
        if self.location == "point":
            return self.points
        middles = self.points[self.triangles].mean(1)
        count = np.maximum(np.bincount(self.cells, minlength=len(self.values)), 1)
        sums = [np.bincount(self.cells, own, len(self.values)) for own in middles.T]
        return np.stack(sums, 1) / count[:, None]

    @property
    def drawn(self) -> tuple[Floats, NDArray[np.int64]]:
        """Points and triangles for a picture; faces with a value of their own share no points."""
        if self.location == "point":
            return self.points, self.triangles
        corners = self.points[self.triangles].reshape(-1, 3)
        return corners, np.arange(len(corners)).reshape(-1, 3)

    def colours(self, values: Floats) -> Floats:
        """Values at the points of `drawn`."""
        return values if self.location == "point" else np.repeat(values[self.cells], 3)


@dataclass(frozen=True, eq=False)
class BodyDifference:
    """The field of a body less that of another one, at the places of the first."""

    values: Floats
    """NaN where the surface of the other body is not near."""
    how: Literal["by row", "nearest"]
    share: float
    """Of the places that have a difference."""


def scalar_fields(file: Path, location: Location, names: list[str]) -> list[str]:
    """Those of some predicted fields that are scalars in a predicted mesh."""
    arrays = {own.name: own for own in mesh_info(file).arrays if own.location == location}
    return [name for name in names if (own := _array(name, set(arrays))) in arrays
            and arrays[own].components == 1]  # fmt: skip


def read_body(name: str, file: Path, location: Location, field: str) -> Body:
    """ValueError where the mesh is no surface, or does not hold the field."""
    held = {own.name for own in mesh_info(file).arrays if own.location == location}
    wanted = Wanted(_array(field, held), location, 1)
    mesh = read_mesh(file, [wanted])
    points, triangles = mesh.triangles()
    values = np.asarray(mesh.array(wanted), np.float64).ravel()
    cells = triangle_cells(mesh.cells())
    return Body(name, np.asarray(points, np.float64), triangles, cells, location, values)


def _array(field: str, held: set[str]) -> str:
    """Where the mesh had an array of this name, the predicted one has another."""
    return f"{field}_prediction" if f"{field}_prediction" in held else field


def difference(body: Body, other: Body) -> BodyDifference:
    """By row where both have the same faces, else to the nearest place of the other body.

    ValueError where less than half of the places are near its surface: no common surface.
    """
    same = body.location == other.location and len(body.values) == len(other.values)
    if same and len(body.points) == len(other.points):
        if np.array_equal(body.triangles, other.triangles):
            return BodyDifference(body.values - other.values, "by row", 1.0)
    places = body.places
    limit = NEAR * float(np.linalg.norm(np.ptp(other.points, axis=0)))
    near = distance_to_triangles(places, other.points, other.triangles) <= limit
    share = float(near.mean())
    if share < _LEAST:
        raise ValueError(
            f"{body.name} and {other.name} must have a common surface for the difference of a"
            f" field, got {share:.0%} of the places of {body.name} within {NEAR:.0%} of the size of"
            f" {other.name}"
        )
    known = np.isfinite(other.values)
    from scipy.spatial import KDTree

    nearest = KDTree(other.places[known]).query(places[near])[1]
    values = np.full(len(body.values), np.nan)
    values[near] = body.values[near] - other.values[known][nearest]
    return BodyDifference(values, "nearest", share)


def bodies_figure(
    first: Body, second: Body, between: BodyDifference | None, field: str, unit: str
) -> Figure:
    """Both bodies at one scale and with one scale of colours, and what the second has more."""
    window = np.concatenate([first.points, second.points])
    canvases = [_canvas(body, window) for body in (first, second)]
    height, width = canvases[0].raster.shape
    panels = 2 if between is None else 3
    with style.figure_settings():
        panel = (style.PAGE - 1.2) / 3
        figure = style.new_figure(panels * panel + 1.2, panel * height / width + 0.45)
        axes = figure.subplots(1, panels, squeeze=False)[0]
        both = np.concatenate([first.values, second.values])
        scale = value_scale(both)
        for place, body, canvas in zip(axes, (first, second), canvases, strict=False):
            image = show_on(place, canvas, body.colours(body.values), *scale)
            place.set_title(style.literal(body.name), loc="center")
        _label(figure, image, [both], axes[:2], style.with_unit(field, unit))
        if between is not None:
            low, high = ends(between.values)
            norm = Normalize(-max(-low, high, 1e-30), max(-low, high, 1e-30))
            shown = second.colours(between.values)
            image = show_on(axes[2], canvases[1], shown, colours_named(DIVERGING), norm)
            axes[2].set_title(style.literal(f"{second.name} less {first.name}"), loc="center")
            _label(figure, image, [between.values], axes[2:], style.with_unit("difference", unit))
        for place in axes:
            place.set_axis_off()
    return figure


def _canvas(body: Body, window: Floats) -> Canvas:
    coords, triangles = body.drawn
    return surface_canvas(
        coords.astype(np.float32),
        None,
        triangles.astype(np.int32),
        window=window.astype(np.float32),
    )


def _label(figure: Figure, image: Any, values: list[Floats], axes: NDArray[Any], text: str) -> None:
    below = {"location": "bottom", "aspect": 30, "pad": 0.02, "shrink": 0.7}
    colour_bar(figure, image, values, axes, **below).set_label(style.literal(text))
