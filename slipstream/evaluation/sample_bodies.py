"""Test samples as bodies with faces: coefficients of their true fields, or of predicted ones.

The rows of a store are points without faces; the mesh that a sample was read from has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.data.cards import is_openfoam, original_mesh
from slipstream.data.geometry import points_to_cells
from slipstream.data.store import Store
from slipstream.evaluation.force_conventions import Conventions, find_conventions, stated_form
from slipstream.evaluation.force_faces import Faces, Facing, outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.force_warnings import AT_POINTS
from slipstream.evaluation.forces import face_forces
from slipstream.runs.force_records import SHOWN
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.recipe import TargetRecipe
from slipstream.runs.units import METRES, flow_factor

_MISSING_AREA = 1e-6
"""The share of the area that may lack rows without a word."""


@dataclass(frozen=True)
class ForceRequest:
    meshes: Path
    """The folder that was ingested."""
    reference: Mapping[str, Any] = field(default_factory=dict)
    """Reference values that go before those of the card: area, density, speed, drag, lift."""
    flip_shear: bool = False
    flip_normals: bool = False

    def absolute(self) -> ForceRequest:
        """For workers, which have other working folders."""
        return replace(self, meshes=self.meshes.absolute())

    @property
    def asked(self) -> dict[str, Any]:
        """What coefficients depend on, as JSON."""
        given = {name: value for name, value in self.reference.items() if value is not None}
        lists = {n: list(v) if isinstance(v, tuple) else v for n, v in given.items()}
        return {**lists, "flip_shear": self.flip_shear, "flip_normals": self.flip_normals}


class Bodies:
    """Reads the mesh and the true fields of samples."""

    def __init__(self, trained: TrainedModel, store: Store, request: ForceRequest) -> None:
        if trained.recipe is None:
            raise ValueError(
                "the model must say what its targets are to have forces, got an older file:"
                " `slipstream model RUN --store STORE` completes it"
            )
        self.recipe, self.store, self.request = trained.recipe, store, request
        self.pressure = self.recipe.target_of("pressure")
        self.shear = self.recipe.target_of("shear")
        if self.pressure is None:
            names = ", ".join(target.name for target in self.recipe.targets)
            raise ValueError(f"forces need a target that is a pressure, got {names}")
        unit = store.schema.coords[0].unit
        if unit not in METRES:
            raise ValueError(f"forces need coordinates in {', '.join(METRES)}, got {unit!r}")
        self.scale = METRES[unit]

    def read(self, sample: str) -> Body:
        rows = np.asarray(self.store.array(sample))
        features = rows[:, self.store.schema.columns("features")]
        truth = rows[:, self.store.schema.columns("targets")]
        reference = self._reference(rows[0])
        original = original_mesh(self.store, sample, self.request.meshes)
        facing: Facing = "into the body" if self.recipe.patches else "find"
        flip = self.request.flip_normals
        faces = outward_faces(original.mesh, facing=facing, flip=flip, scale=self.scale)
        onto = _Onto(faces, original.location, original.rows)
        conventions, doubts = self._conventions(onto, truth, features, reference)
        return Body(self, onto, features, truth, reference, conventions, tuple(doubts))

    def columns(self, target: TargetRecipe) -> slice:
        start = self.store.schema.columns("targets").start
        columns = self.store.schema.columns(target.name)
        return slice(columns.start - start, columns.stop - start)

    def _reference(self, row: NDArray[Any]) -> FlowReference:
        """Of the options, else of the card, else by the parameters that are density and speed."""
        parameters = {
            feature.name: row[self.store.schema.columns(feature.name)] * flow_factor(feature.unit)
            for feature in self.recipe.parameters
        }
        known: dict[str, Any] = {}
        density = self.recipe.density
        if density is not None:
            own = (
                density.value if density.feature is None else float(parameters[density.feature][0])
            )
            known["density"] = own
        speed = [parameters[name] for name in self.recipe.speed if name in parameters]
        if speed:
            known["speed"] = float(np.linalg.norm(np.concatenate(speed)))
        known |= dict(self.recipe.reference or {})
        if "pressure" in known and self.pressure is not None:
            known["pressure"] = self.pressure.as_stored(known["pressure"])
        singles = {name: value for name, value in parameters.items() if len(value) == 1}
        return FlowReference.of(known, singles, **self.request.reference)

    def _conventions(
        self, onto: _Onto, truth: NDArray[Any], features: NDArray[Any], reference: FlowReference
    ) -> tuple[Conventions, list[str]]:
        assert self.pressure is not None
        pressure, friction = (
            stated_form(target.undivided_unit, f"the unit of {target.name}")
            for target in (self.pressure, self.shear or self.pressure)
        )
        shear = self.on_faces(onto, truth, features)[1]
        drag, flip = reference.axes[0], self.request.flip_shear
        openfoam = self.shear is not None and is_openfoam(self.shear.arrays_as_read)
        return find_conventions(
            pressure, friction, shear, onto.kept, drag, flip_shear=flip, openfoam=openfoam
        )

    def on_faces(
        self, onto: _Onto, values: NDArray[Any], features: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Pressure and shear on the faces, undivided, from targets as stored."""
        pair = torch.from_numpy(np.array(values)), torch.from_numpy(np.array(features))
        undivided = self.store.schema.undivided(*pair).numpy()
        assert self.pressure is not None
        pressure = onto.values(undivided[:, self.columns(self.pressure)])[:, 0]
        if self.shear is None:
            return pressure, None
        return pressure, onto.values(undivided[:, self.columns(self.shear)])


class _Onto:
    """Values at the rows of a sample on the faces of its mesh.

    The rows need not be all of the mesh's: faces without a row, or with a corner without one, are
    left out of the sums.
    """

    def __init__(self, faces: Faces, location: str, rows: NDArray[np.intp]) -> None:
        self.faces, self.location, self.rows = faces, location, rows
        count = len(faces.vectors) if location == "cell" else len(faces.mesh.points())
        known = np.zeros(count)
        known[rows] = 1
        self.known = known == 1
        if location == "point":
            # A mean over corners of 0 and 1: it is 1 where all are known.
            self.known = points_to_cells(faces.mesh, known) > 1 - 1e-9
        vectors, centres = faces.vectors[self.known], faces.centres[self.known]
        self.kept = replace(faces, vectors=vectors, centres=centres)

    @property
    def missing(self) -> float:
        """The share of the area that is left out."""
        return float(1 - self.kept.areas.sum() / self.faces.areas.sum())

    def values(self, at_rows: NDArray[Any]) -> NDArray[np.float64]:
        count = (
            len(self.faces.vectors) if self.location == "cell" else len(self.faces.mesh.points())
        )
        placed = np.zeros((count, at_rows.shape[1]))
        placed[self.rows] = at_rows
        if self.location == "point":
            placed = points_to_cells(self.faces.mesh, placed)
        return placed[self.known]


@dataclass(frozen=True, eq=False)
class Body:
    """One sample: its faces, its true fields and how they are read."""

    bodies: Bodies
    onto: _Onto
    features: NDArray[Any]
    truth: NDArray[Any]
    """All targets as stored, at the rows."""
    reference: FlowReference
    conventions: Conventions
    doubts: tuple[str, ...]

    def coefficients(self, values: NDArray[Any]) -> dict[str, float]:
        """Of targets as stored; ValueError where a reference value is missing."""
        pressure, shear = self.bodies.on_faces(self.onto, values, self.features)
        forces = face_forces(self.onto.kept, pressure, shear, self.reference, self.conventions)
        if forces.missing:
            raise ValueError(
                f"coefficients need {' and '.join(forces.missing)}"
                f" ({', '.join(f'--{name} VALUE' for name in forces.missing)}, or `reference:` in"
                " the card), got none"
            )
        return {name: forces.coefficients[name] for name in SHOWN}

    def warnings(self) -> list[str]:
        """What may be wrong with the true coefficients."""
        pressure, shear = self.bodies.on_faces(self.onto, self.truth, self.features)
        forces = face_forces(self.onto.kept, pressure, shear, self.reference, self.conventions)
        sentences = [*self.doubts, *forces.warnings]
        if self.onto.location == "point":
            sentences.insert(0, AT_POINTS)
        if self.onto.missing > _MISSING_AREA:
            sentences.append("some faces are not in the store and are left out of the sums")
        return sentences

    @property
    def definition(self) -> str:
        """Reference values and conventions as a sentence."""
        values = {n: v for n, v in asdict(self.reference).items() if v not in (None, 0.0)}
        texts = [f"{n} {_text(v)}" for n, v in values.items() if v != (0.0, 0.0, 0.0)]
        stated = [f"pressure {self.conventions.pressure.value}"]
        if self.bodies.shear is not None:
            stated.append(
                f"shear {self.conventions.shear.value}, {self.conventions.traction.value}"
            )
        return ", ".join([*texts, *stated])


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + " ".join(f"{number:.4g}" for number in value) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
