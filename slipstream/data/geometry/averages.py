"""Values at the points of a mesh averaged to its cells, and back, by plain means as in VTK."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import Location, Mesh, Wanted


def array_at(mesh: Mesh, wanted: Wanted, location: Location) -> NDArray[Any]:
    """An array where the rows are: cell data become the mean of a point's cells, and vice versa."""
    held = mesh.array(wanted)
    if wanted.location == location:
        return held
    return points_to_cells(mesh, held) if location == "cell" else cells_to_points(mesh, held)


def cells_to_points(mesh: Mesh, values: NDArray[Any]) -> NDArray[np.float64]:
    """At each point the mean over the cells that share it; ValueError for a point in no cell."""
    points = len(mesh.points())
    total, count = np.zeros((points, *values.shape[1:])), np.zeros(points)
    first = 0
    for chunk in mesh.cells().checked():
        last = first + len(chunk.sizes)
        np.add.at(total, chunk.corners, np.repeat(values[first:last], chunk.sizes, 0))
        np.add.at(count, chunk.corners, 1)
        first = last
    if not count.all():
        raise ValueError(
            f"every point of {mesh.name} must be in a cell for cell data to be averaged to points,"
            f" got {int((count == 0).sum())} that are in none"
        )
    return (total.T / count).T


def points_to_cells(mesh: Mesh, values: NDArray[Any]) -> NDArray[np.float64]:
    """In each cell the mean over its corners."""
    cells = mesh.cells()
    mean = np.empty((cells.count, *values.shape[1:]))
    first = 0
    for chunk in cells.checked():
        last = first + len(chunk.sizes)
        total = np.add.reduceat(values[chunk.corners].astype(np.float64), chunk.begins)
        mean[first:last] = (total.T / chunk.sizes).T
        first = last
    return mean
