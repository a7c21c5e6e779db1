"""What may be wrong with forces, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slipstream.evaluation.force_faces import Faces
from slipstream.evaluation.force_forms import dynamic_pressure
from slipstream.evaluation.force_reference import AXES
from slipstream.evaluation.force_result import Forces

AT_POINTS = (
    "values are at points, and each face takes the mean of its corners: where they were averaged"
    " from cells, a drag coefficient may be off by 0.05"
)
_LEAST_CP, _MOST_CP = 0.05, 20.0
_ROUNDING = 1e-12
_FLAT = 1e-6
"""The share of its area that a face may have along the lift, where the flow is across it."""
_UNDECIDED = 0.001
"""The share of the area that may be undecided without a word."""
_ABSOLUTE = 3.0
"""A mean pressure above this many times its range looks absolute."""
_MOST_AREAS = 1000.0
"""A surface this many times as large as the reference area is in another unit; cars have 13."""
_BEYOND = 0.01
"""The share of its extent by which a half model may cross its mirror."""


def force_warnings(forces: Forces, faces: Faces, pressure: NDArray[np.float64]) -> Iterator[str]:
    """Sentences about faces, pressure and mirror; `pressure` is on the faces, as it was given."""
    if forces.undecided > _UNDECIDED:
        yield (
            f"the faces of {forces.undecided:.1%} of the area may face either way, into the body or"
            " out of it: --flip-normals turns all of them"
        )
    if faces.around:
        yield (
            f"{faces.around:.1%} of the area is taken for a tunnel or far field around the bodies,"
            " and its forces are in the sums: --patches chooses the bodies"
        )
    if forces.friction is None:
        yield "there is no shear: forces and coefficients are those of the pressure alone"
    yield from _open(forces)
    yield from _absolute(forces, faces, pressure)
    yield from _implausible(forces, pressure)
    along_lift = np.abs(faces.vectors @ forces.reference.axes[2])
    if along_lift.max() <= _FLAT * faces.areas.max():
        yield (
            "no face of the mesh faces along the lift, as of a flow in a plane across it: the lift"
            " is 0; --lift 0,1,0 is for a flow in the plane of x and y"
        )
    area = forces.reference.area
    if area is not None and forces.wetted > _MOST_AREAS * area:
        yield (
            f"the faces have {forces.wetted:.4g} m^2, {forces.wetted / area:.3g} times the"
            " reference area: are the coordinates in m? --scale 0.001 is for mm"
        )
    if forces.reference.mirror is not None:
        axis = AXES.index(forces.reference.mirror)
        places = faces.centres[:, axis]
        low, high = float(places.min()), float(places.max())
        if min(-low, high) > _BEYOND * (high - low):
            yield (
                f"the mesh lies on both sides of {forces.reference.mirror} = 0, from {low:.4g} to"
                f" {high:.4g}: a half model with this mirror lies on one"
            )


def _implausible(forces: Forces, pressure: NDArray[np.float64]) -> Iterator[str]:
    """A pressure of another form, unit or speed than was taken gives a coefficient far from 1."""
    stress = dynamic_pressure(forces.conventions.pressure_form, forces.reference)
    if stress is None:
        return
    gauge = (pressure - forces.reference.pressure) * forces.conventions.pressure_factor
    largest = float(np.abs(gauge).max()) / stress
    if not _LEAST_CP <= largest <= _MOST_CP and largest > 0:
        yield (
            f"the pressure coefficient reaches {largest:.3g} on the body, where about 1 is usual:"
            f" is the pressure {forces.conventions.pressure_form}, and the speed right?"
            " --pressure-form and --speed change them"
        )


def _open(forces: Forces) -> Iterator[str]:
    if not forces.open:
        return
    size = float(np.linalg.norm(forces.area_sum))
    text = f"open surface: the area vectors sum to {size:.4g} m^2 of {forces.wetted:.4g}"
    changes = forces.reference_changes
    if not changes:
        yield f"{text}, so that forces change by as much times any shift of the pressure"
        return
    shown = {name: 0 if abs(value) < _ROUNDING else value for name, value in changes.items()}
    shifts = ", ".join(f"{name.capitalize()} by {value:+.4g}" for name, value in shown.items())
    by = "a dynamic pressure"
    if forces.dynamic_pressure is not None and forces.dynamic_pressure != 1:
        by += f" ({forces.dynamic_pressure:.6g} {_stress(forces)})"
    yield f"{text}: {shifts} if the pressure is higher by {by} everywhere"


def _stress(forces: Forces) -> str:
    return "Pa" if forces.unit == "N" else "m^2/s^2"


def _absolute(forces: Forces, faces: Faces, pressure: NDArray[np.float64]) -> Iterator[str]:
    """A pressure whose mean is far above its range has no reference subtracted."""
    mean = float(np.average(pressure, weights=faces.areas)) - forces.reference.pressure
    span = float(np.ptp(pressure))
    if mean <= 0 or mean < _ABSOLUTE * span or span == 0:
        return
    text = f"the pressure is {mean:.6g} on average and varies by {span:.4g}: is it absolute?"
    if forces.open:
        text += " Then these forces are wrong, since the surface is open:"
    yield f"{text} --reference-pressure subtracts what it is in the free stream"
