"""What comes of a model on a mesh: fields, errors where the truth is known, and what was odd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import Location, as_pyvista, with_arrays
from slipstream.evaluation.forces import Forces
from slipstream.inference.array_names import free_name, names_at
from slipstream.inference.derived import coefficients
from slipstream.inference.mesh_fields import InputChoices, MeshFields, regions_of
from slipstream.runs.ensemble import Ensemble, spread_of
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.recipe import Recipe
from slipstream.runs.tokens import Tokens


@dataclass(frozen=True, eq=False)
class MemberFields:
    """What one model gives at the predicted rows of a mesh."""

    values: NDArray[np.float32]
    """(N, k)"""
    tokens: Tokens
    plan: str
    """How it was computed, for people."""


@dataclass(frozen=True, eq=False)
class MeshPrediction:
    """The prediction of a model on one mesh, or of several models together (their mean);
    `fields["pressure"]` is at its points or cells."""

    source: Any
    """The path of the mesh, or the object in memory."""
    name: str
    location: Location
    fields: Mapping[str, NDArray[Any]]
    """Predicted targets in physical units and derived coefficients, (rows,) or (rows, k); NaN at
    rows that were not predicted."""
    units: Mapping[str, str]
    truth: Mapping[str, NDArray[Any]]
    """True values, where the mesh carries them."""
    tokens: Tokens
    """Of the first model."""
    inputs: MeshFields
    """What the model was given."""
    recipe: Recipe
    regions: tuple[str, ...]
    how: tuple[str, ...]
    """How it was computed: points and chunks, the tokens' points, what was assumed."""
    warnings: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """Which model, for the file."""
    members: tuple[Mapping[str, NDArray[Any]], ...] = ()
    """The fields of each of several models; empty for one."""
    tokens_of_members: tuple[Tokens, ...] = ()
    """The tokens of every model, in the order of the models."""

    @property
    def rows(self) -> int:
        return self.inputs.rows

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers of the whole sample that the model was given."""
        return {f.name: self.inputs.features[f.name] for f in self.recipe.parameters}

    @cached_property
    def errors(self) -> dict[str, float]:
        """Relative L1 error of each target whose truth the mesh has, over the predicted rows."""
        errors = {}
        for name, true in self.truth.items():
            values = self.fields[name].reshape(true.shape).astype(np.float64)
            known = np.isfinite(values).all(1) & np.isfinite(true).all(1)
            size = float(np.abs(true[known]).sum())
            if size > 0:
                errors[name] = float(np.abs(values[known] - true[known]).sum()) / size
        return errors

    @cached_property
    def spread(self) -> dict[str, NDArray[Any]]:
        """How far several models differ at each row, (rows,), see `spread_of`; empty for one."""
        names = self.members[0] if self.members else ()
        return {
            name: spread_of([member[name] for member in self.members]).astype(np.float32)
            for name in names
        }

    def of_member(self, number: int) -> MeshPrediction:
        """The prediction of one of several models alone."""
        return replace(self, fields=self.members[number], members=())

    @cached_property
    def mesh(self) -> Any:
        """The mesh as a pyvista object with the predicted arrays, the user's own unchanged."""
        source = self.source
        if isinstance(source, str | Path):
            source = as_pyvista(Path(source), regions=self.regions)
        arrays = self.named_arrays(names_at(source, self.location))
        return with_arrays(source, **self.at_location(arrays), units=self.array_units(arrays))

    def forces(self, *, flip_shear: bool = False, **reference: Any) -> Forces:
        """Forces and coefficients: `prediction.forces(area=0.75).cd`.

        `reference` are values of FlowReference: density, speed, area, length, drag, lift, centre,
        pressure, mirror. Those that are not given come from the card and the parameters of the
        model. ValueError where the model predicts no pressure on a surface.
        """
        from slipstream.inference.prediction_forces import ForceWishes, prediction_forces

        choices = ForceWishes(reference, flip_shear)
        return prediction_forces(self, choices).predicted

    def named_arrays(self, taken: set[str]) -> dict[str, NDArray[Any]]:
        """The arrays to write: NAME, or NAME_prediction where the mesh has an array NAME already;
        NAME_error, prediction less truth, where the truth is known; NAME_spread, of several
        models."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in self.fields.items():
            arrays[free_name(name, "_prediction", taken | arrays.keys())] = values
        for name, true in self.truth.items():
            error = self.fields[name] - true.reshape(self.fields[name].shape)
            arrays[free_name(f"{name}_error", "", taken | arrays.keys())] = error.astype(np.float32)
        for name, values in self.spread.items():
            arrays[free_name(f"{name}_spread", "", taken | arrays.keys())] = values
        return arrays

    def at_location(self, arrays: dict[str, NDArray[Any]]) -> dict[str, dict[str, NDArray[Any]]]:
        """The arrays as arguments of the functions that write meshes."""
        return {"point_arrays" if self.location == "point" else "cell_arrays": arrays}

    def array_units(self, arrays: Mapping[str, Any]) -> dict[str, str]:
        """The units of arrays that `named_arrays` gave: each has that of the field it is of."""
        stems = sorted(self.units, key=len, reverse=True)
        owners = {name: next((s for s in stems if name.startswith(s)), None) for name in arrays}
        return {name: self.units[owner] for name, owner in owners.items() if owner is not None}


def make_prediction(
    models: Ensemble,
    source: Any,
    inputs: MeshFields,
    several: Sequence[MemberFields],
    choices: InputChoices,
) -> MeshPrediction:
    """A prediction from what each model gives at the kept rows: their mean. ValueError where a
    value is not finite."""
    trained, recipe = models.first, models.first.recipe
    assert recipe is not None, "the inputs were made by it"
    named = [_named(trained, member.values) for member in several]
    fields = named[0] if len(named) == 1 else {n: _mean([m[n] for m in named]) for n in named[0]}
    derived, notes = coefficients(recipe, inputs.features, fields)
    derived = {name: own for name, own in derived.items() if name not in fields}
    units = {target.name: target.undivided_unit for target in trained.schema.targets}
    labels = (f"{one.config.name} step {one.metric['step']}" for one in models.members)
    together = [f"mean of {len(several)} models"] if len(several) > 1 else []
    return MeshPrediction(
        source=source,
        name=inputs.mesh.name,
        location=inputs.location,
        fields={name: inputs.at_all_rows(own) for name, own in {**fields, **derived}.items()},
        units={**units, **dict.fromkeys(derived, "1")},
        truth=inputs.truth,
        tokens=several[0].tokens,
        inputs=inputs,
        recipe=recipe,
        regions=regions_of(recipe, choices),
        how=(several[0].plan, *together, *inputs.notes, *notes),
        warnings=inputs.warnings,
        about={"model": ", ".join(labels), "weights": models.weights},
        members=tuple(
            {name: inputs.at_all_rows(own) for name, own in member.items()}
            for member in (named if len(named) > 1 else ())
        ),
        tokens_of_members=tuple(member.tokens for member in several),
    )


def _mean(several: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    return np.asarray(np.mean(several, axis=0, dtype=np.float64), np.float32)


def _named(trained: TrainedModel, values: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """The targets by name, (N,) or (N, components)."""
    named = {}
    start = trained.schema.columns("targets").start
    for target in trained.schema.targets:
        columns = trained.schema.columns(target.name)
        own = values[:, columns.start - start : columns.stop - start]
        if not np.isfinite(own).all():
            raise ValueError(f"the prediction of {target.name} must be finite, got NaN or infinity")
        named[target.name] = own[:, 0] if own.shape[1] == 1 else own
    return named
