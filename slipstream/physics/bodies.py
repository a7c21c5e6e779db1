"""Random smooth closed bodies, and their triangle meshes.

A body is the sphere of unit vectors s mapped to centre + A s exp(p(s)): A stretches along the axes,
p is a sum of real spherical harmonics of degrees 1 to 3. Every ray from the centre meets it once,
so it cannot meet itself. Its outward normal is along A^-1 (s - g), g the gradient of p on the
sphere.

Bodies and spheres are computed by sums in a fixed order, not by matrix products: the products of a
CPU's library may differ in the last digit from one process to the next (seen with sixteen threads).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, permutations, product

import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_shape, check_whole
from slipstream.core.shapes import Float
from slipstream.physics.triangles import TriangleMesh

FAMILIES: dict[str, tuple[tuple[float, float], ...]] = {
    "blunt": ((0.5, 0.7), (0.5, 0.7), (0.5, 0.7)),
    "slender": ((0.9, 1.1), (0.2, 0.3), (0.2, 0.3)),
    "car": ((0.9, 1.1), (0.38, 0.48), (0.28, 0.36)),
    "wing": ((0.4, 0.55), (0.9, 1.1), (0.1, 0.14)),
}
"""Ranges of the semi-axes: along the stream, across it, upwards. Lengths are in metres."""
MODES = 15
"""Real spherical harmonics of degrees 1 to 3."""
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Body:
    axes: Float[Tensor, " 3"]
    modes: Float[Tensor, " 15"]
    """Factors of `harmonics`; all zero is an ellipsoid."""
    centre: Float[Tensor, " 3"]

    def __post_init__(self) -> None:
        check_shape("axes", self.axes, "3", (3,))
        if not (self.axes > 0).all():
            raise ValueError(f"axes must be positive, got {self.axes.tolist()}")

    def at(self, directions: Float[Tensor, "P 3"]) -> WallPoints:
        """The points of the body that belong to unit vectors."""
        return WallPoints(self, directions)

    def mesh(self, frequency: int) -> TriangleMesh:
        """The body's points at the vertices of an icosphere; 20 frequency^2 panels."""
        sphere = icosphere(frequency, self.axes.device)
        return TriangleMesh(self.at(sphere.vertices).positions, sphere.faces)

    def moved(self, offset: Tensor) -> Body:
        return Body(self.axes, self.modes, self.centre + offset)

    def to(self, device: torch.device | str) -> Body:
        return Body(self.axes.to(device), self.modes.to(device), self.centre.to(device))


@dataclass(frozen=True, eq=False)
class WallPoints:
    """Points of a smooth body; what several properties need is computed once."""

    body: Body
    directions: Float[Tensor, "P 3"]
    """Unit vectors."""

    @cached_property
    def positions(self) -> Float[Tensor, "P 3"]:
        return self.body.centre + self.body.axes * self.directions * self._radius

    @cached_property
    def normals(self) -> Float[Tensor, "P 3"]:
        """Outward unit normals of the body."""
        slope, s = self._slope, self.directions
        return unit((s - (slope - (slope * s).sum(-1, keepdim=True) * s)) / self.body.axes)

    def tangents(self, along: Float[Tensor, "P 3"]) -> Float[Tensor, "P 3"]:
        """Derivatives of `positions` when the unit vectors change along these tangents."""
        growth = (self._slope * along).sum(-1, keepdim=True)
        return self.body.axes * (along + self.directions * growth) * self._radius

    @cached_property
    def _radius(self) -> Float[Tensor, "P 1"]:
        return (self._powers * self._polynomial).sum(-1, keepdim=True).exp()

    @cached_property
    def _slope(self) -> Float[Tensor, "P 3"]:
        """Gradient of the radius's logarithm, taken as a polynomial of vectors of any length."""
        _, first, second, third = self._polynomial.split((1, 3, 9, 27))
        of_squares = self._powers[:, 4:13] @ third.view(9, 3)
        return first + 2 * self.directions @ second.view(3, 3) + 3 * of_squares

    @cached_property
    def _polynomial(self) -> Float[Tensor, " 40"]:
        """The factors of `powers` whose sum is the radius's logarithm."""
        return (_harmonic_terms(self.directions.device) * self.body.modes).sum(-1)

    @cached_property
    def _powers(self) -> Float[Tensor, "P 40"]:
        return powers(self.directions)


def ellipsoid(axes: Sequence[float], centre: Sequence[float] = (0.0, 0.0, 0.0)) -> Body:
    double = torch.float64
    middle = torch.tensor(centre, dtype=double)
    return Body(torch.tensor(axes, dtype=double), torch.zeros(MODES, dtype=double), middle)


def sphere(radius: float = 1.0, centre: Sequence[float] = (0.0, 0.0, 0.0)) -> Body:
    return ellipsoid((radius,) * 3, centre)


def draw_body(family: str, amplitude: float, draw: torch.Generator) -> Body:
    """A body around the origin. The logarithm of its radius over that of its ellipsoid has a root
    mean square near `amplitude`."""
    check_choice("family", family, FAMILIES)
    low, high = torch.tensor(FAMILIES[family], dtype=torch.float64).unbind(1)
    axes = low + (high - low) * torch.rand(3, generator=draw, dtype=torch.float64)
    modes = torch.randn(MODES, generator=draw, dtype=torch.float64)
    return Body(axes, modes * amplitude / math.sqrt(MODES), torch.zeros_like(axes))


def place_apart(first: Body, second: Body, *, gap: float, direction: Tensor) -> tuple[Body, Body]:
    """The two bodies, moved apart along a unit vector until a slab of thickness `gap` lies between
    them, with the origin in the middle.

    Raises ValueError where the bodies are so rough that on a mesh twice as fine the slab is thinner
    by a tenth.
    """
    offset = (gap - slab_between(first, second, direction, 12)) * direction
    placed = first.moved(-offset / 2), second.moved(offset / 2)
    thickness = float(slab_between(*placed, direction, 24))
    if thickness < 0.9 * gap:
        raise ValueError(f"bodies must lie {gap:.3g} apart, got {thickness:.3g} after a finer look")
    return placed


def slab_between(first: Body, second: Body, direction: Tensor, frequency: int) -> Tensor:
    """Thickness of the slab, normal to a unit vector, with the first body behind and the second in
    front of it; negative where there is none. Measured at the vertices of an icosphere."""
    s = icosphere(frequency, direction.device).vertices
    ahead, behind = ((body.at(s).positions * direction).sum(-1) for body in (second, first))
    return ahead.min() - behind.max()


def harmonics(s: Float[Tensor, "P 3"]) -> Float[Tensor, "P 15"]:
    """Real spherical harmonics of degrees 1 to 3 of unit vectors, each with mean square 1."""
    return powers(s) @ _harmonic_terms(s.device)


_ROOT = math.sqrt
_HARMONICS: tuple[dict[str, float], ...] = (
    *({axis: _ROOT(3)} for axis in "xyz"),
    *({term: _ROOT(15)} for term in ("xy", "yz", "zx")),
    {"xx": _ROOT(15) / 2, "yy": -_ROOT(15) / 2},
    {"zz": _ROOT(5) * 3 / 2, "": -_ROOT(5) / 2},
    {"xyz": _ROOT(105)},
    {"zxx": _ROOT(105) / 2, "zyy": -_ROOT(105) / 2},
    {"yxx": 3 * _ROOT(35 / 8), "yyy": -_ROOT(35 / 8)},
    {"xxx": _ROOT(35 / 8), "xyy": -3 * _ROOT(35 / 8)},
    {"xzz": 5 * _ROOT(21 / 8), "x": -_ROOT(21 / 8)},
    {"yzz": 5 * _ROOT(21 / 8), "y": -_ROOT(21 / 8)},
    {"zzz": 5 * _ROOT(7) / 2, "z": -3 * _ROOT(7) / 2},
)
"""Each harmonic as factors of products of coordinates: "xy" is x times y, "" the constant 1."""


def powers(s: Float[Tensor, "P 3"]) -> Float[Tensor, "P 40"]:
    """1, s, and all products of two and three coordinates: any cubic polynomial is then one sum."""
    second = (s[:, :, None] * s[:, None]).flatten(1)
    third = (second[:, :, None] * s[:, None]).flatten(1)
    return torch.cat((torch.ones_like(s[:, :1]), s, second, third), 1)


@cache
def _harmonic_terms(device: torch.device) -> Float[Tensor, "40 15"]:
    """`_HARMONICS` as factors of `powers`.

    `powers` has xy and yx, each of which gets half of the factor of "xy".
    """
    names = ("".join(axes) for degree in range(4) for axes in product("xyz", repeat=degree))
    rows = {name: row for row, name in enumerate(names)}
    terms = torch.zeros(len(rows), len(_HARMONICS), dtype=torch.float64)
    for column, harmonic in enumerate(_HARMONICS):
        for name, factor in harmonic.items():
            orders = ["".join(order) for order in permutations(name)]
            for order in orders:
                terms[rows[order], column] += factor / len(orders)
    return terms.to(device)


@cache
def icosphere(frequency: int, device: torch.device = _CPU) -> TriangleMesh:
    """The icosahedron, each face cut into frequency^2 triangles, projected onto the unit sphere."""
    check_whole("frequency", frequency, 1)
    if device != _CPU:
        return icosphere(frequency).to(device)  # always made on the CPU, so that devices agree
    vertices, faces = _icosahedron()
    # Each face gets its own lattice; lattice points on common edges are merged below.
    inner = [(i, j) for i in range(frequency + 1) for j in range(frequency + 1 - i)]
    number = {pair: k for k, pair in enumerate(inner)}
    shares = torch.tensor([(frequency - i - j, i, j) for i, j in inner], dtype=torch.float64)
    up = [(number[i, j], number[i + 1, j], number[i, j + 1]) for i, j in inner if i + j < frequency]
    down = [
        (number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i, j in inner
        if i + j < frequency - 1
    ]
    # Not as a matrix product: with fused multiply-adds the points of a common edge would differ in
    # their last digits between the two faces, and threads would decide which of the two is kept.
    corners = vertices[faces][:, None]
    lattice = (corners * (shares / frequency)[:, :, None]).sum(2)  # (20, lattice points, 3)
    cells = torch.tensor(up + down) + len(inner) * torch.arange(20)[:, None, None]
    points = lattice.flatten(0, 1)
    grid = (points * (1 << 20)).round().long()
    _, label = torch.unique(grid, dim=0, return_inverse=True)
    merged = points.new_zeros(int(label.max()) + 1, 3)
    merged[label] = points
    return TriangleMesh(unit(merged), label[cells.flatten(0, 1)])


def _icosahedron() -> tuple[Tensor, Tensor]:
    golden = (1 + math.sqrt(5)) / 2
    corners = [(0, y, z) for y in (1, -1) for z in (golden, -golden)]
    corner = torch.tensor(corners, dtype=torch.float64)
    vertices = torch.cat([corner.roll(shift, 1) for shift in range(3)])
    near = torch.cdist(vertices, vertices) < 2.1  # edges have length 2
    triples = combinations(range(12), 3)
    faces = torch.tensor([t for t in triples if all(near[pair] for pair in combinations(t, 2))])
    a, b, c = vertices[faces].unbind(1)
    inward = (torch.linalg.cross(b - a, c - a) * a).sum(-1) < 0
    faces[inward] = faces[inward].flip(1)
    return vertices, faces


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)
