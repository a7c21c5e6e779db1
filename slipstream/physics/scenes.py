"""Random smooth bodies in a stream, and points around them: what all problems of flow share.

Sample k of a seed has the same bodies in the same stream in every problem with the same ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from slipstream.core.checks import check_at_least, check_choice, check_whole
from slipstream.core.runtime import generator
from slipstream.core.shapes import Float
from slipstream.physics.bodies import FAMILIES, Body, WallPoints, draw_body, place_apart, unit
from slipstream.physics.surface import SurfacePoints, draw_on_surface
from slipstream.physics.triangles import TriangleMesh, signed_distance


class Quantity(NamedTuple):
    name: str
    unit: str
    components: int
    computed: Literal["normals", "distance"] | None = None
    """What it was computed as from the shape of the bodies."""


class FlowColumns(NamedTuple):
    """The columns of coords, features and targets, in order."""

    coords: tuple[Quantity, ...]
    features: tuple[Quantity, ...]
    targets: tuple[Quantity, ...]


POSITION = Quantity("position", "m", 3)
NORMAL = Quantity("normal", "1", 3, "normals")
DISTANCE = Quantity("signed_distance", "m", 1, "distance")
FREESTREAM = Quantity("freestream", "m/s", 3)
VELOCITY = Quantity("velocity", "m/s", 3)


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """Which samples there may be; all draws are uniform within the ranges."""

    points: int = 4096
    panels: int
    """The most panels of a sample, shared by its bodies; each gets 20 n^2 of them."""
    bodies: tuple[int, int] = (1, 2)
    """Fewest and most bodies: 1 or 2."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Shapes a body is drawn from, each as likely as the others."""
    amplitude: float = 0.1
    """Root mean square of the logarithm of a body's radius over that of its ellipsoid."""
    gap: tuple[float, float] = (0.3, 1.0)
    """Thickness of the slab between two bodies, in metres."""
    inflow: str = "fixed"
    """`fixed`: along x at the lower speed. `varying`: direction and speed drawn."""
    cone: float = 15.0
    """Largest angle, in degrees, between a varying inflow and the x axis."""
    speed: tuple[float, float] = (1.0, 1.0)
    """In m/s."""
    near: float = 0.5
    """Share of the volume points drawn along normals of the wall, at distances whose logarithm is
    uniform; the others fill a box round the bodies."""
    clearance: float = 0.03
    """Least distance of a volume point from the panels, in metres: half a panel, within which the
    field of flat panels is rough."""
    reach: float = 1.5
    """Largest distance of a point near the wall, and margin of the box, in metres."""

    def __post_init__(self) -> None:
        check_whole("points", self.points, 1)
        for name in ("bodies", "gap", "speed"):
            low, high = getattr(self, name)
            if not low <= high:
                raise ValueError(f"{name} must be a range (low, high), got ({low}, {high})")
        if not set(self.bodies) <= {1, 2}:
            raise ValueError(f"bodies must be 1 or 2, got {self.bodies}")
        check_whole("panels", self.panels, 80 * self.bodies[1])
        if not self.families:
            raise ValueError(f"families must name at least one of {', '.join(FAMILIES)}, got none")
        for family in self.families:
            check_choice("families", family, FAMILIES)
        check_choice("inflow", self.inflow, ("fixed", "varying"))
        check_at_least("amplitude", self.amplitude, 0)
        if not (0 <= self.cone <= 180 and 0 <= self.near <= 1):
            raise ValueError(
                "cone must lie in [0, 180] degrees and near in [0, 1],"
                f" got {self.cone} and {self.near}"
            )
        if not (0 < self.clearance < self.reach and self.speed[0] > 0 and self.gap[0] > 0):
            raise ValueError(
                "clearance, speed and gap must be positive and clearance below reach, got clearance"
                f" {self.clearance}, reach {self.reach}, speed {self.speed}, gap {self.gap}"
            )


@dataclass(frozen=True, eq=False)
class Sample:
    """N points, float32; columns as a problem's `COLUMNS` name them."""

    coords: Float[Tensor, "N 3"]
    features: Float[Tensor, "N C"]
    targets: Float[Tensor, "N 4"]


def frequency_for(panels: int, bodies: int) -> int:
    """The frequency of the finest meshes with at most `panels` panels on all bodies together."""
    return math.isqrt(panels // (20 * bodies))


def draw_scene(config: Scenes, *, seed: int, sample: int) -> tuple[tuple[Body, ...], Tensor]:
    """The bodies and the freestream (3) of a sample, on the CPU."""
    draw = generator(seed, "potential-flow", sample)
    number = int(torch.randint(config.bodies[0], config.bodies[1] + 1, (), generator=draw))
    picks = torch.randint(len(config.families), (number,), generator=draw).tolist()
    bodies = tuple(draw_body(config.families[k], config.amplitude, draw) for k in picks)
    numbers = torch.rand(4, generator=draw, dtype=torch.float64)
    freestream = _inflow(config, numbers)
    if number == 2:
        share = float(torch.rand((), generator=draw, dtype=torch.float64))
        direction = unit(torch.randn(3, generator=draw, dtype=torch.float64))
        gap = config.gap[0] + (config.gap[1] - config.gap[0]) * share
        bodies = place_apart(*bodies, gap=gap, direction=direction)
    return bodies, freestream


def _inflow(config: Scenes, numbers: Tensor) -> Tensor:
    low, high = config.speed
    if config.inflow == "fixed":
        return torch.tensor((low, 0.0, 0.0), dtype=torch.float64)
    tilt = 1 - numbers[0] * (1 - math.cos(math.radians(config.cone)))  # even over the cap
    turn = 2 * math.pi * numbers[1]
    across = (1 - tilt.square()).clamp(min=0).sqrt()
    direction = torch.stack((tilt, across * turn.cos(), across * turn.sin()))
    return direction * (low + (high - low) * numbers[2])


@dataclass(frozen=True, eq=False)
class Walls:
    """Bodies and their joint mesh, in which each has as many panels as any other."""

    bodies: tuple[Body, ...]
    frequency: int
    mesh: TriangleMesh


class OnBody(NamedTuple):
    """Those of some points that lie on one body."""

    rows: Tensor
    """Which of the points."""
    wall: WallPoints
    face: Tensor
    """The panel of each, counted from the first one of the body."""
    panels: slice
    """The panels of the body."""


def each_body(walls: Walls, at: SurfacePoints) -> Iterator[OnBody]:
    """The points on each of the bodies."""
    count = len(walls.mesh.faces) // len(walls.bodies)
    for k, body in enumerate(walls.bodies):
        (rows,) = torch.where(at.face // count == k)
        panels = slice(k * count, (k + 1) * count)
        yield OnBody(rows, body.at(at.directions[rows]), at.face[rows] % count, panels)


def draw_volume(config: Scenes, walls: Walls, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points (N, 3) at least the clearance away from the bodies, and their signed distances (N).

    Points inside or too near are rejected, and as many as are missing are drawn again.
    """
    low = walls.mesh.vertices.amin(0) - config.reach
    size = walls.mesh.vertices.amax(0) + config.reach - low
    points, distances, missing = [], [], config.points
    while missing > 0:
        number = missing + missing // 4 + 16
        numbers = torch.rand(number, 8, generator=draw, dtype=torch.float64).to(low.device)
        near = _off_the_wall(config, walls, numbers[:, :4])
        x = torch.where(numbers[:, 4:5] < config.near, near, low + size * numbers[:, 5:])
        distance = signed_distance(walls.mesh, x)
        keep = distance >= config.clearance
        points.append(x[keep][:missing])
        distances.append(distance[keep][:missing])
        missing -= len(points[-1])
    return torch.cat(points), torch.cat(distances)


def _off_the_wall(config: Scenes, walls: Walls, numbers: Tensor) -> Tensor:
    """Points at random heights along the panel normals, above random points of the walls."""
    at = draw_on_surface(walls.mesh, walls.frequency, numbers[:, :3])
    foot = torch.empty_like(at.directions)
    for on in each_body(walls, at):
        foot[on.rows] = on.wall.positions
    ratio = config.reach / config.clearance
    height = config.clearance * ratio ** numbers[:, 3:]
    return foot + height * walls.mesh.normals[at.face]
