"""How a sample is seen: a body from a side and above, or a plane through a volume."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.colors import Colormap, Normalize, to_rgb
from numpy.typing import NDArray

from slipstream.core.checks import check_choice
from slipstream.data.geometry import point_normals
from slipstream.reports.content import Array, Scene
from slipstream.reports.draw.blend import Blend, blend_of, unit
from slipstream.reports.draw.raster import (
    Floats,
    Mask,
    Raster,
    estimate_normals,
    mesh,
    scatter,
    spacing,
    splat,
)
from slipstream.reports.draw.reconstruct import reconstructed
from slipstream.reports.draw.style import with_unit

AXES = ("x", "y", "z")
BODY = "#9e9e9e"

_COLUMNS = 400  # pixels across a picture, after averaging
_OVER = 2  # pixels averaged along each axis of a body's picture, for a smooth outline
_LARGEST = 0.03  # how far any point may reach, as a share of the picture's width
_ENOUGH = 50_000  # points nearest to a plane among which neighbours are searched
_LIGHT = np.array([-0.4, 0.55, 0.73])


@dataclass(frozen=True, eq=False)
class Canvas:
    """Pixels of one sample; all of its fields are painted on the same canvas."""

    raster: Raster
    light: Floats | None = None
    """How bright each pixel is, from 0 to 1."""
    grey: Mask | None = None
    """Pixels inside the body, painted grey."""
    blend: Blend | None = None
    """Of a body whose faces have corners of their own: which corners share their colours."""
    over: int = 1
    """Pixels averaged along each axis."""
    extent: tuple[float, float, float, float] | None = None
    labels: tuple[str, str] = ("", "")
    note: str = ""
    triad: Floats | None = None  # 3 3, the axes as (right, up, towards the viewer)

    @property
    def cover(self) -> Floats:
        """The share of each pixel of the image where something is."""
        covered = self.raster.covered if self.grey is None else self.raster.covered | self.grey
        rows, columns = (size // self.over for size in covered.shape)
        return covered.reshape(rows, self.over, columns, self.over).mean((1, 3))

    def image(self, values: Floats, colours: Colormap, norm: Normalize) -> Floats:
        """Red, green and blue of each pixel, white where nothing is; the lowest row is first."""
        values = np.asarray(values, np.float64)
        picture = self.raster.paint(values if self.blend is None else self.blend.mean(values))
        rgb = colours(norm(np.ma.masked_invalid(picture)))[..., :3]
        if self.light is not None:
            rgb = rgb * (0.65 + 0.35 * self.light[..., None])
        rgb[~self.raster.covered] = 1.0
        if self.grey is not None:
            rgb[self.grey] = to_rgb(BODY)
        rows, columns = (size // self.over for size in self.raster.shape)
        return rgb.reshape(rows, self.over, columns, self.over, 3).mean((1, 3))


def camera(coords: Floats) -> Floats:
    """The directions right, up and towards the viewer, as rows of a matrix.

    The viewer stands in front of the body, to one side and above. The body lies along the picture,
    z upwards unless z is its longest axis. Flow along +x goes to the right or away from the viewer.
    The flatter the body, the more it is seen from above: a cube from 18 degrees, a plate from 53.
    """
    extents = np.ptp(coords, axis=0)
    longest = int(np.argmax(extents))
    up = 2 if longest != 2 else int(np.argmin(extents))
    along, side = _length(coords, [axis for axis in range(3) if axis != up])
    flat = 1 - min(1.0, extents[up] / max(float(np.ptp(coords @ side)), 1e-30))
    turn, rise = np.radians(32 - 16 * flat**2), np.radians(18 + 35 * flat)
    level = -np.cos(turn) * side - np.sin(turn) * along
    toward = np.cos(rise) * level + np.sin(rise) * np.eye(3)[up]
    right = np.cross(np.eye(3)[up], toward)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(toward, right), toward])


def _length(coords: Floats, level: list[int]) -> tuple[Floats, Floats]:
    """Directions along a body and across it, in the plane of two axes.

    They are its principal axes where these are clear, so that a swept wing is seen along its sweep.
    """
    flat = coords[:, level] - coords[:, level].mean(0)
    sizes, directions = np.linalg.eigh(flat.T @ flat)
    if sizes[1] < 2 * sizes[0]:  # no clear direction: along an axis
        directions = np.eye(2)[:, np.argsort(np.ptp(flat, axis=0), kind="stable")]
    axes = np.zeros((2, 3))
    axes[:, level] = directions.T
    largest = np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], 1)
    across, along = axes * np.sign(largest)
    return along, across


@lru_cache(maxsize=2)
def canvas_of(scene: Scene, axis: str | None = None, position: float | None = None) -> Canvas:
    """What all fields of a scene are painted on; of a volume, the plane across `axis`."""
    if scene.kind == "surface":
        return surface_canvas(scene.coords, scene.normals, scene.triangles)
    distance = scene.wall_distance
    return section_canvas(
        scene.coords, scene.unit, axis=axis, position=position, wall_distance=distance
    )


def surface_canvas(
    coords: Array,
    normals: Array | None = None,
    triangles: NDArray[np.int32] | None = None,
    *,
    window: Array | None = None,
) -> Canvas:
    """A body drawn by its triangles, else by triangles through its points, with colours linear in
    each; by discs around the points where these make no surface, or normals are not known.

    `window` are points that the picture has room for, with the body's own: those of all bodies that
    are to be seen from one place at one scale.
    """
    held = np.asarray(coords if window is None else window, np.float64)
    view = camera(held)
    turned, edges = np.asarray(coords, np.float64) @ view.T, held @ view.T
    low, high = edges.min(0), edges.max(0)
    margin = _LARGEST * float((high - low)[:2].max())
    shape, scale = _shape(high - low + 2 * margin, _OVER)
    positions = (turned - low + margin) * scale
    if triangles is None and normals is not None:
        triangles = reconstructed(coords, normals)
    facing: Floats | None = None if normals is None else np.asarray(normals, np.float64) @ view.T
    blend = None if triangles is None else blend_of(positions, triangles)
    if triangles is not None:
        raster = mesh(positions, triangles, shape)
        if facing is None:
            facing = np.nan_to_num(point_normals(positions, triangles, lenient=True))
            facing = unit(np.stack([blend.mean(own) for own in facing.T], 1)) if blend else facing
    else:
        radii = _reach(positions, shape)
        facing = estimate_normals(positions, radii) if facing is None else facing
        raster = splat(positions, radii, shape, facing)
    lit = np.clip(np.where(facing[:, 2:] < 0, -facing, facing) @ _LIGHT, 0, 1)
    light = np.nan_to_num(raster.paint(lit), nan=1.0)
    return Canvas(raster, light, blend=blend, over=_OVER, triad=view.T)


def _shape(size: Floats, over: int = 1) -> tuple[tuple[int, int], float]:
    """Rows and columns for a picture of this width and height, and pixels per unit."""
    scale = _COLUMNS / max(float(size[0]), 1e-30)
    return (over * max(1, round(scale * float(size[1]))), over * _COLUMNS), over * scale


def section_canvas(
    coords: Array,
    unit: str,
    *,
    axis: str | None = None,
    position: float | None = None,
    body: Array | None = None,
    wall_distance: Array | None = None,
) -> Canvas:
    """A plane through a volume, to which the points near it are interpolated.

    How near a point must be follows from the spacing of the points around it. By default the plane
    goes through the middle of the axis of smallest extent. Where some points lie very far out, the
    picture shows the 99 % in the middle. The cut through the body is found from points of its
    surface (`body`), or from each point's distance to it (`wall_distance`).
    """
    points = np.asarray(coords, np.float64)
    if axis is None:
        extents = np.ptp(points, axis=0)
        axis = min(AXES, key=lambda name: (round(extents[AXES.index(name)], 6), -ord(name)))
    check_choice("axis", axis, AXES)
    across = AXES.index(axis)
    low, high = float(points[:, across].min()), float(points[:, across].max())
    position = (low + high) / 2 if position is None else position
    if not low <= position <= high:
        raise ValueError(f"position must lie in {low:.6g} to {high:.6g}, got {position:.6g}")
    plane = [k for k in range(3) if k != across]
    corner, size = _window(points[:, plane])
    shape, scale = _shape(size)

    def placed(these: Floats) -> Floats:
        flat = (these[:, plane] - corner) * scale
        return np.column_stack([flat, (these[:, across] - position) * scale])

    raster = _near_plane(placed(points), shape)
    grey = None
    if body is not None:
        grey = _inside(placed(np.asarray(body, np.float64)), shape, raster.covered)
    elif wall_distance is not None:
        grey = _solid(placed(points), scale * np.asarray(wall_distance, np.float64), shape)
    extent = (corner[0], corner[0] + size[0], corner[1], corner[1] + size[1])
    labels = (with_unit(AXES[plane[0]], unit), with_unit(AXES[plane[1]], unit))
    shown = with_unit(f"{axis} = {position:.3g}", "") + (f" {unit}" if unit != "1" else "")
    return Canvas(raster, grey=grey, extent=extent, labels=labels, note=f"section at {shown}")


def _window(flat: Floats) -> tuple[Floats, Floats]:
    """Lower corner and size of what is shown.

    Along an axis whose whole range is over 1.5 times that of the middle 99 %, only these are shown.
    """
    ends = np.percentile(flat, [0, 0.5, 99.5, 100], axis=0)
    cropped = (ends[3] - ends[0]) > 1.5 * (ends[2] - ends[1])
    low = np.where(cropped, ends[1], ends[0])
    return low, np.maximum(np.where(cropped, ends[2], ends[3]) - low, 1e-12)


def _near_plane(positions: Floats, shape: tuple[int, int]) -> Raster:
    """Weights of the points that reach the plane of the picture."""
    away = np.abs(positions[:, 2])
    enough = float(np.sort(away)[: _ENOUGH + 1][-1])
    candidates = np.flatnonzero(away <= max(enough, 2 * _LARGEST * shape[1]))
    radii = _reach(positions[candidates], shape)
    reaching = away[candidates] < radii
    chosen = candidates[reaching]
    if not len(chosen):
        return Raster(shape, chosen, chosen, np.zeros(0))
    raster = scatter(positions[chosen], radii[reaching], shape)
    return Raster(shape, raster.pixels, chosen[raster.points], raster.weights)


def _reach(positions: Floats, shape: tuple[int, int]) -> Floats:
    """Radii that leave no holes between random points, bounded for points far from all others."""
    radii = 1.5 * spacing(positions)
    return np.minimum(radii, max(_LARGEST * shape[1], 3 * float(np.median(radii))))


def _inside(body: Floats, shape: tuple[int, int], fluid: Mask) -> Mask:
    """The cut through a body, from its surface points: what cannot be reached from the border.

    Surface points are drawn large enough to leave no gaps in the wall. This makes the wall too
    thick by their radius on the outside, so the outside is grown by that many pixels at the end.
    """
    surface = _near_plane(body, shape)
    wall = surface.covered
    if not wall.any():
        return wall
    outside = np.zeros(shape, bool)
    outside[[0, -1]], outside[:, [0, -1]] = True, True
    outside = _flooded(outside & fluid & ~wall, wall)
    for _ in range(round(float(np.median(_reach(body[surface.shown], shape))))):
        outside[1:-1, 1:-1] |= (
            outside[:-2, 1:-1] | outside[2:, 1:-1] | outside[1:-1, :-2] | outside[1:-1, 2:]
        )
    return ~outside


def _solid(positions: Floats, distances: Floats, shape: tuple[int, int]) -> Mask:
    """The cut through a body, from the distance of each point to the wall.

    A ball around a point with its distance as radius holds fluid only; what no ball covers is
    solid. Uncovered pixels connected to the border are places without points, and not solid.
    """
    squared = distances**2 - positions[:, 2] ** 2
    cut = np.flatnonzero((squared > 0) & (distances > 0))
    fluid = np.zeros(shape, bool)
    for k in cut[np.argsort(-squared[cut])]:
        _fill_disc(fluid, positions[k, 0], positions[k, 1], math.sqrt(squared[k]))
    solid = ~fluid
    border = np.zeros(shape, bool)
    border[[0, -1]], border[:, [0, -1]] = True, True
    return solid & ~_flooded(border & solid, fluid)


def _fill_disc(mask: Mask, x: float, y: float, radius: float) -> None:
    """Set the pixels whose centres lie within a circle."""
    rows, columns = mask.shape
    top, bottom = max(0, math.floor(y - radius)), min(rows, math.ceil(y + radius))
    left, right = max(0, math.floor(x - radius)), min(columns, math.ceil(x + radius))
    if top >= bottom or left >= right or mask[top:bottom, left:right].all():
        return
    up = np.arange(top, bottom)[:, None] + 0.5 - y
    along = np.arange(left, right)[None] + 0.5 - x
    mask[top:bottom, left:right] |= up**2 + along**2 <= radius**2


def _flooded(outside: Mask, wall: Mask) -> Mask:
    """All that is reached from `outside` without crossing a wall."""
    from scipy.ndimage import label  # here: it takes 0.1 s to import

    pieces, _ = label(~wall)
    reached = np.unique(pieces[outside & ~wall])
    return outside | np.isin(pieces, reached[reached > 0])
