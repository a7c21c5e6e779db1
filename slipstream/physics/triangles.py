"""Triangle meshes: areas, normals, edges, and the exact signed distance of points to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from slipstream.core.checks import check_finite, check_shape
from slipstream.core.shapes import Float

PAIRS = {"cpu": 1 << 19, "cuda": 1 << 24}
"""Point-triangle pairs computed at once: 4 MiB per float64 array on a CPU, so that a dozen of them
stay near its cache; 128 MiB on a GPU, so that 4096 panels are one block."""


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """Closed surfaces made of flat triangles, counter-clockwise seen from outside.

    Several bodies may share one mesh; nothing here needs them to be connected.
    """

    vertices: Float[Tensor, "V 3"]
    faces: Tensor
    """(F, 3), whole numbers: the corners of each triangle."""

    def __post_init__(self) -> None:
        check_shape("vertices", self.vertices, "V 3", (None, 3))
        check_shape("faces", self.faces, "F 3", (None, 3))
        check_finite("vertices", self.vertices)
        if self.faces.is_floating_point():
            raise ValueError(f"faces must hold whole numbers, got {self.faces.dtype}")
        low, high = torch.stack(self.faces.aminmax()).tolist()  # waits for a GPU once, not 4 times
        if low < 0 or high >= len(self.vertices):
            raise ValueError(
                f"faces must name vertices 0 .. {len(self.vertices) - 1}, got {low} .. {high}"
            )

    @cached_property
    def corners(self) -> Tensor:
        """(F, 3, 3): triangle, corner, coordinate."""
        return self.vertices[self.faces]

    @cached_property
    def centroids(self) -> Tensor:
        return self.corners.mean(1)

    @cached_property
    def area_vectors(self) -> Tensor:
        """Outward normals times areas, (F, 3).

        `data.meshes.area_vectors` is the same for polygons of files, in numpy and by chunks; here
        the tensors stay on their device.
        """
        a, b, c = self.corners.unbind(1)
        return torch.linalg.cross(b - a, c - a) / 2

    @cached_property
    def areas(self) -> Tensor:
        return self.area_vectors.norm(dim=-1)

    @cached_property
    def normals(self) -> Tensor:
        return self.area_vectors / self.areas[:, None]

    @cached_property
    def radii(self) -> Tensor:
        """Distance of each triangle's farthest corner from its centroid."""
        return (self.corners - self.centroids[:, None]).norm(dim=-1).amax(1)

    @cached_property
    def face_edges(self) -> Tensor:
        """(F, 3): edge k of a triangle runs from corner k to corner k + 1; see `edges`."""
        return self._edges[1]

    @cached_property
    def edges(self) -> Tensor:
        """(E, 2): the two ends of every edge, named once however many triangles share it."""
        return self._edges[0]

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor]:
        ends = torch.stack((self.faces, self.faces.roll(-1, 1)), -1).sort(-1).values
        keys = ends[..., 0] * len(self.vertices) + ends[..., 1]
        unique, inverse = torch.unique(keys, return_inverse=True)
        edges = torch.stack((unique // len(self.vertices), unique % len(self.vertices)), -1)
        return edges, inverse

    @cached_property
    def volume(self) -> Tensor:
        return (self.centroids * self.area_vectors).sum() / 3

    def to(self, device: torch.device | str) -> TriangleMesh:
        return TriangleMesh(self.vertices.to(device), self.faces.to(device))


def join(meshes: list[TriangleMesh]) -> TriangleMesh:
    """One mesh of several, triangles in the order given."""
    starts = torch.tensor([0, *(len(mesh.vertices) for mesh in meshes)]).cumsum(0).tolist()
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
    return TriangleMesh(torch.cat([mesh.vertices for mesh in meshes]), torch.cat(faces))


def blocks(points: Tensor, mesh: TriangleMesh) -> Iterator[slice]:
    """Slices of the points, each making at most `PAIRS` pairs with the triangles."""
    size = max(1, PAIRS.get(points.device.type, PAIRS["cpu"]) // len(mesh.faces))
    return (slice(start, start + size) for start in range(0, len(points), size))


def solid_angles(mesh: TriangleMesh, distance: Tensor, height: Tensor) -> Tensor:
    """Signed solid angle of every triangle seen from every point, (P, F).

    `distance` (P, V) is that of the points from the vertices, `height` (P, F) that above the planes
    of the triangles: positive on the side of the normal, and so is the angle. Van Oosterom and
    Strackee (1983): with a, b, c the vectors to the corners and a, b, c their lengths,
    tan(angle / 2) = a . (b x c) / (a b c + (a . b) c + (b . c) a + (c . a) b), where the triple
    product is twice the area times the height and a . b = (a^2 + b^2 - |a - b|^2) / 2.
    """
    a, b, c = (distance[:, mesh.faces[:, k]] for k in range(3))
    ab, bc, ca = (mesh.corners.roll(-1, 1) - mesh.corners).square().sum(-1).unbind(1)
    aa, bb, cc = a * a, b * b, c * c
    twice = (aa + bb - ab) * c + (bb + cc - bc) * a + (cc + aa - ca) * b
    return 2 * torch.atan2(2 * mesh.areas * height, a * b * c + twice / 2)


def heights(mesh: TriangleMesh, points: Tensor) -> Tensor:
    """Height of every point above the plane of every triangle, (P, F)."""
    return points @ mesh.normals.T - (mesh.centroids * mesh.normals).sum(-1)


def vertex_distances(mesh: TriangleMesh, points: Tensor) -> Tensor:
    """(P, V), by differences: the expanded square would lose half the digits at short range."""
    return (points[:, None] - mesh.vertices).square().sum(-1).sqrt()


def winding_number(mesh: TriangleMesh, points: Tensor) -> Tensor:
    """How often closed surfaces wind around each point, (P): 1 inside a body, 0 outside."""
    parts = []
    for part in blocks(points, mesh):
        x = points[part]
        angles = solid_angles(mesh, vertex_distances(mesh, x), heights(mesh, x))
        parts.append(-angles.sum(1) / (4 * math.pi))
    return torch.cat(parts)


def signed_distance(mesh: TriangleMesh, points: Tensor) -> Tensor:
    """Distance of each point to the nearest triangle, negative inside, (P)."""
    inside = winding_number(mesh, points) > 0.5
    return torch.where(inside, -1.0, 1.0) * nearest_distance(mesh, points)


def nearest_distance(mesh: TriangleMesh, points: Tensor) -> Tensor:
    """Distance of each point to the nearest triangle, (P).

    It is exact: a triangle is left out only if its centroid is farther than the nearest one by more
    than the two radii together.
    """
    check_shape("points", points, "P 3", (None, 3))
    parts = []
    for part in blocks(points, mesh):
        x = points[part]
        lower = torch.cdist(x, mesh.centroids, compute_mode="donot_use_mm_for_euclid_dist")
        bound = (lower + mesh.radii).amin(1, keepdim=True)
        row, face = ((lower - mesh.radii) <= bound).nonzero(as_tuple=True)
        pairs = point_triangle_distance(x[row], mesh.corners[face])
        nearest = torch.full((len(x),), math.inf, dtype=x.dtype, device=x.device)
        parts.append(nearest.scatter_reduce(0, row, pairs, "amin"))
    return torch.cat(parts)


def point_triangle_distance(points: Tensor, corners: Tensor) -> Tensor:
    """Distance of point i to triangle i: (K, 3) and (K, 3, 3) to (K).

    The foot of the perpendicular, where it falls within the triangle; else the nearest edge.
    """
    ends = corners.roll(-1, 1)
    along = ends - corners
    offset = points[:, None] - corners
    length = along.square().sum(-1)
    share = ((offset * along).sum(-1) / length.clamp(min=torch.finfo(length.dtype).tiny)).clamp(
        0, 1
    )
    edge = (offset - share[..., None] * along).square().sum(-1).amin(1).sqrt()
    normal = torch.linalg.cross(along[:, 0], -along[:, 2])
    size = normal.norm(dim=-1)
    sides = (torch.linalg.cross(normal[:, None].expand_as(along), along) * offset).sum(-1)
    within = (sides >= 0).all(1) & (size > 0)
    plane = (offset[:, 0] * normal).sum(-1).abs() / size.clamp(min=torch.finfo(size.dtype).tiny)
    return torch.where(within, plane, edge)
