"""What pressure and shear of a surface mean: their forms and the shear's sign, with reasons.

A pressure is kinematic (divided by the density, m^2/s^2), dimensional (Pa) or a coefficient
(divided by the dynamic pressure, "1"), and so is a shear. A shear is the traction that the fluid
exerts on the body, or, as OpenFOAM's wallShearStress, the one that the body exerts on the fluid.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from slipstream.core.plain_checks import check_choice
from slipstream.evaluation.force_faces import Faces, Stated
from slipstream.runs.make_recipe import form_of
from slipstream.runs.units import stress_unit

Form = Literal["kinematic", "dimensional", "coefficient"]
FORMS: tuple[Form, ...] = ("kinematic", "dimensional", "coefficient")
ON_BODY, ON_FLUID = "on the body", "on the fluid"
_CLEAR = 0.05
"""Below this mean cosine between shear and flow, the shear's sign is not clear."""


@dataclass(frozen=True)
class Conventions:
    """How the arrays of a surface are read. Each is stated with the reason why it was taken."""

    pressure: Stated
    """kinematic, dimensional or coefficient."""
    shear: Stated
    """The same for the shear."""
    traction: Stated
    """on the body, or on the fluid as in OpenFOAM."""
    pressure_factor: float = 1.0
    """What one unit of the pressure is in Pa, m^2/s^2 or 1: 1000 for kPa."""
    shear_factor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("pressure", "shear"):
            check_choice(f"the form of the {name}", getattr(self, name).value, FORMS)
        check_choice("the traction", self.traction.value, (ON_BODY, ON_FLUID))

    @property
    def pressure_form(self) -> Form:
        return cast(Form, self.pressure.value)

    @property
    def shear_form(self) -> Form:
        return cast(Form, self.shear.value)

    @property
    def sign(self) -> float:
        """What makes the shear the traction on the body."""
        return 1.0 if self.traction.value == ON_BODY else -1.0

    @classmethod
    def given(cls, pressure: str, shear: str | None = None, traction: str = ON_BODY) -> Conventions:
        """Conventions that the caller knows."""
        why = "given"
        return cls(Stated(pressure, why), Stated(shear or pressure, why), Stated(traction, why))

    def flipped(self, why: str = "reversed by --flip-shear") -> Conventions:
        """The same with the other sign of the shear."""
        other = ON_FLUID if self.traction.value == ON_BODY else ON_BODY
        return replace(self, traction=Stated(other, why))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def stated_form(unit: str, why: str) -> tuple[Stated, float]:
    """The form of a pressure or shear by its unit, and the factor to Pa; ValueError if unknown."""
    form = form_of(unit)
    if form == "unknown":
        raise ValueError(
            f"the unit must be one of Pa, kPa, bar, m^2/s^2 or 1 to tell the form, got {unit!r}"
        )
    return Stated(form, f"{why}: {unit}"), stress_unit(unit)


def find_conventions(
    pressure: tuple[Stated, float],
    shear: tuple[Stated, float],
    values: NDArray[np.float64] | None,
    faces: Faces,
    drag: NDArray[np.float64],
    *,
    flip_shear: bool = False,
    openfoam: bool = False,
) -> tuple[Conventions, list[str]]:
    """Conventions by the forms of pressure and shear (`stated_form`), and warnings.

    The sign of the shear is found by `guess_traction` from its `values` on the faces, (F, 3), None
    where there is none, and the unit vector `drag`; `flip_shear` reverses what it finds. `openfoam`
    says that the shear is known to be OpenFOAM's.
    """
    traction, warning = Stated(ON_BODY, "there is no shear"), None
    if values is not None:
        traction, warning = guess_traction(values, faces.areas, drag, openfoam)
    found = Conventions(pressure[0], shear[0], traction, pressure[1], shear[1])
    if flip_shear and values is not None:
        return found.flipped(f"reversed by --flip-shear, though {traction.reason}"), []
    return found, [warning] if warning else []


def guess_traction(
    shear: NDArray[np.float64],
    areas: NDArray[np.float64],
    drag: NDArray[np.float64],
    openfoam: bool = False,
) -> tuple[Stated, str | None]:
    """The sign of a shear (F, 3) on faces with these areas, and a warning where it is not clear.

    Friction pulls a body along with the flow: where the mean shear is against the unit vector
    `drag`, it is the traction on the fluid. That of OpenFOAM (`openfoam`) always is.
    """
    size = float((np.linalg.norm(shear, axis=1) * areas).sum())
    if size == 0:
        return Stated(ON_FLUID if openfoam else ON_BODY, "it is 0 everywhere"), None
    cosine = float((shear @ drag * areas).sum()) / size
    way = "against" if cosine < 0 else "along"
    seen = f"its mean is {way} the flow by {abs(cosine):.3g} of its mean size"
    clear = abs(cosine) >= _CLEAR
    if openfoam:
        odd = f"the shear of OpenFOAM must be against the flow, but {seen}: is drag its direction?"
        return Stated(ON_FLUID, f"OpenFOAM's; {seen}"), odd if clear and cosine > 0 else None
    warning = f"the sign of the shear is a guess: {seen}; --flip-shear reverses it"
    return Stated(ON_FLUID if cosine < 0 else ON_BODY, seen), None if clear else warning
