"""The faces of a surface for pictures of a prediction: its own triangles, or fewer like them.

A prediction has values at rows without faces. The mesh that the rows were read from has faces; in a
picture every corner of them shows the value of one row, never a mean:

* rows are points: a corner shows its own row;
* rows are cells: each triangle has corners of its own, which show the row of its cell.

Of more triangles than a page can hold, corners in the same cube of a grid become one of them, and
triangles that keep three different corners remain. A corner or cell whose row was not predicted
shows the closest one that was; faces that are not in the store are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.data.cards import Card, OriginalMesh, original_mesh
from slipstream.data.meshes import triangle_cells
from slipstream.data.store import Store
from slipstream.evaluation.yardsticks import closest_points
from slipstream.runs.prediction_file import read_prediction, write_prediction

MOST_TRIANGLES = {"point": 60_000, "cell": 20_000}
"""By where the rows are; triangles of cells have three corners each, and so three times as many."""
_COARSER = 1.15
"""Factor on the cubes of the grid until few enough triangles are left."""

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SurfaceView:
    points: NDArray[np.float32]
    """Corners of the triangles, (P, 3), in the coordinates of the store."""
    triangles: NDArray[np.int32]
    """(T, 3), numbers of points."""
    rows: NDArray[np.int32]
    """The row of the prediction whose values each point shows, (P,)."""


def add_faces(predictions: Mapping[str, Path], store: Store, meshes: Path) -> None:
    """Give files of predictions, by sample, the faces of the meshes that were ingested.

    Those that have faces are left as they are, and so are volumes. ValueError where a mesh is
    missing or has changed.
    """
    for sample, file in predictions.items():
        prediction = read_prediction(file)
        if prediction.triangles is not None:
            continue
        original = original_mesh(store, sample, meshes)
        subtract = Card.from_json(store.manifest.origin.options).subtract
        view = surface_view(original, prediction.coords.numpy(), subtract)
        if view is not None:
            corners, triangles, rows = (
                torch.from_numpy(part) for part in (view.points, view.triangles, view.rows)
            )
            faced = replace(prediction, corners=corners, triangles=triangles, rows=rows)
            write_prediction(file, faced)


def surface_view(
    original: OriginalMesh, coords: NDArray[Any], subtract: Sequence[float]
) -> SurfaceView | None:
    """The faces of a sample whose first rows were predicted, at `coords` (N, 3) of the store.

    `subtract` is what the card subtracts from coordinates. None where the mesh is no surface, or no
    face of it is in the store.
    """
    try:
        points, triangles = original.mesh.triangles()
    except ValueError:  # a volume: pictures show a section through it
        return None
    at_cells = original.location == "cell"
    owners = triangle_cells(original.mesh.cells())
    places = original.mesh.info.cells if at_cells else original.mesh.info.points
    row_at = np.full(places, -1, np.int64)
    row_at[original.rows] = np.arange(len(original.rows))
    stored = row_at[owners] >= 0 if at_cells else (row_at[triangles] >= 0).all(1)
    triangles, owners = triangles[stored], owners[stored]
    if not len(triangles):
        return None
    points = np.asarray(points, np.float64) - (np.asarray(subtract) if len(subtract) else 0.0)
    triangles, kept = fewer_triangles(points, triangles, MOST_TRIANGLES[original.location])
    if at_cells:
        corners = points[triangles].reshape(-1, 3)
        rows = np.repeat(row_at[owners[kept]], 3)
        triangles = np.arange(len(corners)).reshape(-1, 3)
    else:
        used, flat = np.unique(triangles, return_inverse=True)
        corners, rows, triangles = points[used], row_at[used], flat.reshape(-1, 3)
    return SurfaceView(
        corners.astype(np.float32),
        triangles.astype(np.int32),
        _predicted(rows, corners, coords).astype(np.int32),
    )


def _predicted(rows: Whole, corners: NDArray[Any], coords: NDArray[Any]) -> Whole:
    """The rows, where only the first were predicted; for others the closest of those."""
    missing = rows >= len(coords)
    if not missing.any():
        return rows
    rows = rows.copy()
    at = corners[missing][:, : coords.shape[1]].astype(np.float32)
    rows[missing] = closest_points(np.ascontiguousarray(coords, np.float32), at)
    return rows


def fewer_triangles(points: NDArray[Any], triangles: Whole, most: int) -> tuple[Whole, Whole]:
    """At most so many triangles (T, 3) of the same points, and the number that each has had.

    They are those given where these are few enough.
    """
    if len(triangles) <= most:
        return triangles, np.arange(len(triangles))
    corners = points[triangles]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    low = points.min(0)
    cube = float(np.sqrt(area.sum() / most)) or float(np.ptp(points)) or 1.0
    while True:
        merged = _centres(points, np.floor((points - low) / cube))[triangles]
        ends = np.sort(merged, 1)
        apart = np.flatnonzero((ends[:, 0] != ends[:, 1]) & (ends[:, 1] != ends[:, 2]))
        _, first = np.unique(ends[apart], axis=0, return_index=True)
        if len(first) <= most:
            kept = np.sort(apart[first])
            return merged[kept], kept
        cube *= _COARSER


def _centres(points: NDArray[Any], cubes: NDArray[Any]) -> Whole:
    """For each point, that point of its cube which is closest to the mean of those in the cube."""
    sizes = cubes.max(0).astype(np.int64) + 1
    codes = np.ravel_multi_index(tuple(cubes.astype(np.int64).T), tuple(sizes))
    _, cube, count = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(cube, axis) / count for axis in points.T], 1)
    away = ((points - means[cube]) ** 2).sum(1)
    order = np.lexsort((away, cube))
    return order[np.cumsum(count) - count][cube]
