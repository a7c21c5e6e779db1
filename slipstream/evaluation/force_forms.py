"""Stresses in one form, kinematic, dimensional or coefficient, made those of another."""

from __future__ import annotations

import math

from slipstream.evaluation.force_conventions import Conventions, Form
from slipstream.evaluation.force_reference import FlowReference

_BY_WORTH: tuple[Form, ...] = ("dimensional", "kinematic", "coefficient")


def common_form(reference: FlowReference, conventions: Conventions, with_shear: bool) -> Form:
    """In which form forces can be given: dimensional (N) where density and speed are known.

    ValueError where pressure and shear have different forms, and what relates them is not known.
    """
    own = (conventions.pressure_form, *((conventions.shear_form,) if with_shear else ()))
    for form in _BY_WORTH:
        if all(math.isfinite(stress_factor(one, form, reference)) for one in own):
            return form
    raise ValueError(
        f"density and speed must be known to add a pressure that is {own[0]} to a shear that is"
        f" {own[1]}, got density {reference.density}, speed {reference.speed}"
    )


def dynamic_pressure(form: Form, reference: FlowReference) -> float | None:
    """0.5 rho U^2 in a form: 0.5 U^2 if kinematic, 1 if a coefficient; None where not known."""
    if form == "coefficient":
        return 1.0
    density = 1.0 if form == "kinematic" else reference.density
    if density is None or reference.speed is None:
        return None
    return 0.5 * density * reference.speed**2


def stress_factor(given: Form, wanted: Form, reference: FlowReference) -> float:
    """What makes a stress of one form one of another; NaN where it is not known."""
    if given == wanted:
        return 1.0
    if {given, wanted} == {"kinematic", "dimensional"} and reference.density is not None:
        return reference.density if wanted == "dimensional" else 1 / reference.density
    own, other = (dynamic_pressure(form, reference) for form in (given, wanted))
    return other / own if own is not None and other is not None else float("nan")
