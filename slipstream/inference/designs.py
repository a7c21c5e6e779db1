"""Parameters of many designs from one table: a row for each mesh, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from slipstream.data.cards import parameter_numbers, read_parameter_rows
from slipstream.runs.recipe import FeatureRecipe, ParameterSource, Recipe

_IDS = ("id", "name", "mesh", "file", "design", "sample", "run", "case")
_AXES = ("x", "y", "z")


class Designs:
    """The rows of a table of designs.

    The first column with one of the names id, name, mesh, file, design, sample, run or case, else
    the first column, says which mesh a row is of: by the mesh's name, with or without folders and
    suffix. A number of two or three components has a column for each (U_x, U_y, U_z). ValueError
    for a table without rows, and where two rows are of the same mesh.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path, self._recipe = path, recipe
        value = read_parameter_rows(path)
        if isinstance(value, dict):
            value = [{"id": key, **row} for key, row in value.items() if isinstance(row, dict)]
        if not value:
            raise ValueError(f"{path} must have a row for each mesh, got none")
        columns = list(value[0])
        self._column = next((c for c in columns if str(c).lower() in _IDS), columns[0])
        self._rows: dict[str, Mapping[str, Any]] = {}
        for row in value:
            name = str(row.get(self._column, "")).strip()
            if name in self._rows:
                raise ValueError(f"{path} must have one row for {name!r}, got two")
            self._rows[name] = row
        known = {column for feature in recipe.parameters for column in _columns(feature)}
        if not known & {str(column) for column in columns}:
            wanted = ", ".join(feature.name for feature in recipe.parameters) or "none"
            raise ValueError(
                f"{path} must have a column of a parameter of the model ({wanted}), got"
                f" {', '.join(map(str, columns))}"
            )

    def parameters(self, mesh: str, file: str) -> dict[str, Any]:
        """The parameters of a mesh that the table has; ValueError where it has no row for it."""
        row = self._row((mesh, file, PurePosixPath(mesh).name, PurePosixPath(file).stem), mesh)
        values: dict[str, Any] = {}
        for feature in self._recipe.parameters:
            name = next((c for c in (feature.name, _key(feature)) if c in row), None)
            if name is not None:
                values[feature.name] = parameter_numbers(
                    dict(row), name, feature.components, self.path
                )
                continue
            parts = _parts(feature)
            if parts and all(part in row for part in parts):
                values[feature.name] = [
                    parameter_numbers(dict(row), part, 1, self.path) for part in parts
                ]
        return values

    def _row(self, names: tuple[str, ...], mesh: str) -> Mapping[str, Any]:
        for name in names:
            if name in self._rows:
                return self._rows[name]
        some = ", ".join(map(repr, list(self._rows)[:3]))
        raise ValueError(
            f"{self.path.name} must have a row for {mesh!r} in its column {self._column!r}, got"
            f" {len(self._rows)} others, as {some}"
        )


def _columns(feature: FeatureRecipe) -> tuple[str, ...]:
    return (feature.name, _key(feature), *_parts(feature))


def _key(feature: FeatureRecipe) -> str:
    """What the parameter was called where the training read it."""
    return feature.made.key if isinstance(feature.made, ParameterSource) else feature.name


def _parts(feature: FeatureRecipe) -> tuple[str, ...]:
    if not 1 < feature.components <= len(_AXES):
        return ()
    return tuple(f"{feature.name}_{axis}" for axis in _AXES[: feature.components])
