"""Stokeslets of constant strength on flat triangles: their velocity and pressure, in closed form.

A force f per area on panel j of a fluid of viscosity mu moves it at x by K_j(x) f / (8 pi mu), with
K_j = integral over the panel of (I / r + r r^T / r^3) dA(y), r = x - y. Like the integrals of
`panels.py` it is exact at every distance, on the panel itself too: with the height h of x above the
panel, its solid angle A, and for each edge the outward normal v in the plane, the unit vector t
along it, the distance d of the edge from the foot of x along v, L the integral of 1 / r along the
edge and r1, r2 the distances of x from its ends,

    K = sum over edges (L d (I + t t^T) + L h (n v^T + v n^T) + (r1 - r2) t v^T) - 2 h A (I - n n^T)

which follows from the divergence theorem in the plane, as r_i r_j / r^3 = r_i d(1 / r) / dy_j. The
pressure at x is f . (n A + sum over edges of v L) / (4 pi).

`stokeslet_matrix` averages K over three points of the panel that receives: the integral over both
panels, by a rule that is exact for quadratic functions. Where velocity is prescribed at the
centroids only, the same number of panels has errors several times as large (980 panels, ellipsoid
of ratio 1 : 4 along its axis: 4.7 % instead of 0.7 % in the pressure, 0.06 % instead of 0.003 % in
the drag; 19 November 2026).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from slipstream.core.checks import check_shape
from slipstream.core.shapes import Float
from slipstream.physics.panels import edge_normals, panel_integrals
from slipstream.physics.triangles import TriangleMesh, blocks, heights, vertex_distances

_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Components of a symmetric tensor."""
_RULE = torch.tensor(((4.0, 1, 1), (1, 4, 1), (1, 1, 4)), dtype=torch.float64) / 6
"""Three points of a triangle, as shares of its corners: their mean integrates quadratics."""


def stokeslet_matrix(mesh: TriangleMesh) -> Float[Tensor, "N N"]:
    """The integral over panel i of the velocity of a unit force per area on panel j, times
    8 pi mu; N = 3 F, row c F + i for component c on panel i, columns alike.

    Symmetric, as it is over both panels: the rest of the rule's error is taken out by the mean with
    the transpose. Forces along the normals of a closed body move nothing.
    """
    count = len(mesh.faces)
    matrix = mesh.vertices.new_empty(3, count, 3, count)
    factors = _factors(mesh)
    receivers = (_RULE.to(mesh.vertices) @ mesh.corners).flatten(0, 1)
    for part in blocks(receivers, mesh):
        panels = slice(-(-part.start // 3), -(-part.stop // 3))
        here = _averaged(mesh, receivers[3 * panels.start : 3 * panels.stop])
        for pair, (a, b) in enumerate(_PAIRS):
            plane = sum_of_products(here, factors[pair])
            matrix[a, panels, b] = plane.mul_(mesh.areas[panels, None])
    for a, b in _PAIRS:
        plane = matrix[a, :, b]
        plane = (plane + plane.T).div_(2)
        matrix[a, :, b] = matrix[b, :, a] = plane
    return matrix.view(3 * count, 3 * count)


def sum_of_products(planes: Float[Tensor, "K P F"], factors: Float[Tensor, "K F"]) -> Tensor:
    """The sum over k of planes times factors, (P, F)."""
    total = planes[0] * factors[0]
    for plane, factor in zip(planes[1:], factors[1:], strict=True):
        total.addcmul_(plane, factor)
    return total


def _averaged(mesh: TriangleMesh, receivers: Tensor) -> Float[Tensor, "10 P F"]:
    """What K is made of, averaged over the three points of each receiving panel: L d and L h of the
    three edges, r1 - r2 of them, and the height times the solid angle."""
    edges, angles = panel_integrals(mesh, receivers)
    height = heights(mesh, receivers)
    outward = edge_normals(mesh)
    planes = edges.new_empty(10, len(receivers) // 3, len(mesh.faces))
    for k in range(3):
        along = edges[:, mesh.face_edges[:, k]]
        away = (mesh.corners[:, k] * outward[:, k]).sum(-1) - receivers @ outward[:, k].T
        planes[k] = _mean(away.mul_(along))
        planes[3 + k] = _mean(along.mul_(height))
    distance = _mean(vertex_distances(mesh, receivers))
    for k in range(3):
        start, end = mesh.faces[:, k], mesh.faces[:, (k + 1) % 3]
        planes[6 + k] = distance[:, start] - distance[:, end]
    planes[9] = _mean(angles.mul_(height))
    return planes


def _mean(values: Tensor) -> Tensor:
    return values.view(-1, 3, values.shape[1]).mean(1)


def _factors(mesh: TriangleMesh) -> Float[Tensor, "6 10 F"]:
    """The tensors that the planes of `_averaged` are multiplied by, for each of `_PAIRS`."""
    frame = _frame(mesh)
    unit, n = torch.eye(3).to(mesh.vertices), mesh.normals
    tensors = [unit + _product(frame.along[:, k], frame.along[:, k]) for k in range(3)]
    tensors += [2 * _product(n, frame.outward[:, k]) for k in range(3)]
    tensors += [_product(frame.along[:, k], frame.outward[:, k]) for k in range(3)]
    tensors.append(-2 * (unit - _product(n, n)))
    return torch.stack([torch.stack([t[:, a, b] for t in tensors]) for a, b in _PAIRS])


class _Frame(NamedTuple):
    along: Float[Tensor, "F 3 3"]
    """Unit vectors along the three edges of each panel."""
    outward: Float[Tensor, "F 3 3"]


def _frame(mesh: TriangleMesh) -> _Frame:
    along = mesh.corners.roll(-1, 1) - mesh.corners
    return _Frame(along / along.norm(dim=-1, keepdim=True), edge_normals(mesh))


def _product(one: Tensor, other: Tensor) -> Float[Tensor, "F 3 3"]:
    """The symmetric part of the product of two vectors of each panel."""
    product = one[:, :, None] * other[:, None]
    return (product + product.mT) / 2


def stokeslet_flow(
    mesh: TriangleMesh, forces: Float[Tensor, "F 3"], points: Float[Tensor, "P 3"]
) -> tuple[Float[Tensor, "P 3"], Float[Tensor, " P"]]:
    """Velocity times the viscosity, and pressure, of forces per area that the panels exert on the
    fluid. Pressure is infinite on the edges, and jumps by f . n across a panel.

    Three matrix products: K is linear in x but for L, A and r, so that its sums over the edges of
    all panels, and over all panels, are those of a few columns.
    """
    check_shape("forces", forces, "F 3", (len(mesh.faces), 3))
    check_shape("points", points, "P 3", (None, 3))
    of_edges, of_vertices, of_panels = _weights(mesh, forces)
    velocity, pressure = torch.empty_like(points), points.new_empty(len(points))
    for part in blocks(points, mesh):
        x = points[part]
        edges, angles = panel_integrals(mesh, x)
        sums = edges @ of_edges + angles @ of_panels  # 3 constant, 9 linear in x, 1 of the pressure
        linear = (sums[:, 3:12].view(-1, 3, 3) @ x[..., None])[..., 0]
        velocity[part] = sums[:, :3] + linear + vertex_distances(mesh, x) @ of_vertices
        pressure[part] = sums[:, 12]
    return velocity / (8 * math.pi), pressure / (4 * math.pi)


def _weights(mesh: TriangleMesh, forces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns for every edge (E, 13), vertex (V, 3) and panel (F, 13); see `stokeslet_flow`."""
    along, outward = _frame(mesh)
    f, n = forces[:, None].expand_as(along), mesh.normals[:, None].expand_as(along)
    # L (d g + h k) with d = (corner - x) . outward and h = (x - corner) . n, at each edge.
    g = f + along * _dot(along, f)
    k = n * _dot(outward, f) + outward * _dot(n, f)
    linear = k[..., None] * n[..., None, :] - g[..., None] * outward[..., None, :]
    constant = -(linear @ mesh.corners[..., None])[..., 0]
    columns = torch.cat((constant, linear.flatten(2), _dot(outward, f)), -1)
    of_edges = columns.new_zeros(len(mesh.edges), 13)
    of_edges.index_add_(0, mesh.face_edges.flatten(), columns.flatten(0, 1))
    tangential = along * _dot(outward, f)
    of_vertices = columns.new_zeros(len(mesh.vertices), 3)
    of_vertices.index_add_(0, mesh.faces.flatten(), tangential.flatten(0, 1))
    of_vertices.index_add_(0, mesh.faces.roll(-1, 1).flatten(), -tangential.flatten(0, 1))
    n = mesh.normals
    slip = -2 * (forces - n * _dot(n, forces))
    linear = slip[..., None] * n[:, None]
    constant = -(linear @ mesh.centroids[..., None])[..., 0]
    of_panels = torch.cat((constant, linear.flatten(1), _dot(n, forces)), -1)
    return of_edges, of_vertices, of_panels


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(-1, keepdim=True)
