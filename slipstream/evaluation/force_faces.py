"""The faces of a surface for sums over it: area vectors that point out of the body, and centres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry import area_share, points_to_cells, winding_of
from slipstream.data.meshes import Location, Mesh, area_vectors, face_centres, triangle_cells

Facing = Literal["find", "out of the body", "into the body"]
"""Where the faces of a file turn: to be found out from the geometry, or known."""


@dataclass(frozen=True)
class Stated:
    """A convention that was taken, and why."""

    value: str
    reason: str


@dataclass(frozen=True, eq=False)
class Faces:
    """F faces in the order of the cells of a mesh."""

    mesh: Mesh
    vectors: NDArray[np.float64]
    """Normal times area, (F, 3), out of the body; of a polygon as it is, also if it is not flat."""
    centres: NDArray[np.float64]
    """The centre of area of each face, (F, 3)."""
    facing: Stated
    """How the faces of the file turn."""
    undecided: float
    """The share of the area, 0 to 1, on which the way out of the body is not known."""
    around: float = 0.0
    """The share of the area that is taken for a tunnel or far field around the bodies."""

    @property
    def areas(self) -> NDArray[np.float64]:
        lengths: NDArray[np.float64] = np.linalg.norm(self.vectors, axis=1)
        return lengths

    def values(
        self, name: str, values: NDArray[Any], location: Location, components: int
    ) -> NDArray[np.float64]:
        """An array of the mesh on the faces, (F,) or (F, 3); points give the mean of the corners.

        ValueError where its shape does not fit, and where it is not finite.
        """
        array = np.asarray(values)
        rows = len(self.vectors) if location == "cell" else len(self.mesh.points())
        shapes = [(rows,), (rows, 1)] if components == 1 else [(rows, components)]
        if array.shape not in shapes or array.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} of {self.mesh.name} must be numbers of shape {shapes[0]} at its"
                f" {location}s, got {array.dtype} of shape {array.shape}"
            )
        finite = np.isfinite(array).reshape(rows, -1).all(1)
        if not finite.all():
            raise ValueError(
                f"{name} of {self.mesh.name} must be finite, got {int((~finite).sum()):,} of"
                f" {rows:,} {location}s where it is not, the first at {int((~finite).argmax())}"
            )
        array = array.reshape(shapes[0])
        if location == "cell":
            return array.astype(np.float64)
        return points_to_cells(self.mesh, array)


def outward_faces(
    mesh: Mesh, *, facing: Facing = "find", flip: bool = False, scale: float = 1.0
) -> Faces:
    """The faces of a surface mesh; `flip` turns all of them from what was found or is known.

    Coordinates are multiplied by `scale`. With `facing="find"` the geometry decides
    (`winding_of`), and polygons are turned as a whole. ValueError for a mesh with other cells
    than polygons, without area, or with coordinates that are not finite.
    """
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number, got {scale}")
    points = mesh.points()
    if not np.isfinite(points).all():
        raise ValueError(f"the points of {mesh.name} must be finite, got some that are not")
    vectors = area_vectors(mesh.cells(), points) * scale**2
    if not vectors.any():
        raise ValueError(f"{mesh.name} must be a surface with an area, got none")
    centres = face_centres(mesh.cells(), points) * scale
    undecided = around = 0.0
    if facing == "find":
        turned, undecided, around = _turned(mesh)
        vectors[turned] *= -1
        share = _share(vectors, turned)
        reason = f"found from the geometry; the file turns {share:.1%} of the area inward"
    elif facing == "into the body":
        vectors *= -1
        reason = "the patches of an OpenFOAM case point out of the fluid"
    else:
        reason = "as the file turns its faces"
    if flip:
        vectors *= -1
        reason += "; then reversed by --flip-normals"
    return Faces(mesh, vectors, centres, Stated("out of the body", reason), undecided, around)


def _turned(mesh: Mesh) -> tuple[NDArray[np.int64], float, float]:
    """The cells that turn inward, and the shares of the area that are undecided or a tunnel."""
    points, triangles = mesh.triangles()
    cells = triangle_cells(mesh.cells())
    winding = winding_of(mesh)
    around = area_share(points, triangles, winding.around)
    return np.unique(cells[winding.turned]), winding.undecided, around


def _share(vectors: NDArray[Any], rows: NDArray[Any]) -> float:
    areas = np.linalg.norm(vectors, axis=1)
    return float(areas[rows].sum() / areas.sum())
