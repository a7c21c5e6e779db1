"""Random smooth closed bodies, and their triangle meshes.

A body is the sphere of unit vectors s mapped to centre + A s exp(p(s)): A stretches along the axes,
p is a sum of real spherical harmonics of degrees 1 to 3. Every ray from the centre meets it once,
so it cannot meet itself. Its outward normal is along A^-1 (s - g), g the gradient of p on the
sphere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_shape, check_whole
from slipstream.core.shapes import Float
from slipstream.physics.triangles import TriangleMesh, distance, winding_number

FAMILIES: dict[str, tuple[tuple[float, float], ...]] = {
    "blunt": ((0.5, 0.7), (0.5, 0.7), (0.5, 0.7)),
    "slender": ((0.9, 1.1), (0.2, 0.3), (0.2, 0.3)),
    "car": ((0.9, 1.1), (0.38, 0.48), (0.28, 0.36)),
    "wing": ((0.4, 0.55), (0.9, 1.1), (0.1, 0.14)),
}
"""Ranges of the semi-axes: along the stream, across it, upwards. Lengths are in metres."""
MODES = 15
"""Real spherical harmonics of degrees 1 to 3."""


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

    def positions(self, directions: Float[Tensor, "P 3"]) -> Float[Tensor, "P 3"]:
        """The points of the body that belong to unit vectors."""
        radius = (harmonics(directions) @ self.modes).exp()
        return self.centre + self.axes * directions * radius[:, None]

    def normals(self, directions: Float[Tensor, "P 3"]) -> Float[Tensor, "P 3"]:
        """Outward unit normals of the body there."""
        slope = self._slope(directions)
        tangential = slope - (slope * directions).sum(-1, keepdim=True) * directions
        return unit((directions - tangential) / self.axes)

    def tangents(self, directions: Float[Tensor, "P 3"], along: Float[Tensor, "P 3"]) -> Tensor:
        """Derivatives of `positions` when the unit vectors change `along` tangents of theirs."""
        radius = (harmonics(directions) @ self.modes).exp()[:, None]
        growth = (self._slope(directions) * along).sum(-1, keepdim=True)
        return self.axes * (along + directions * growth) * radius

    def _slope(self, directions: Tensor) -> Tensor:
        with torch.enable_grad():
            s = directions.detach().requires_grad_()
            (slope,) = torch.autograd.grad((harmonics(s) @ self.modes).sum(), s)
        return slope

    def mesh(self, frequency: int) -> TriangleMesh:
        """The body's positions at the vertices of an icosphere; 20 frequency^2 panels."""
        sphere = icosphere(frequency)
        at = sphere.vertices.to(self.axes.device)
        return TriangleMesh(self.positions(at), sphere.faces.to(at.device))

    def moved(self, offset: Tensor) -> Body:
        return Body(self.axes, self.modes, self.centre + offset)

    def to(self, device: torch.device | str) -> Body:
        return Body(self.axes.to(device), self.modes.to(device), self.centre.to(device))


def ellipsoid(axes: Sequence[float], centre: Sequence[float] = (0.0, 0.0, 0.0)) -> Body:
    double = torch.float64
    middle = torch.tensor(centre, dtype=double)
    return Body(torch.tensor(axes, dtype=double), torch.zeros(MODES, dtype=double), middle)


def sphere(radius: float = 1.0, centre: Sequence[float] = (0.0, 0.0, 0.0)) -> Body:
    return ellipsoid((radius,) * 3, centre)


def draw_body(family: str, amplitude: float, draw: torch.Generator) -> Body:
    """A body round the origin whose logarithmic radius factor has a root mean square near
    `amplitude`."""
    check_choice("family", family, FAMILIES)
    low, high = torch.tensor(FAMILIES[family], dtype=torch.float64).unbind(1)
    axes = low + (high - low) * torch.rand(3, generator=draw, dtype=torch.float64)
    modes = torch.randn(MODES, generator=draw, dtype=torch.float64)
    return Body(axes, modes * amplitude / math.sqrt(MODES), torch.zeros_like(axes))


def place_apart(first: Body, second: Body, *, gap: float, direction: Tensor) -> tuple[Body, Body]:
    """The two, moved apart along a unit vector until a slab of this thickness lies between them,
    and their middle put at the origin."""
    frequency = 12
    near = (first.mesh(frequency).vertices @ direction).max()
    far = (second.mesh(frequency).vertices @ direction).min()
    offset = (near - far + gap) * direction
    return first.moved(-offset / 2), second.moved(offset / 2)


def check_apart(meshes: Sequence[TriangleMesh], gap: float) -> None:
    """Raise unless all bodies lie outside one another, every vertex at least `gap` away."""
    for (i, one), (j, other) in combinations(enumerate(meshes), 2):
        for mesh, vertices in ((one, other.vertices), (other, one.vertices)):
            least = float(distance(mesh, vertices).min())
            if least < gap or (winding_number(mesh, vertices) > 0.5).any():
                raise ValueError(
                    f"bodies must lie at least {gap} apart, got bodies {i} and {j} that overlap"
                    f" or have vertices {least:.3g} away"
                )


def harmonics(s: Float[Tensor, "P 3"]) -> Float[Tensor, "P 15"]:
    """Real spherical harmonics of degrees 1 to 3 of unit vectors, each with mean square 1."""
    x, y, z = s.unbind(-1)
    root = math.sqrt
    second = (x * y, y * z, z * x, (x * x - y * y) / 2)
    third = (root(21 / 8) * x, root(21 / 8) * y)
    return torch.stack(
        (
            *(root(3) * axis for axis in (x, y, z)),
            *(root(15) * term for term in second),
            root(5) / 2 * (3 * z * z - 1),
            root(105) * x * y * z,
            root(105) / 2 * z * (x * x - y * y),
            root(35 / 8) * y * (3 * x * x - y * y),
            root(35 / 8) * x * (x * x - 3 * y * y),
            *(term * (5 * z * z - 1) for term in third),
            root(7) / 2 * z * (5 * z * z - 3),
        ),
        -1,
    )


@cache
def icosphere(frequency: int) -> TriangleMesh:
    """The icosahedron, every face cut into frequency^2 triangles, projected on the unit sphere."""
    check_whole("frequency", frequency, 1)
    vertices, faces = _icosahedron()
    # Each face gets its own lattice; lattice points on common edges are then made one.
    inner = [(i, j) for i in range(frequency + 1) for j in range(frequency + 1 - i)]
    number = {pair: k for k, pair in enumerate(inner)}
    shares = torch.tensor([(frequency - i - j, i, j) for i, j in inner], dtype=torch.float64)
    up = [(number[i, j], number[i + 1, j], number[i, j + 1]) for i, j in inner if i + j < frequency]
    down = [
        (number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i, j in inner
        if i + j < frequency - 1
    ]
    lattice = (shares / frequency) @ vertices[faces]  # (20, lattice points, 3)
    cells = torch.tensor(up + down) + len(inner) * torch.arange(20)[:, None, None]
    points = lattice.flatten(0, 1)
    grid = (points * (1 << 20)).round().long()
    _, label = torch.unique(grid, dim=0, return_inverse=True)
    merged = points.new_zeros(int(label.max()) + 1, 3)
    merged[label] = points
    return TriangleMesh(unit(merged), label[cells.flatten(0, 1)])


def _icosahedron() -> tuple[Tensor, Tensor]:
    golden = (1 + math.sqrt(5)) / 2
    corner = torch.tensor([(0, y, z) for y in (1, -1) for z in (golden, -golden)]).double()
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
