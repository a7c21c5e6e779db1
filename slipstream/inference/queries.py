"""Where a flow is asked besides its mesh: on a plane, along a line, at points of a file.

Such points do not change the flow: its tokens come from the mesh, and each point is decoded by
itself. A plane is cut out of the cells of a volume, so that nothing is asked inside the body; of a
mesh without volume cells it is a grid over the box around the mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import as_pyvista, mesh_of
from slipstream.inference.mesh_fields import mesh_fields
from slipstream.inference.predict import Choices, decode_fields, recipe_of
from slipstream.inference.prediction import MeshPrediction
from slipstream.runs.ensemble import Ensemble, Models, as_ensemble
from slipstream.runs.recipe import ComputedSource

_AXES = {"x": 0, "y": 1, "z": 2}
GRID = 256
"""Points of a plane's grid along the longer side of the box."""
LINE = 201
"""Points of a line, if no number is given."""


@dataclass(frozen=True)
class Plane:
    """All points x with normal . (x - origin) = 0."""

    origin: tuple[float, float, float]
    normal: tuple[float, float, float]

    @classmethod
    def parse(cls, text: str) -> Plane:
        """From "y=0.5", or "0,0.5,0;0,1,0": a point of the plane and its normal."""
        name, equals, value = text.partition("=")
        if equals and name.strip().lower() in _AXES:
            axis = np.eye(3)[_AXES[name.strip().lower()]]
            (offset,) = _numbers(value, 1, "plane", text)
            return cls(_triple(axis * offset), _triple(axis))
        parts = text.split(";")
        if len(parts) != 2:
            raise ValueError(f"plane must be as y=0.5, or point;normal, got {text!r}")
        origin, normal = (_numbers(part, 3, "plane", text) for part in parts)
        if not any(normal):
            raise ValueError(f"plane must have a normal with a length, got {text!r}")
        return cls(_triple(origin), _triple(normal))

    def cut(self, data: Any) -> Any:
        """The plane inside a mesh, a pyvista object; ValueError where it does not meet it."""
        cut = data.slice(normal=self.normal, origin=self.origin) if _has_volume(data) else None
        if cut is not None and hasattr(cut, "combine") and not hasattr(cut, "point_data"):
            cut = cut.combine().extract_surface() if cut.n_blocks else None
        if cut is not None and cut.n_points:
            return cut.triangulate() if cut.n_cells else cut
        if cut is None:
            return self._grid(np.asarray(data.bounds, np.float64).reshape(3, 2))
        raise ValueError(f"the plane through {self.origin} must cut the mesh, got one beside it")

    def _grid(self, bounds: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Points and quadrangles of a grid over a box, seen along the normal."""
        unit = np.asarray(self.normal) / np.linalg.norm(self.normal)
        first = np.cross(unit, np.eye(3)[int(np.abs(unit).argmin())])
        first /= np.linalg.norm(first)
        second = np.cross(unit, first)
        corners = np.stack(np.meshgrid(*bounds, indexing="ij"), -1).reshape(-1, 3)
        relative = corners - np.asarray(self.origin)
        if np.ptp(np.sign(relative @ unit)) == 0:
            raise ValueError(
                f"the plane through {self.origin} must cut the mesh, got one beside it"
            )
        sides = [np.array([(relative @ way).min(), (relative @ way).max()])
                 for way in (first, second)]  # fmt: skip
        longest = max(float(np.ptp(side)) for side in sides)
        counts = [max(2, round(GRID * float(np.ptp(side)) / longest)) for side in sides]
        u, v = (
            np.linspace(side[0], side[1], count) for side, count in zip(sides, counts, strict=True)
        )
        points = self.origin + (u[:, None, None] * first + v[None, :, None] * second)
        number = np.arange(points.shape[0] * points.shape[1]).reshape(points.shape[:2])
        quads = (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])
        return points.reshape(-1, 3), np.stack(quads, -1).reshape(-1, 4)


@dataclass(frozen=True)
class Line:
    """Points at equal distances from one end to the other."""

    begin: tuple[float, float, float]
    end: tuple[float, float, float]
    count: int = LINE

    @classmethod
    def parse(cls, text: str) -> Line:
        """From "0,0,0;1,0,0" or "0,0,0;1,0,0;500"."""
        parts = text.split(";")
        if len(parts) not in (2, 3):
            raise ValueError(f"line must be as 0,0,0;1,0,0 or 0,0,0;1,0,0;500, got {text!r}")
        begin, end = (_triple(_numbers(part, 3, "line", text)) for part in parts[:2])
        count = _numbers(parts[2], 1, "line", text)[0] if len(parts) == 3 else LINE
        if count != int(count) or count < 2 or begin == end:
            raise ValueError(f"line must have two ends and at least 2 points, got {text!r}")
        return cls(begin, end, int(count))

    def points(self) -> NDArray[np.float64]:
        share = np.linspace(0, 1, self.count)[:, None]
        return (1 - share) * np.asarray(self.begin) + share * np.asarray(self.end)


def ask_plane(
    models: Models, prediction: MeshPrediction, plane: Plane, choices: Choices
) -> MeshPrediction:
    """The fields on a plane through the mesh of a prediction."""
    models = as_ensemble(models)
    _check_faceless(models, "a plane")
    source = prediction.source
    if isinstance(source, str | Path):
        source = as_pyvista(Path(source), regions=prediction.regions)
    return ask(models, prediction, plane.cut(source), choices)


def ask_points(
    models: Models, prediction: MeshPrediction, points: NDArray[Any], choices: Choices
) -> MeshPrediction:
    """The fields at points (N, 3), which may leave the mesh: nothing is known of bodies there."""
    models = as_ensemble(models)
    _check_faceless(models, "a line, or a table of points,")
    return ask(models, prediction, (points,), choices)


def ask(models: Models, prediction: MeshPrediction, mesh: Any, choices: Choices) -> MeshPrediction:
    """The fields of the flow round the mesh of a prediction, at the points of another mesh: a path,
    a pyvista object or numpy arrays, as `predict` takes them.

    ValueError names a feature that these points do not have.
    """
    models = as_ensemble(models)
    inputs = replace(choices.inputs, parameters=prediction.parameters, location=None, regions=())
    fields = mesh_fields(mesh, recipe_of(models.first), inputs, asked=True)
    tokens = prediction.tokens_of_members
    return decode_fields(models, mesh, fields, tokens, replace(choices, inputs=inputs))


def _check_faceless(models: Ensemble, what: str) -> None:
    """Raise ValueError where a model takes normals of faces, which some points do not have."""
    for feature in recipe_of(models.first).features:
        if isinstance(feature.made, ComputedSource) and feature.made.what == "normals":
            raise ValueError(
                f"{what} has no {feature.name}, which this model of a surface takes: ask it at the"
                " points of a surface mesh (--points FILE)"
            )


def distance_along(points: NDArray[Any]) -> NDArray[np.float64]:
    """The length of a line of points up to each of them, (N,)."""
    steps = np.linalg.norm(np.diff(np.asarray(points, np.float64), axis=0), axis=1)
    return np.concatenate(([0.0], np.cumsum(steps)))


def _has_volume(data: Any) -> bool:
    """Whether a pyvista object has cells that a plane can cut into faces."""
    if hasattr(data, "point_data"):
        return not data.IsA("vtkPolyData") and mesh_of(data).info.cells > 0
    return any(_has_volume(block) for block in data if block is not None)


def _numbers(text: str, count: int, name: str, whole: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.isfinite(numbers).all():
        what = "a number" if count == 1 else f"{count} numbers with commas"
        raise ValueError(f"{name} must have {what} in the place of {text!r}, got {whole!r}")
    return numbers


def _triple(values: Sequence[float] | NDArray[Any]) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z
