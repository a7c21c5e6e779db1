"""Points drawn on smooth bodies; values at the panels' centroids and their gradients, at points.

A drawn point has the position and the normal of the smooth body, not of its panel. Values and
gradients are those of a quadratic polynomial fitted to the twelve nearest centroids, in the tangent
plane of the parameter sphere, so that the fits depend on the mesh frequency only and are computed
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.physics.bodies import Body, WallPoints, icosphere, unit
from slipstream.physics.triangles import TriangleMesh

_NEIGHBOURS = 12  # a triangle and those that share a corner with it: twice the unknowns
_POWERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


@dataclass(frozen=True, eq=False)
class SurfacePoints:
    face: Tensor
    """(P): the panel each point was drawn on."""
    directions: Float[Tensor, "P 3"]
    """Unit vectors: the points of the parameter sphere."""


@dataclass(frozen=True, eq=False)
class Fits:
    """The linear maps from values to the polynomial at each of the F centroids of an icosphere."""

    neighbours: Tensor
    """(F, 12): the centroids it is fitted to."""
    centres: Float[Tensor, "F 3"]
    frames: Float[Tensor, "F 2 3"]
    """Two unit vectors that span the tangent plane."""
    solvers: Float[Tensor, "F 6 12"]
    """Matrices from the values at the neighbours to the coefficients."""


def draw_on_surface(mesh: TriangleMesh, frequency: int, numbers: Tensor) -> SurfacePoints:
    """Points spread evenly over the area, one for each of `numbers` (P, 3), drawn from [0, 1).

    `mesh` joins the meshes of one or more bodies, all of this frequency.
    """
    # On the CPU: a GPU's cumulative sum of floats depends on the order in which its blocks finish.
    total = mesh.areas.cpu().cumsum(0).to(mesh.areas.device)
    face = torch.searchsorted(total, numbers[:, 0] * total[-1], right=True)
    face = face.clamp(max=len(mesh.faces) - 1)
    root = numbers[:, 1].sqrt()
    shares = torch.stack((1 - root, root * (1 - numbers[:, 2]), root * numbers[:, 2]), -1)
    unit_mesh = icosphere(frequency, numbers.device)
    corners = unit_mesh.corners[face % len(unit_mesh.faces)]
    return SurfacePoints(face, unit((shares[..., None] * corners).sum(1)))


def fitted_mesh(body: Body, frequency: int) -> TriangleMesh:
    """The body's mesh with its vertices moved along the normals, so that the mean distance between
    panels and body is zero to second order.

    A mesh whose vertices lie on a convex body is smaller than it: Stokes' drag of a sphere is
    0.8 % too small with 500 panels, and 0.1 % on the fitted mesh (both by collocation).
    """
    mesh, sphere = body.mesh(frequency), icosphere(frequency, body.axes.device)
    middles = unit((sphere.corners + sphere.corners.roll(-1, 1)).flatten(0, 1))
    offsets = body.at(middles).positions.view(-1, 3, 3) - mesh.centroids[:, None]
    # The mean over the middles of the edges is that of a quadratic function over the triangle.
    heights = (offsets * mesh.normals[:, None]).sum(-1).mean(1)
    moves = torch.stack((heights * mesh.areas, mesh.areas), -1)
    sums = moves.new_zeros(len(mesh.vertices), 2)
    for k in range(3):
        sums.index_add_(0, mesh.faces[:, k], moves)
    normals = body.at(sphere.vertices).normals
    return TriangleMesh(mesh.vertices + sums[:, :1] / sums[:, 1:] * normals, mesh.faces)


def surface_values(
    wall: WallPoints, face: Tensor, values: Float[Tensor, "F C"], *, frequency: int
) -> Float[Tensor, "P C"]:
    """Values given at the centroids of a body, at points on its panels `face` (P)."""
    fits = surface_fits(frequency, values.device)
    coefficients = (fits.solvers @ values[fits.neighbours])[face]
    x, y, _ = _offsets(wall, face, fits)
    terms = torch.stack([x**i * y**j for i, j in _POWERS], -1)
    return (terms[:, None] @ coefficients)[:, 0]


def surface_gradient(
    wall: WallPoints, face: Tensor, values: Float[Tensor, " F"], *, frequency: int
) -> Float[Tensor, "P 3"]:
    """Gradient along the smooth body of values given at its centroids, at points on its panels
    `face` (P)."""
    fits = surface_fits(frequency, values.device)
    coefficients = (fits.solvers @ values[fits.neighbours][..., None])[face, :, 0]
    frame, centre = fits.frames[face], fits.centres[face]
    x, y, z = _offsets(wall, face, fits)
    _, c_x, c_y, c_xx, c_xy, c_yy = coefficients.unbind(-1)  # in the order of _POWERS
    by_x = c_x + 2 * c_xx * x + c_xy * y
    by_y = c_y + c_xy * x + 2 * c_yy * y
    # On the sphere s = z centre + x frame_0 + y frame_1 with z = sqrt(1 - x^2 - y^2).
    along_x = wall.tangents(frame[:, 0] - (x / z)[:, None] * centre)
    along_y = wall.tangents(frame[:, 1] - (y / z)[:, None] * centre)
    normal = torch.linalg.cross(along_x, along_y)
    rise = by_x[:, None] * torch.linalg.cross(along_y, normal)
    rise = rise + by_y[:, None] * torch.linalg.cross(normal, along_x)
    return rise / normal.square().sum(-1, keepdim=True)


def _offsets(wall: WallPoints, face: Tensor, fits: Fits) -> tuple[Tensor, Tensor, Tensor]:
    """The points on the parameter sphere in the frames of their panels: along the two tangents and
    the normal."""
    frame, centre = fits.frames[face], fits.centres[face]
    x, y = (frame @ (wall.directions - centre)[..., None])[..., 0].unbind(-1)
    return x, y, (wall.directions * centre).sum(-1)


def _nearest(points: Float[Tensor, "F 3"], number: int) -> Tensor:
    """(F, number): each point and those nearest to it; of equally near ones the first.

    An icosphere has many equal distances. If rounding decided between them, the neighbours, and
    with them the fits, would differ from machine to machine.
    """
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    some = min(2 * number, len(points))
    near = distances.topk(some, largest=False).indices.sort(1).values
    near_distances = distances.gather(1, near)
    rounded = (near_distances / near_distances.amax() * 1e6).round()
    order = rounded.argsort(dim=1, stable=True)[:, :number]
    return near.gather(1, order)


@cache
def surface_fits(frequency: int, device: torch.device) -> Fits:
    """Weighted least squares, in which nearer centroids have larger weights."""
    sphere = icosphere(frequency)
    centres = unit(sphere.centroids)
    neighbours = _nearest(centres, _NEIGHBOURS)
    least = torch.eye(3, dtype=centres.dtype)[centres.abs().argmin(1)]
    first = unit(torch.linalg.cross(centres, least))
    frames = torch.stack((first, torch.linalg.cross(centres, first)), 1)
    offsets = (centres[neighbours] - centres[:, None]) @ frames.mT
    squared = offsets.square().sum(-1)
    weights = (-1.5 * squared / squared.amax(1, keepdim=True)).exp()
    x, y = offsets.unbind(-1)
    terms = torch.stack([x**i * y**j for i, j in _POWERS], -1)
    scale = terms.abs().amax(1, keepdim=True)  # else pinv would drop the small squares
    solvers = torch.linalg.pinv(terms / scale * weights[..., None]) * weights[:, None] / scale.mT
    return Fits(*(part.to(device) for part in (neighbours, centres, frames, solvers)))
