"""The forces of a mesh file from its own arrays: which they are, what they mean, and the sums.

forces = mesh_forces(Path("car.vtp"), FlowReference(speed=30, area=2.1))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.core.plain_checks import check_choice
from slipstream.data.cards import is_openfoam
from slipstream.data.meshes import (
    INTERNAL,
    is_case,
    mesh_info,
    patches_of,
    read_mesh,
)
from slipstream.evaluation.force_arrays import (
    Chosen,
    choose_pressure,
    choose_shear,
    guess_form,
    unit_in_file,
)
from slipstream.evaluation.force_conventions import (
    FORMS,
    Conventions,
    find_conventions,
    stated_form,
)
from slipstream.evaluation.force_faces import Faces, Facing, Stated, outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.force_result import Forces
from slipstream.evaluation.force_warnings import AT_POINTS
from slipstream.evaluation.forces import face_forces

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ForceChoices:
    """What a user may say of a mesh; None where it is to be found out."""

    pressure: str | None = None
    """The name of an array."""
    shear: str | None = None
    pressure_form: str | None = None
    """kinematic, dimensional or coefficient."""
    shear_form: str | None = None
    patches: tuple[str, ...] = ()
    """Patches of an OpenFOAM case, or blocks of a .vtm, by name or pattern."""
    scale: float = 1.0
    """Coordinates are multiplied by it."""
    flip_normals: bool = False
    flip_shear: bool = False

    def __post_init__(self) -> None:
        for name in ("pressure_form", "shear_form"):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), FORMS)


FOUND = ForceChoices()
"""All is found out."""


@dataclass(frozen=True, eq=False)
class SurfaceFields:
    """A surface with its pressure and shear on the faces, and how they are read."""

    faces: Faces
    pressure: Values
    """(F,), as in the file."""
    shear: Values | None
    """(F, 3)"""
    arrays: tuple[str, ...]
    """The names of the arrays: the pressure and, where there is one, the shear."""
    conventions: Conventions
    notes: tuple[str, ...]

    def forces(self, reference: FlowReference) -> Forces:
        return face_forces(
            self.faces, self.pressure, self.shear, reference, self.conventions, notes=self.notes
        )


def mesh_forces(path: Path, reference: FlowReference, choices: ForceChoices = FOUND) -> Forces:
    """Forces from the pressure and, where it has one, the shear of a mesh file or OpenFOAM case.

    ValueError, with one sentence, where it has no pressure or several, is no surface, or has
    values that are not finite.
    """
    return read_surface(path, reference, choices).forces(reference)


def read_surface(
    path: Path, reference: FlowReference, choices: ForceChoices = FOUND
) -> SurfaceFields:
    """What `mesh_forces` adds up. The reference gives the direction of the flow, which tells the
    sign of the shear, and the speed, which tells the form of a pressure without a unit."""
    regions = _regions(path, choices.patches)
    held = mesh_info(path, regions=regions).arrays
    pressure = choose_pressure(held, choices.pressure, path.name)
    shear, notes = choose_shear(held, choices.shear, path.name)
    wanted = [*pressure.wanted, *(shear.wanted if shear else ())]
    mesh = read_mesh(path, wanted, regions=regions)
    faces = outward_faces(
        mesh, facing=_facing(path), flip=choices.flip_normals, scale=choices.scale
    )
    arrays = [one for one in (pressure, shear) if one is not None]
    values = [
        faces.values(one.name, one.read(mesh), one.location, one.components) for one in arrays
    ]
    if any(one.location == "point" for one in arrays):
        notes.insert(0, AT_POINTS)
    names = [info.name for info in held]
    forms = _forms(path, arrays, values, names, reference.speed, choices)
    tau = values[1] if shear else None
    conventions, doubts = find_conventions(
        forms[0],
        forms[-1],
        tau,
        faces,
        reference.axes[0],
        flip_shear=choices.flip_shear,
        openfoam=shear is not None and is_openfoam([shear.name]),
    )
    return SurfaceFields(
        faces,
        values[0],
        tau,
        tuple(one.name for one in arrays),
        conventions,
        (*notes, *doubts),
    )


def _regions(path: Path, patches: Sequence[str]) -> tuple[str, ...]:
    """The regions to read; ValueError where a case is to be read without naming its patches."""
    known = patches_of(path) if is_case(path) or path.suffix.lower() == ".vtm" else []
    if known and not patches:
        some = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise ValueError(
            f"--patches must name the patches of {path.name} that are the body ({some}), got none"
        )
    return tuple(patches) or (INTERNAL,)


def _facing(path: Path) -> Facing:
    """OpenFOAM's patches point out of the fluid; in all other files the geometry decides."""
    of_case = is_case(path) or (path.suffix.lower() == ".vtm" and bool(patches_of(path)))
    return "into the body" if of_case else "find"


def _forms(
    path: Path,
    arrays: Sequence[Chosen],
    values: Sequence[Values],
    names: Sequence[str],
    speed: float | None,
    choices: ForceChoices,
) -> list[tuple[Stated, float]]:
    """The form of each array: given, by its unit in the file, or a guess."""
    forms: list[tuple[Stated, float]] = []
    given = (choices.pressure_form, choices.shear_form)
    for array, own, form in zip(arrays, values, given, strict=False):
        unit = None if form else unit_in_file(path, array, _regions(path, choices.patches))
        if form:
            forms.append((Stated(form, "given"), 1.0))
        elif unit:
            forms.append(stated_form(*unit))
        elif forms and array.role != "skin friction" and forms[0][0].value != "coefficient":
            forms.append((Stated(forms[0][0].value, "a guess, like the pressure"), 1.0))
        else:
            forms.append(guess_form(array, own, names, speed))
    return forms
