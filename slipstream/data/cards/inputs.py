"""Whether a parameter of a sample is an input of the flow, by the words and the unit of its name.

A model that is given its answer, as the drag or the number of cells of the mesh, learns nothing. So
a parameter is proposed as a feature only if its name says that it is chosen before the flow is
computed: a speed, an angle, a length of the body. Words are compared as a whole: "angle" is not
in "stl_triangles", whose words are "stl" and "triangles".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.data.cards.roles import split_unit

_SUFFIX_UNITS = {
    "deg": "deg", "degs": "deg", "degree": "deg", "degrees": "deg", "rad": "rad",
    "m": "m", "mm": "mm", "cm": "cm", "km": "km", "m2": "m^2", "mm2": "mm^2", "m3": "m^3",
    "mps": "m/s", "ms": "m/s", "m s": "m/s", "m per s": "m/s", "kmh": "km/h", "kph": "km/h",
    "km h": "km/h", "mph": "mph", "Pa": "Pa", "kPa": "kPa", "hPa": "hPa", "bar": "bar",
    "mbar": "mbar", "kg": "kg", "kg m3": "kg/m^3", "kgm3": "kg/m^3", "kg per m3": "kg/m^3",
    "K": "K", "C": "°C", "degC": "°C", "m2 s": "m^2/s", "m2s": "m^2/s", "Pas": "Pa s",
    "Pa s": "Pa s", "s": "s", "Hz": "Hz", "rpm": "rpm", "N": "N", "kN": "kN", "Nm": "N m",
    "N m": "N m", "W": "W", "kW": "kW", "pct": "%", "percent": "%",
}  # fmt: skip
"""Units as the last words of a name: `yaw_deg`, `rho_kg_m3`. Small and capital letters differ."""


@dataclass(frozen=True)
class _Kind:
    """A quantity that is an input: its words, its usual unit, and all units that it may have."""

    name: str
    words: str
    unit: str
    units: str = ""
    needs_inflow: bool = False
    """Whether it is one only beside a word for the inflow: a pressure alone may be a result."""


_LENGTH = "m mm cm km in ft"
_KINDS = (
    _Kind("an angle", "yaw pitch roll aoa alpha beta sideslip angle angles incidence inclination"
          " slant sweep dihedral twist rake steer steering heel trim", "deg", "deg rad degrees °"),
    _Kind("a ratio", "ratio scale taper tapering solidity aspect blockage intensity", "1",
          "1 % - deg m mm"),
    _Kind("a Reynolds number", "re reynolds", "1", "1 -"),
    _Kind("a Mach number", "ma mach", "1", "1 -"),
    _Kind("a Froude number", "froude", "1", "1 -"),
    _Kind("a Prandtl number", "prandtl", "1", "1 -"),
    _Kind("a speed", "speed velocity vel uinf vinf uref vref uin vin windspeed", "m/s",
          "m/s km/h mph ft/s kn kt mm/s"),
    _Kind("a rotation", "rpm rotation rotational", "rpm", "rpm rad/s 1/s Hz deg/s"),
    _Kind("a direction", "direction", "1", "1 - deg rad"),
    _Kind("a density", "rho density rhoinf rhoref", "kg/m^3", "kg/m^3 kg/m3 g/cm^3"),
    _Kind("a dynamic viscosity", "mu", "Pa s", "Pas Pa*s Pa·s kg/m/s kg/(ms) kg/(m·s)"),
    _Kind("a viscosity", "nu viscosity", "m^2/s", "m^2/s m2/s Pas Pa*s Pa·s kg/m/s kg/(ms)"),
    _Kind("a temperature", "temperature temp tinf tref t", "K", "K °C C degC", True),
    _Kind("a pressure", "pressure p pinf pref", "Pa", "Pa kPa hPa bar mbar psi", True),
    _Kind("an area", "area aref sref", "m^2", "m^2 m2 mm^2 mm2 cm^2"),
    _Kind("a length", "length width height radius diameter span chord thickness depth clearance"
          " wheelbase overhang gap offset camber lref cref bref fillet planview", "m", _LENGTH),
    _Kind("a curvature", "curvature", "1/m", "1/m 1/mm 1"),
)  # fmt: skip
_KIND_OF = {word: kind for kind in _KINDS for word in kind.words.split()}
_INFLOW = set(
    "inf infinity inflow freestream free stream ref reference ambient atmospheric atmosphere atm"
    " operating upstream far farfield tinf tref pinf pref".split()
)
_LETTERS = {"u": "speed", "v": "speed", "ux": "speed", "uy": "speed", "uz": "speed"}
_LETTERS |= {"fr": "froude", "pr": "prandtl"}
_LETTERS_OF_INFLOW = _LETTERS | {"a": "area", "s": "area", "l": "length", "c": "length"}
"""Single letters: alone `U` is a speed; beside a word for the inflow, `A_ref` is an area."""

_COEFFICIENTS = {
    "d": "drag", "l": "lift", "m": "moment", "s": "side force", "y": "side force", "x": "force",
    "z": "force", "n": "normal force", "p": "pressure", "f": "friction", "t": "thrust",
}  # fmt: skip
_COEFFICIENT = re.compile(r"c([dlmsyxznpft])[a-z]?")
_RESULTS = {
    **dict.fromkeys("drag lift downforce thrust".split(), ""),
    **dict.fromkeys("force forces fx fy fz sideforce".split(), "a force"),
    **dict.fromkeys("moment moments torque mx my mz".split(), "a moment"),
    **dict.fromkeys("coef coeff coeffs coefficient coefficients".split(), "a coefficient"),
    **dict.fromkeys("result results output outputs target targets".split(), "by its name"),
    **dict.fromkeys(
        "residual residuals iteration iterations iter iters converged convergence runtime walltime"
        " clocktime cputime cpu".split(),
        "of the computation",
    ),
    **dict.fromkeys("std stddev rms variance var".split(), "how much something varies in time"),
    **dict.fromkeys(
        "separation reattachment recirculation wake shock stall vortex strouhal nusselt drop loss"
        " losses efficiency outlet exit heatflux".split(),
        "of the flow",
    ),
}
_AVERAGES = set("mean average avg max min maximum minimum".split())
_MESH = set(
    "cell cells mesh grid elements nodes faces points vertices triangle triangles tris facets"
    " polygons polyhedra stl layers refinement resolution yplus hexes hexahedra tets".split()
)
_COUNTED = set("element node face point vertex facet polygon layer".split())
"""Words for parts of a mesh if they are counted; a `design_point` is none."""
_COUNTS = {"n", "num", "no", "number", "count", "counts"}
_KNOWN = {*_KIND_OF, *_RESULTS, *_INFLOW, *_MESH, *_LETTERS}


@dataclass(frozen=True)
class Judgement:
    """What a parameter seems to be, from its name alone."""

    unit: str
    reason: str
    """Why it has this unit."""
    against: str
    """Why it is not proposed as a feature; empty where it is."""


def judge(name: str) -> Judgement:
    """Whether a parameter with this name is an input, and its unit."""
    plain, unit = _split_unit(name)
    words = words_of(re.sub(r"(?<![^\W_])Nu(?![^\W_])", "nusselt", plain))  # `nu` is a viscosity
    against = _result(words) or _of_mesh(words)
    kind = None if against else _kind(words)
    if kind is None:
        nothing = against or _nothing(words)
        return Judgement(unit or "1", "in its name" if unit else "not known", nothing)
    if unit is None:
        return Judgement(kind.unit, "the usual one", "")
    spelled = unit.replace(" ", "")
    fits = spelled in {u.replace(" ", "") for u in (*kind.units.split(), kind.unit)}
    return Judgement(unit, "in its name", "" if fits else f"{unit} is not a unit of {kind.name}")


def is_quantity(name: str) -> bool:
    """Whether a name is that of a physical quantity, input or result: it is hardly an id."""
    words = words_of(_split_unit(name)[0])
    return bool(_result(words) or _of_mesh(words) or _kind(words))


def words_of(name: str) -> list[str]:
    """The words of a name in small letters: split at other signs, digits and capitals.

    "Cd_mean100" has the words cd, mean; "nCells" n, cells; "AoA", which is a known word, only one.
    """
    words: list[str] = []
    for part in re.findall(r"[^\W_]+", name):
        if part.lower() in _KNOWN and not re.match("n[A-Z]", part):
            words.append(part.lower())
        else:
            split = re.findall(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-zà-ÿ]+", part)
            words += [word.lower() for word in split]
    return words


def _split_unit(name: str) -> tuple[str, str | None]:
    """A name without the unit at its end, in brackets or as the last words, and that unit."""
    plain, unit = split_unit(name)
    if unit:
        return plain, unit
    for count in (3, 2, 1):
        match = re.fullmatch(rf"(.*[^\W_]{'[_ .-]+([^_ .-]+)' * count})", name)
        if match:
            words = match.groups()[1:]
            known = _SUFFIX_UNITS.get(" ".join(words))
            if known:
                return name[: match.start(2)].rstrip("_ .-"), known
    return name, None


def _result(words: Sequence[str]) -> str:
    """Why the words speak of a result; empty where they do not."""
    if "nu" in words and "t" in words:
        return "looks like a result: a turbulent viscosity"
    for word in words:
        match = _COEFFICIENT.fullmatch(word)
        if match and word not in _KIND_OF:
            return f"looks like a result: {_COEFFICIENTS[match[1]]} coefficient"
        if word in _RESULTS:
            return f"looks like a result: {_RESULTS[word] or word}"
    return ""


def _of_mesh(words: Sequence[str]) -> str:
    """Why the words speak of the mesh; empty where they do not."""
    if any(word[0] == "n" and word[1:] in _MESH | _COUNTED for word in words):
        return "a count of the mesh"  # ncells
    counted = bool(_COUNTS & set(words))
    parts = _MESH | _COUNTED if counted else _MESH
    of_mesh = [word for word in words if word in parts]
    if not of_mesh:
        return ""
    many = counted or any(word.endswith("s") and word != "yplus" for word in of_mesh)
    return "a count of the mesh" if many else "a property of the mesh"


def _kind(words: Sequence[str]) -> _Kind | None:
    """The kind of input that the words speak of; None where nothing says that it is one."""
    inflow = bool(_INFLOW & set(words))
    letters = _LETTERS_OF_INFLOW if inflow else _LETTERS if len(words) == 1 else {}
    kinds = [_KIND_OF[word] for word in words if word in _KIND_OF]
    kinds += [_KIND_OF[letters[word]] for word in words if word in letters]
    kinds = sorted(set(kinds), key=_KINDS.index)
    if not kinds:
        return None
    kind = kinds[0]
    if kind.name == "a viscosity" and "dynamic" in words:
        kind = _KIND_OF["mu"]
    if kind.needs_inflow and not inflow:
        return None
    averaged = _AVERAGES & set(words)
    return None if averaged and not inflow and kind.name not in ("a length", "an angle") else kind


def _nothing(words: Sequence[str]) -> str:
    kinds = [_KIND_OF[word].name for word in words if word in _KIND_OF]
    if kinds and _AVERAGES & set(words):
        return "looks like a result: an average or an extreme of the flow"
    if kinds:
        return f"{kinds[0]}, which is an input only if it is that of the inflow"
    return "nothing in its name says that it is an input"
