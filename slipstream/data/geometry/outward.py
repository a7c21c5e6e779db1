"""Normals of a surface that point out of the body, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from slipstream.data.geometry.normals import cell_normals, point_normals
from slipstream.data.geometry.orientation import Winding, find_winding
from slipstream.data.meshes import Location, Mesh, triangle_cells

_WINDINGS: WeakKeyDictionary[Mesh, Winding] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class OutwardNormals:
    """Unit normals at the points or cells of a surface."""

    normals: NDArray[np.float64]
    """(rows, 3); NaN where there is none, if that was allowed."""
    turned: float
    """The share of the area, 0 to 1, whose faces turn inward in the file."""
    undecided: float
    """The share of the area, 0 to 1, on which they are not known to point out of the body."""
    around: float = 0.0
    """The share of the area, 0 to 1, that is taken for a tunnel or far field around the bodies,
    where normals point inward."""


def outward_normals(mesh: Mesh, location: Location, *, lenient: bool = False) -> OutwardNormals:
    """Normals that point out of the body, whichever way the faces of the file turn.

    NoNormalError (NaN if lenient) where a point or cell has none.
    """
    points, triangles = mesh.triangles()
    cells = triangle_cells(mesh.cells())
    winding = winding_of(mesh)
    turned = winding.turned
    if location == "cell":
        normals = cell_normals(mesh, lenient=lenient)
        normals[cells[turned]] *= -1
    elif winding.mixed:
        outward = np.where(turned[:, None], triangles[:, ::-1], triangles)
        normals = point_normals(points, outward, lenient=lenient)
    else:
        normals = point_normals(points, triangles, lenient=lenient)
        normals = -normals if turned.any() else normals
    shares = (area_share(points, triangles, chosen) for chosen in (turned, winding.around))
    return OutwardNormals(normals, next(shares), winding.undecided, next(shares))


def winding_of(mesh: Mesh) -> Winding:
    """Which triangles of a surface to turn; found once for a mesh, since that takes long."""
    if mesh not in _WINDINGS:
        points, triangles = mesh.triangles()
        _WINDINGS[mesh] = find_winding(points, triangles, triangle_cells(mesh.cells()))
    return _WINDINGS[mesh]


def area_share(
    points: NDArray[Any], triangles: NDArray[Any], chosen: NDArray[np.bool_] | None
) -> float:
    """The share of the area that the chosen triangles have, (T,); None for none."""
    if chosen is None or not chosen.any():
        return 0.0
    a, b, c = (points[triangles[:, k]].astype(np.float64) for k in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return float(areas[chosen].sum() / max(areas.sum(), np.finfo(np.float64).tiny))
