"""The likely role and unit of an array, from its name and its numbers, with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ATMOSPHERE = 101325.0

TARGETS = (
    "pressure",
    "pressure coefficient",
    "velocity",
    "wall shear",
    "temperature",
    "density",
)
"""Roles that a model is asked to predict."""
OUTSIDERS = ("id", "coordinates", "fluctuation", "area")
"""Roles that are neither input nor output."""

_ROLES: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("total pressure", r"(total|stagnation)pressure|ptot(al)?|p0|pt|cptt?|cptot(al)?", (1,)),
    ("pressure coefficient", r"cp|(static)?pressurecoeff(icient)?|coeff(icient)?ofpressure", (1,)),
    (
        "pressure",
        r"p|ps|prgh|press|pstatic|(static|gauge|relative|absolute|kinematic)?pressure"
        r"|pressure(static|gauge|relative|absolute|kinematic)",
        (1,),
    ),
    ("wall shear", r"wss|wallshear(stress)?(vector)?|shear(stress)?|tau(w|wall)?", (1, 2, 3)),
    ("skin friction", r"cf|skinfriction(coeff(icient)?)?", (1, 3)),
    ("velocity", r"u|v|vel|velocity(vector)?", (2, 3)),
    ("speed", r"speed|umag|magu|velocitymag(nitude)?|velmag", (1,)),
    ("normals", r"n|(point|cell|face|surface|unit)?normals?(vector)?", (3,)),
    ("temperature", r"t|temp|(static)?temperature", (1,)),
    ("density", r"rho|density", (1,)),
    ("distance", r"sdf|(signed|wall)?dist(ance)?|walldist|ywall", (1,)),
    ("Mach number", r"ma|mach(number)?", (1,)),
    ("turbulence", r"k|tke|omega|epsilon|nut|nutilda|mut|(eddy|turbulent)viscosity", (1,)),
    ("y plus", r"y\+|yplus", (1,)),
    ("vorticity", r"vort(icity)?", (1, 3)),
    ("area", r"(cell|face)?(areas?|volumes?|length)", (1,)),
    (
        "coordinates",
        r"[xyz]|xyz|coord(inate)?s?|points?|positions?|(cell)?cent(er|re|roid)s?",
        (1, 3),
    ),
)
_ID = re.compile(
    r".*([a-z0-9]I[Dd]s?|[_ -][Ii][Dd]s?)|[Ii][Dd]s?|(?i:.*(index|indices|mask|flag|label|marker)"
    r"|patch|proc(essor)?|rank|partition|zone|region|material|block|part|vtk(ghost|original).*)"
)
_FLUCTUATION = re.compile(r".*(prime2?|rms|variance|stddev|std)\w*")
_AVERAGES = {"mean", "average", "averaged", "avg", "time", "trim", "inst", "instantaneous"}
_OPENFOAM = {"U", "wallShearStress", "nut", "nuTilda", "p_rgh"}
_NAMED_UNIT = re.compile(r"^(.*?)[\s_]*[(\[{]([^()\[\]{}]+)[)\]}]\s*$")
_UNIT = re.compile(
    r"(k?Pa|m?bar|psi|N|mm?|km|s|kg|K|°?C|deg(rees?)?|rad|W|J|Hz|1|-|%)([\s/*·^²³⁻¹0-9.-].*)?"
)
_VELOCITY = ("u", "v", "w")
_AXES = {name: i for names in ("xyz", "ijk", "012") for i, name in enumerate(names)}


@dataclass(frozen=True)
class Guess:
    """A role, a unit, the reason for both, and a warning where the user should do something."""

    role: str
    unit: str
    reason: str
    warning: str | None = None


@dataclass(frozen=True)
class Numbers:
    """Range and mean of an array's finite values, one number for each component."""

    low: tuple[float, ...]
    mean: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def largest(self) -> float:
        """Length of the vector of the largest components."""
        return math.hypot(*(max(abs(a), abs(b)) for a, b in zip(self.low, self.high, strict=True)))


def split_unit(name: str) -> tuple[str, str | None]:
    """A name without the unit at its end, and that unit: "Pressure (Pa)" -> "Pressure", "Pa"."""
    match = _NAMED_UNIT.match(name)
    if match and _UNIT.fullmatch(match[2].strip()):
        unit = match[2].strip().replace("²", "^2").replace("³", "^3")
        return match[1], {"-": "1"}.get(unit, unit)
    return name, None


def role_of(name: str, components: int, whole_numbers: bool = False) -> str:
    """The role by name, "other" where the name is not known."""
    words = _words(split_unit(name)[0])
    compact = "".join(words)
    if whole_numbers or _ID.fullmatch(name):
        return "id"
    if _FLUCTUATION.fullmatch(compact):
        return "fluctuation"
    plain = "".join(word for word in words if word not in _AVERAGES) or compact
    for role, pattern, allowed in _ROLES:
        if components in allowed and re.fullmatch(pattern, plain):
            return role
    return "other"


def vectors_of_scalars(names: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Three scalars that are the components of one vector, by its name: Ux, Uy, Uz -> U."""
    by_base: dict[str, dict[int, str]] = {}
    for name in names:
        if name.lower() in _VELOCITY:
            by_base.setdefault("velocity", {})[_VELOCITY.index(name.lower())] = name
        plain, _ = split_unit(name)
        match = re.fullmatch(r"(.+?)[\s_:.\[-]*([XYZxyzijk012])\]?", plain)
        first = re.fullmatch(r"([XYZxyz])[\s_-]+(.+)", plain)
        base, axis = (match[1], match[2]) if match else ("", "")
        if first:
            base, axis = first[2], first[1]
        if base and axis.lower() in _AXES:
            by_base.setdefault(base, {})[_AXES[axis.lower()]] = name
    return {base: (a[0], a[1], a[2]) for base, a in by_base.items() if len(a) == 3}


def is_openfoam(names: Iterable[str]) -> bool:
    """Whether the arrays have the names that OpenFOAM gives them."""
    return bool(_OPENFOAM & {re.sub(r"(Prime2|Mean|Trim)+$", "", name) for name in names})


def guess(
    name: str, numbers: Numbers, *, whole_numbers: bool, openfoam: bool, speed: float | None
) -> Guess:
    """Role and unit of an array; `speed` is the largest velocity in the same file, if it has one.

    `openfoam` marks the names of an incompressible solver, which divides stresses by the density.
    """
    role = role_of(name, len(numbers.low), whole_numbers)
    plain, unit = split_unit(name)
    if role in ("pressure", "pressure coefficient"):
        by_numbers = _guess_pressure(role, numbers, openfoam, speed)
        if unit is None:
            return by_numbers
        return Guess(by_numbers.role, unit, "in its name", by_numbers.warning)
    if role == "total pressure":
        warning = f"{name} is total pressure, which is not the pressure on a wall"
        return Guess(role, unit or "Pa", "in its name" if unit else "by its name", warning)
    if unit is not None:
        return Guess(role, unit, "in its name")
    if role == "wall shear" and openfoam:
        return Guess(role, "m^2/s^2", "OpenFOAM's names: divided by the density")
    if role == "velocity":
        if numbers.largest < 3:
            return Guess(role, "m/s", "the usual one; but small: divided by the inflow's?")
        return Guess(role, "m/s", "the usual one")
    if role == "normals":
        return _guess_normals(name, numbers)
    usual = {"temperature": "K", "density": "kg/m^3", "wall shear": "Pa", "distance": "m"}
    usual |= {"speed": "m/s", "vorticity": "1/s", "coordinates": "m"}
    if role in usual:
        return Guess(role, usual[role], "the usual one")
    return Guess(role, "1", "" if role in ("id", "Mach number", "y plus") else "not known")


def looks_absolute(pressure: Numbers) -> bool:
    """Whether a pressure looks absolute: near the atmosphere's, or with a mean far above its range.

    A mean of 90,000 with a range of 20,000 does, a mean of -90 with a range of 800 does not.
    """
    mean, span = pressure.mean[0], pressure.high[0] - pressure.low[0]
    return _near_atmosphere(mean) or (mean > 1000 and mean > 3 * span)


def _near_atmosphere(pressure: float) -> bool:
    return abs(pressure - ATMOSPHERE) < 0.1 * ATMOSPHERE


def _guess_pressure(role: str, numbers: Numbers, openfoam: bool, speed: float | None) -> Guess:
    low, mean, high = numbers.low[0], numbers.mean[0], numbers.high[0]
    largest = max(abs(low), abs(high))
    absolute = f"mean {mean:.3g}: looks absolute, in Pa"
    if role == "pressure coefficient":
        return Guess(role, "1", "by its name")
    if looks_absolute(numbers):
        offset = f"{ATMOSPHERE:.0f}" if _near_atmosphere(mean) else "that of the inflow"
        advice = f"pressure with a mean of {mean:.6g} looks absolute: subtract {offset}?"
        return Guess(role, "Pa", absolute, advice)
    if openfoam and speed and 0.05 < largest / speed / speed < 20:  # speed**2 may overflow
        reason = f"OpenFOAM's names, and up to {largest:.3g} at speeds up to {speed:.3g}: kinematic"
        return Guess(role, "m^2/s^2", reason)
    if largest <= 2:
        reason = f"{low:.2g} to {high:.2g}, within +-2: looks like a coefficient"
        return Guess("pressure coefficient", "1", reason)
    if openfoam:
        return Guess(role, "m^2/s^2", "OpenFOAM's names: kinematic where incompressible")
    return Guess(role, "Pa", "the usual one; gauge, since it is not near 101325")


def _guess_normals(name: str, numbers: Numbers) -> Guess:
    if max(map(abs, (*numbers.low, *numbers.high))) > 1.001:
        return Guess("normals", "1", "by its name", f"{name} is longer than 1: no unit normals")
    return Guess("normals", "1", "by its name")


def _words(name: str) -> Sequence[str]:
    spaced = re.sub(r"(?<=[A-Za-z0-9])(?=[A-Z][a-z])", " ", name)
    return [word.lower() for word in re.split(r"[\s_\-./:,]+", spaced) if word]
