"""What comes of a model on a mesh: fields, errors where the truth is known, and what was odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import Location, as_pyvista, with_arrays
from slipstream.runs.recipe import Recipe
from slipstream.runs.tokens import Tokens


@dataclass(frozen=True, eq=False)
class MeshPrediction:
    """The prediction of a model on one mesh; `fields["pressure"]` is at its points or cells."""

    source: Any
    """The path of the mesh, or the object in memory."""
    name: str
    location: Location
    fields: Mapping[str, NDArray[Any]]
    """Predicted targets in physical units and derived coefficients, (rows,) or (rows, k)."""
    units: Mapping[str, str]
    truth: Mapping[str, NDArray[Any]]
    """True values, where the mesh carries them."""
    tokens: Tokens
    recipe: Recipe
    features: Mapping[str, Any]
    regions: tuple[str, ...]
    how: tuple[str, ...]
    """How it was computed: points and chunks, the tokens' points, what was assumed."""
    warnings: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """Which model, for the file."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.fields.values())))

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers of the whole sample that the model was given."""
        return {f.name: self.features[f.name] for f in self.recipe.parameters}

    @cached_property
    def errors(self) -> dict[str, float]:
        """Relative L1 error of each target that the mesh has the truth of."""
        errors = {}
        for name, true in self.truth.items():
            size = float(np.abs(true).sum())
            if size > 0:
                values = self.fields[name].reshape(true.shape)
                errors[name] = float(np.abs(values.astype(np.float64) - true).sum()) / size
        return errors

    @cached_property
    def mesh(self) -> Any:
        """The mesh as a pyvista object with the predicted arrays, the user's own unchanged."""
        source = self.source
        if isinstance(source, str | Path):
            source = as_pyvista(Path(source), regions=self.regions)
        key = "point_arrays" if self.location == "point" else "cell_arrays"
        arrays = self.named_arrays(_taken(source, self.location))
        units = {name: self.units[of] for name, of in self._units_of(arrays).items()}
        return with_arrays(source, **{key: arrays}, units=units)

    def named_arrays(self, taken: set[str]) -> dict[str, NDArray[Any]]:
        """The arrays to write: NAME, or NAME_prediction where the mesh has an array NAME already;
        NAME_error, prediction less truth, where the truth is known."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in self.fields.items():
            arrays[_free(name, "_prediction", taken | arrays.keys())] = values
        for name, true in self.truth.items():
            error = self.fields[name] - true.reshape(self.fields[name].shape)
            arrays[_free(f"{name}_error", "_2", taken | arrays.keys())] = error.astype(np.float32)
        return arrays

    def array_units(self, arrays: Mapping[str, Any]) -> dict[str, str]:
        return {name: self.units[of] for name, of in self._units_of(arrays).items()}

    def _units_of(self, arrays: Mapping[str, Any]) -> dict[str, str]:
        """The field that each array is of; those of its truth have its unit."""
        of = {}
        for name in arrays:
            stem = name
            while stem not in self.units:
                stem, cut, _ = stem.rpartition("_")
                if not cut:
                    break
            if stem in self.units:
                of[name] = stem
        return of


def _free(name: str, ending: str, taken: set[str]) -> str:
    if name in taken:
        name += ending
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _taken(source: Any, location: Location) -> set[str]:
    leaves = [source] if not hasattr(source, "keys") or hasattr(source, "point_data") else source
    names: set[str] = set()
    for leaf in leaves:
        held = getattr(leaf, f"{location}_data", None)
        names |= set(held.keys()) if held is not None else set()
    return names
