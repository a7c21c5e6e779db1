"""Other points of the same geometry, from which tokens may come: what another mesh would give.

Of a surface with faces, new points are placed on the faces, either spread evenly by area, or with
the spread of the mesh itself, where each of its rows has an equal share. They follow each other
along a space-filling curve at equal steps of area (or share), so that they keep clear of each other
like those of a mesh, and do not add the noise of points drawn one by one. Where there are no faces,
or the model is of a volume, new points cannot be made: clouds are random subsets of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.runtime import derive_seed
from slipstream.data.geometry import NearestTriangle, z_order_codes
from slipstream.data.meshes import read_mesh, triangle_cells
from slipstream.inference.mesh_fields import MeshFields
from slipstream.runs.recipe import ComputedSource, FeatureRecipe, Recipe

Spread = Literal["even", "own", "subset"]
_FACES: tuple[tuple[Spread, float], ...] = (
    ("even", 1.0),
    ("own", 0.5),
    ("own", 2.0),
    ("even", 0.5),
    ("even", 2.0),
    ("even", math.sqrt(0.5)),
    ("own", math.sqrt(2)),
    ("own", math.sqrt(0.5)),
    ("even", math.sqrt(2)),
)
_SUBSETS: tuple[tuple[Spread, float], ...] = (("subset", 1 / 2), ("subset", 1 / 3),
                                              ("subset", 1 / 4))  # fmt: skip
_STEPS = np.array([0.7548776662466927, 0.5698402909980532])
"""Of a sequence that fills the unit square evenly: 1/g and 1/g^2 with g^3 = g + 1."""
_BITS = 20


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of a geometry other than those of its mesh."""

    spread: Spread
    factor: float
    """The points that were asked for, as a multiple of the predicted rows."""
    fields: MeshFields
    """As the inputs of a mesh that has these points as rows."""


def other_clouds(fields: MeshFields, recipe: Recipe, count: int, most: int) -> Iterator[Cloud]:
    """As many clouds of the geometry of a mesh, the same at every call; none has more points than
    `most`."""
    faces = None if recipe.domain == "volume" else _faces_of(fields)
    kinds = islice(cycle(_SUBSETS if faces is None else _FACES), count)
    for number, (spread, factor) in enumerate(kinds):
        draw = np.random.default_rng(derive_seed(0, "remesh", fields.points, number))
        points = min(max(round(factor * fields.points), 1), most)
        if faces is None:
            chosen = np.sort(draw.permutation(fields.points)[:points])
            yield Cloud(spread, factor, _subset(fields, recipe, chosen))
        else:
            yield Cloud(spread, factor, _on_faces(fields, recipe, faces, spread, points, draw))


@dataclass(frozen=True, eq=False)
class _Faces:
    """The triangles of a surface whose rows are all predicted, along a space-filling curve."""

    corners: NDArray[Any]
    """Points of the mesh, (T, 3)."""
    rows: NDArray[np.int64]
    """The predicted row that has the values at each corner, (T, 3): of cells three times the
    same."""
    areas: NDArray[np.float64]
    shares: NDArray[np.float64]
    """Where every row of the mesh has a share of 1 in its triangles."""


def _faces_of(fields: MeshFields) -> _Faces | None:
    """None where the mesh has no faces with an area."""
    try:
        points, triangles = fields.mesh.triangles()
    except ValueError:  # cells of a volume
        return None
    rows = triangles
    if fields.location == "cell":
        rows = np.repeat(triangle_cells(fields.mesh.cells())[:, None], 3, 1)
    if fields.kept is not None:
        numbers = np.full(fields.rows, -1)
        numbers[fields.kept] = np.arange(len(fields.kept))
        rows = numbers[rows]
    a, b, c = (points[triangles[:, k]].astype(np.float64) for k in range(3))
    areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    used = np.flatnonzero((areas > 0) & (rows >= 0).all(1))
    if not len(used):
        return None
    order = used[_curve((a + b + c)[used])]
    rows = rows[order]
    times = np.bincount(rows.ravel(), minlength=fields.points)
    return _Faces(triangles[order], rows, areas[order], (1 / times[rows]).sum(1))


def _curve(places: NDArray[np.float64]) -> NDArray[np.intp]:
    """The order of places along a space-filling curve."""
    low = places.min(0)
    size = max(float((places.max(0) - low).max()), np.finfo(np.float64).tiny)
    cells = ((places - low) / size * (2**_BITS - 1)).astype(np.int64)
    return np.argsort(z_order_codes(cells, _BITS), kind="stable")


def _on_faces(
    fields: MeshFields,
    recipe: Recipe,
    faces: _Faces,
    spread: Spread,
    count: int,
    draw: np.random.Generator,
) -> MeshFields:
    ends = np.cumsum(faces.areas if spread == "even" else faces.shares)
    marks = (np.arange(count) + draw.random()) / count * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, marks, "right"), len(ends) - 1)
    weights = _barycentric(chosen, draw)
    corners = fields.mesh.points()[faces.corners[chosen]].astype(np.float64)
    places = np.einsum("nk,nkd->nd", weights, corners) * fields.choices.scale
    rows = faces.rows[chosen]
    features = {
        feature.name: (
            _at_places(feature, fields.features[feature.name], rows, weights, places, fields)
            if _is_of_rows(feature, fields)
            else fields.features[feature.name]
        )
        for feature in recipe.features
    }
    coords = places - np.asarray(recipe.coords.subtract) if recipe.coords.subtract else places
    width = fields.coords.shape[1]
    return _as_rows(fields, np.ascontiguousarray(coords[:, :width]), features)


def _barycentric(chosen: NDArray[np.intp], draw: np.random.Generator) -> NDArray[np.float64]:
    """Weights of the corners, (N, 3), evenly spread in each triangle; equal ones of `chosen` follow
    each other."""
    first = np.flatnonzero(np.diff(chosen, prepend=-1))
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(chosen)))
    number = np.arange(len(chosen)) - first[group]
    square = (draw.random((len(first), 2))[group] + number[:, None] * _STEPS) % 1.0
    square = np.where((square.sum(1) > 1)[:, None], 1 - square, square)
    return np.column_stack([1 - square.sum(1), square])


def _at_places(
    feature: FeatureRecipe,
    values: NDArray[Any],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    places: NDArray[np.float64],
    fields: MeshFields,
) -> NDArray[Any]:
    """A feature at new places: distances computed anew, all others from the rows around them."""
    if _is(feature, "distance"):
        assert fields.choices.surface is not None, "the distances of the rows are to it"
        points, triangles = read_mesh(fields.choices.surface).triangles()
        scaled = np.asarray(points, np.float64) * fields.choices.scale
        return NearestTriangle(scaled, triangles).distance(places)
    around = np.asarray(values, np.float64)[rows]
    mean = np.einsum("nk,nk...->n...", weights, around)
    if not _is(feature, "normals"):
        return mean
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    cancels = length[:, 0] < 1e-6  # between faces that are back to back
    mean[cancels], length[cancels] = around[cancels, 0], 1.0
    return np.asarray(mean / length)


def _subset(fields: MeshFields, recipe: Recipe, chosen: NDArray[np.intp]) -> MeshFields:
    features = {
        feature.name: (
            np.asarray(fields.features[feature.name])[chosen]
            if _is_of_rows(feature, fields)
            else fields.features[feature.name]
        )
        for feature in recipe.features
    }
    return _as_rows(fields, fields.coords[chosen], features)


def _as_rows(fields: MeshFields, coords: NDArray[Any], features: dict[str, Any]) -> MeshFields:
    return replace(
        fields, rows=len(coords), kept=None, coords=coords, features=features, truth={}, outside=0
    )


def _is_of_rows(feature: FeatureRecipe, fields: MeshFields) -> bool:
    """Whether a feature differs from row to row."""
    return not feature.is_parameter and feature.name not in fields.choices.parameters


def _is(feature: FeatureRecipe, what: str) -> bool:
    return isinstance(feature.made, ComputedSource) and feature.made.what == what
