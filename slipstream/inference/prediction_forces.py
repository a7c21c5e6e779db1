"""Forces and coefficients of a predicted surface and, where the mesh has the truth, the true ones.

Reference values come, the first that is known, from the caller, the card that the model was trained
by (`reference`), and the model's parameters: density and speed of the free stream and, where it is
a vector, its direction as that of the drag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards import is_openfoam
from slipstream.data.geometry import points_to_cells
from slipstream.data.meshes import is_case
from slipstream.evaluation.force_conventions import Conventions, find_conventions, stated_form
from slipstream.evaluation.force_faces import Faces, outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.forces import Forces, surface_forces
from slipstream.inference.derived import flow_density, flow_direction, flow_speed
from slipstream.inference.prediction import MeshPrediction
from slipstream.runs.recipe import TargetRecipe
from slipstream.runs.units import METRES, flow_factor


@dataclass(frozen=True)
class ForceWishes:
    """What a user says about forces."""

    reference: Mapping[str, Any] = field(default_factory=dict)
    """Values of FlowReference that are given; None for those that are not."""
    flip_shear: bool = False


@dataclass(frozen=True)
class PredictedForces:
    predicted: Forces
    true: Forces | None
    """None where the mesh does not have the true pressure and shear."""


def prediction_forces(
    prediction: MeshPrediction,
    choices: ForceWishes | None = None,
    *,
    conventions: Conventions | None = None,
) -> PredictedForces:
    """Forces of the fields; `conventions` are found where they are not given.

    Raises ValueError where the model predicts no pressure on a surface, or not on all of it.
    """
    choices = choices or ForceWishes()
    recipe = prediction.recipe
    pressure, shear = recipe.target_of("pressure"), recipe.target_of("shear")
    if pressure is None:
        raise ValueError(
            "forces need a model that predicts a pressure, got one of"
            f" {', '.join(target.name for target in prediction.recipe.targets)}"
        )
    if prediction.inputs.outside:
        raise ValueError(
            f"forces need a pressure on all of {prediction.name}, got a model that knows none"
            f" outside of the box of its training ({prediction.inputs.outside:,} rows)"
        )
    faces = _faces(prediction)
    reference = flow_reference(prediction, choices.reference)
    unit = prediction.units
    stated = [
        stated_form(unit[target.name], f"the unit of the model's {target.name}")
        for target in (pressure, shear or pressure)
    ]
    values = _values(prediction.fields[pressure.name]), _shear(prediction.fields, shear)
    on_faces = (
        None if values[1] is None else faces.values("shear", values[1], prediction.location, 3)
    )
    own, warnings = find_conventions(
        stated[0],
        stated[1],
        on_faces,
        faces,
        reference.axes[0],
        flip_shear=choices.flip_shear,
        openfoam=shear is not None and is_openfoam(shear.arrays_as_read),
    )
    used = conventions or own
    warnings = [*_gaps(prediction, faces), *warnings]

    def forces(p: NDArray[Any], tau: NDArray[Any] | None) -> Forces:
        where = prediction.location
        sums = surface_forces(faces.mesh, p, tau, where, reference, used, faces=faces)
        return replace(sums, warnings=(*warnings, *sums.warnings))

    known = prediction.truth.keys()
    true = None
    if pressure.name in known and (shear is None or shear.name in known):
        true_values = _values(prediction.truth[pressure.name]), _shear(prediction.truth, shear)
        if _is_whole(prediction, pressure) and (shear is None or _is_whole(prediction, shear)):
            true = forces(*true_values)
    return PredictedForces(forces(*values), true)


def flow_reference(prediction: MeshPrediction, given: Mapping[str, Any]) -> FlowReference:
    """The reference values that are given, in the card, or known from the parameters."""
    recipe, features = prediction.recipe, prediction.inputs.features
    known: dict[str, Any] = {
        "density": _finite(flow_density(recipe, features)),
        "speed": _finite(flow_speed(recipe, features)),
    }
    card: dict[str, Any] = dict(recipe.reference or {})
    pressure = recipe.target_of("pressure")
    if "pressure" in card and pressure is not None:
        card["pressure"] = pressure.as_stored(card["pressure"])
    stated = {**card, **{k: v for k, v in given.items() if v is not None}}
    direction = flow_direction(recipe, features)
    if direction is not None and "drag" not in stated:
        known["drag"] = tuple(map(float, direction))
        lift = np.asarray(stated.get("lift", (0.0, 0.0, 1.0)), np.float64)
        lift = lift - (lift @ direction) * direction
        if np.linalg.norm(lift) > 1e-6:
            known["lift"], stated = tuple(map(float, lift)), {**stated, "lift": None}
    merged = {**known, **{name: value for name, value in stated.items() if value is not None}}
    values = {name: _floats(value) for name, value in merged.items() if value is not None}
    parameters = {
        name: np.asarray(value) * flow_factor(recipe.feature(name).unit)
        for name, value in prediction.parameters.items()
    }
    return FlowReference.of(values, parameters)


def _floats(value: Any) -> Any:
    """Whole numbers as real ones, alone or in a vector; all else as it is."""
    if isinstance(value, tuple | list | np.ndarray):
        return tuple(map(_floats, value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _faces(prediction: MeshPrediction) -> Faces:
    inputs, source = prediction.inputs, prediction.source
    unit = prediction.recipe.coords.units[0]
    if unit not in METRES:
        raise ValueError(f"forces need coordinates in {', '.join(METRES)}, got {unit!r}")
    of_case = isinstance(source, str | Path) and is_case(Path(source))
    return outward_faces(
        inputs.mesh,
        facing="into the body" if of_case else "find",
        flip=inputs.choices.flip_normals,
        scale=inputs.choices.scale * METRES[unit],
    )


def _gaps(prediction: MeshPrediction, faces: Faces) -> list[str]:
    """A warning where faces with an area have corners without a prediction: points between faces
    that are back to back have no normal."""
    kept = prediction.inputs.kept
    if kept is None or prediction.location == "cell":
        return []
    lost = np.ones(prediction.rows)
    lost[kept] = 0
    areas = faces.areas
    share = float(areas[points_to_cells(faces.mesh, lost) > 0].sum() / areas.sum())
    if not share:
        return []
    return [
        f"{share:.2%} of the area has corners where nothing was predicted: pressure and shear are"
        " taken as 0 there"
    ]


def _values(values: NDArray[Any]) -> NDArray[np.float64]:
    """With 0 at rows that were not predicted; `_gaps` says where that matters."""
    wide = np.asarray(values, np.float64)
    return np.nan_to_num(wide[:, 0] if wide.ndim == 2 and wide.shape[1] == 1 else wide)


def _is_whole(prediction: MeshPrediction, target: TargetRecipe) -> bool:
    """Whether the truth is a number at every row that has a face with an area."""
    kept, true = prediction.inputs.kept, prediction.truth[target.name]
    return bool(np.isfinite(true if kept is None else true[kept]).all())


def _shear(
    fields: Mapping[str, NDArray[Any]], shear: TargetRecipe | None
) -> NDArray[np.float64] | None:
    return None if shear is None else _values(fields[shear.name])


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) and value > 0 else None
