"""Forces on a surface from its pressure and shear.

    faces = outward_faces(mesh)
    forces = face_forces(faces, pressure, shear, reference, conventions)
    forces.cd, forces.cl, forces.warnings

F = sum (-p n + t) |S| over the faces, with n |S| = S the area vector out of the body and t the
traction on the body. That is sum p S' - sum tau |S| with S' = -S and OpenFOAM's tau = -t. Sums are
in float64 over the faces as they are: docs/forces.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import Location, Mesh
from slipstream.evaluation.force_conventions import Conventions, find_conventions, stated_form
from slipstream.evaluation.force_faces import Faces, outward_faces
from slipstream.evaluation.force_forms import common_form, dynamic_pressure, stress_factor
from slipstream.evaluation.force_reference import AXES, FlowReference, Vector
from slipstream.evaluation.force_result import UNITS, Forces
from slipstream.evaluation.force_warnings import AT_POINTS, force_warnings

Values = NDArray[np.float64]

__all__ = [
    "FlowReference",
    "Forces",
    "contributions",
    "face_forces",
    "forces_by_units",
    "mirror",
    "surface_forces",
]


def surface_forces(
    mesh: Mesh,
    pressure: NDArray[Any],
    shear: NDArray[Any] | None,
    location: Location,
    reference: FlowReference,
    conventions: Conventions,
    *,
    faces: Faces | None = None,
) -> Forces:
    """Forces on a surface mesh from its pressure (rows,) and shear (rows, 3) at points or cells.

    `faces` of the mesh may be given where forces are wanted several times: finding out which way
    they turn takes longest. ValueError for arrays of another shape or with NaN, a mesh that is no
    surface, and forms that cannot be added without a density or speed that is not known.
    """
    faces = faces if faces is not None else outward_faces(mesh)
    p = faces.values("pressure", pressure, location, 1)
    tau = None if shear is None else faces.values("shear", shear, location, 3)
    notes = [AT_POINTS] if location == "point" else []
    return face_forces(faces, p, tau, reference, conventions, notes=notes)


def forces_by_units(
    mesh: Mesh,
    location: Location,
    pressure: tuple[NDArray[Any], str],
    shear: tuple[NDArray[Any], str] | None,
    reference: FlowReference,
    *,
    faces: Faces | None = None,
    flip_shear: bool = False,
    openfoam: bool = False,
) -> Forces:
    """The same from arrays with their units, which tell the forms; the sign of the shear is found.

    `openfoam` says that the shear is OpenFOAM's, the traction on the fluid.
    """
    faces = faces if faces is not None else outward_faces(mesh)
    p = faces.values("pressure", pressure[0], location, 1)
    tau = None if shear is None else faces.values("shear", shear[0], location, 3)
    form = stated_form(pressure[1], "its unit")
    conventions, doubts = find_conventions(
        form,
        form if shear is None else stated_form(shear[1], "its unit"),
        tau,
        faces,
        reference.axes[0],
        flip_shear=flip_shear,
        openfoam=openfoam,
    )
    notes = [AT_POINTS, *doubts] if location == "point" else doubts
    return face_forces(faces, p, tau, reference, conventions, notes=notes)


def face_forces(
    faces: Faces,
    pressure: Values,
    shear: Values | None,
    reference: FlowReference,
    conventions: Conventions,
    *,
    notes: Sequence[str] = (),
) -> Forces:
    """The same from values on the faces, (F,) and (F, 3); `notes` come before the warnings."""
    form = common_form(reference, conventions, shear is not None)
    parts = contributions(faces.vectors, pressure, shear, reference, conventions)
    arms = faces.centres - np.asarray(reference.centre)
    sums = [(_sum(part), _sum(np.cross(arms, part))) for part in parts]
    mirrored = [mirror(force, moment, reference) for force, moment in sums]
    area_sum, _ = mirror(_sum(faces.vectors), np.zeros(3), reference)
    forces = Forces(
        pressure=_vector(mirrored[0][0]),
        friction=_vector(mirrored[1][0]) if shear is not None else None,
        pressure_moment=_vector(mirrored[0][1]),
        friction_moment=_vector(mirrored[1][1]) if shear is not None else None,
        unit=UNITS[form],
        dynamic_pressure=dynamic_pressure(form, reference),
        area_sum=_vector(area_sum),
        wetted=float(faces.areas.sum()) * (2 if reference.mirror else 1),
        faces=len(faces.vectors),
        facing=faces.facing,
        undecided=faces.undecided,
        reference=reference,
        conventions=conventions,
    )
    said = force_warnings(forces, faces, pressure)
    return replace(forces, warnings=(*notes, *said))


def contributions(
    vectors: Values,
    pressure: Values,
    shear: Values | None,
    reference: FlowReference,
    conventions: Conventions,
) -> list[Values]:
    """The force of the pressure on each face and, with a shear, that of the friction, (F, 3) each.

    In the unit of `common_form`.
    """
    form = common_form(reference, conventions, shear is not None)
    p = (pressure - reference.pressure) * conventions.pressure_factor
    parts = [-p[:, None] * vectors * stress_factor(conventions.pressure_form, form, reference)]
    if shear is not None:
        areas = np.linalg.norm(vectors, axis=1, keepdims=True)
        factor = conventions.sign * conventions.shear_factor
        parts.append(
            shear * areas * factor * stress_factor(conventions.shear_form, form, reference)
        )
    return parts


def mirror(force: Values, moment: Values, reference: FlowReference) -> tuple[Values, Values]:
    """Force and moment with those of the other half of the body, if there is a mirror.

    The force across the plane cancels, and the moments that turn out of it. They are about a centre
    that need not lie in the plane.
    """
    if reference.mirror is None:
        return force, moment
    axis = AXES.index(reference.mirror)
    across = np.eye(3)[axis]
    offset = reference.centre[axis] * across
    doubled = 2 * force * (1 - across)
    # About the centre's foot in the plane the moment is along the axis alone: moved from there.
    return doubled, 2 * moment * across - np.cross(offset, doubled)


def _sum(values: Values) -> Values:
    total: Values = values.sum(0)
    return total


def _vector(values: Values) -> Vector:
    return (float(values[0]), float(values[1]), float(values[2]))
