"""The dictionaries of a steady incompressible case: fields at the start, schemes, solvers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.physics.openfoam.foam_text import (
    DIGITS,
    dictionary_text,
    value_text,
    write_dictionary,
    write_foam,
)

SPALART_ALLMARAS, K_OMEGA_SST = "SpalartAllmaras", "kOmegaSST"
_KINEMATIC, _SPEED, _VISCOSITY = "[0 2 -2 0 0 0 0]", "[0 1 -1 0 0 0 0]", "[0 2 -1 0 0 0 0]"
_RATE = "[0 0 -1 0 0 0 0]"
_TURBULENT = 5.0
"""nuTilda over the viscosity in the stream: the flow is turbulent from the leading edge on."""
_SPALDING = "nutUSpaldingWallFunction"
"""One law for the layer next to the wall from y+ near 1 to a few hundred."""
_INTENSITY, _VISCOSITY_RATIO = 0.001, 0.2
"""Of the stream, where k and omega are solved for."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The fluid and how it comes in, along x."""

    speed: float
    viscosity: float
    """Kinematic, m^2/s."""
    model: str
    """The turbulence model."""


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """What the solver makes coefficients with; drag is along x, lift along z, nose up about y."""

    area: float
    length: float
    centre: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Walls:
    """The patches of a mesh, by what happens there."""

    body: str
    """A patch or, as a regular expression in quotes, several."""
    far: str
    others: Mapping[str, str]
    """Names of the rest with types of condition, as "empty" or "slip"."""


def write_fields(case: Path, stream: Stream, walls: Walls) -> None:
    """The folder 0: the stream everywhere."""
    speed = (stream.speed, 0.0, 0.0)
    free = {"freestreamValue": "$internalField"}
    _write(case, "U", _SPEED, speed, walls, {"type": "freestreamVelocity", **free},
           {"type": "noSlip"})  # fmt: skip
    _write(case, "p", _KINEMATIC, 0.0, walls, {"type": "freestreamPressure", **free},
           {"type": "zeroGradient"})  # fmt: skip
    enters = {"type": "freestream", **free}
    if stream.model == SPALART_ALLMARAS:
        tilde = _TURBULENT * stream.viscosity
        chi = _TURBULENT**3
        fixed = {"type": "fixedValue", "value": "uniform 0"}
        _write(case, "nuTilda", _VISCOSITY, tilde, walls, enters, fixed)
        eddy = tilde * chi / (chi + 7.1**3)
        _write(case, "nut", _VISCOSITY, eddy, walls, enters, _wall_function(_SPALDING, 0.0))
        return
    k = 1.5 * (_INTENSITY * stream.speed) ** 2
    omega = k / (_VISCOSITY_RATIO * stream.viscosity)
    _write(case, "k", _KINEMATIC, k, walls, enters, _wall_function("kqRWallFunction", k))
    _write(case, "omega", _RATE, omega, walls, enters, _wall_function("omegaWallFunction", omega))
    eddy = _VISCOSITY_RATIO * stream.viscosity
    _write(case, "nut", _VISCOSITY, eddy, walls, enters, _wall_function(_SPALDING, 0.0))


def _wall_function(kind: str, value: float) -> dict[str, str]:
    return {"type": kind, "value": f"uniform {value_text(value)}"}


def _write(
    case: Path,
    name: str,
    dimensions: str,
    value: float | Sequence[float],
    walls: Walls,
    far: Mapping[str, Any],
    body: Mapping[str, Any],
) -> None:
    rest = {patch: {"type": kind} for patch, kind in walls.others.items()}
    entries = {
        "dimensions": dimensions,
        "internalField": f"uniform {value_text(value)}",
        "boundaryField": {walls.body: body, walls.far: far, **rest},
    }
    kind = "volScalarField" if isinstance(value, float) else "volVectorField"
    write_foam(case / "0" / name, kind, dictionary_text(entries))


def write_models(case: Path, stream: Stream) -> None:
    """The folder constant, without a mesh."""
    write_dictionary(
        case / "constant" / "transportProperties",
        {"transportModel": "Newtonian", "nu": stream.viscosity},
    )
    write_dictionary(
        case / "constant" / "turbulenceProperties",
        {
            "simulationType": "RAS",
            "RAS": {"RASModel": stream.model, "turbulence": True, "printCoeffs": False},
        },
    )


def write_control(
    case: Path, stream: Stream, walls: Walls, coefficients: Coefficients, iterations: int
) -> None:
    """system/controlDict: the last iteration alone is kept, with wall shear, y+ and forces."""
    patches = [walls.body]
    common = {"libs": ["fieldFunctionObjects"], "patches": patches, "writeControl": "writeTime"}
    write_dictionary(
        case / "system" / "controlDict",
        {
            "application": "simpleFoam",
            "startFrom": "latestTime",
            "startTime": 0,
            "stopAt": "endTime",
            "endTime": iterations,
            "deltaT": 1,
            "writeControl": "timeStep",
            "writeInterval": iterations,
            "purgeWrite": 1,
            "writeFormat": "ascii",
            "writePrecision": DIGITS,
            "writeCompression": False,
            "timeFormat": "general",
            "timePrecision": 6,
            "runTimeModifiable": False,
            "functions": {
                "wallShearStress": {"type": "wallShearStress", **common},
                "yPlus": {"type": "yPlus", **common},
                "forceCoeffs": {
                    "type": "forceCoeffs",
                    "libs": ["forces"],
                    "patches": patches,
                    "writeControl": "timeStep",
                    "writePrecision": DIGITS,
                    "rho": "rhoInf",
                    "rhoInf": 1,
                    "magUInf": stream.speed,
                    "lRef": coefficients.length,
                    "Aref": coefficients.area,
                    "CofR": coefficients.centre,
                    "dragDir": (1, 0, 0),
                    "liftDir": (0, 0, 1),
                    "pitchAxis": (0, 1, 0),
                },
            },
        },
    )


def extend(case: Path, iterations: int) -> None:
    """Let the solver end, and write, after so many iterations in all."""
    path = case / "system" / "controlDict"
    text = re.sub(r"(?m)^(endTime|writeInterval) \d+;", rf"\1 {iterations};", path.read_text())
    path.write_text(text)


def write_numerics(case: Path, stream: Stream, *, rough: bool = False) -> None:
    """system/fvSchemes and fvSolution: SIMPLEC, second order in space for the velocity.

    `rough` is for meshes with cells of poor shape: gradients are limited and steps smaller.
    """
    turbulence = ["nuTilda"] if stream.model == SPALART_ALLMARAS else ["k", "omega"]
    scheme = "upwind" if rough else "limitedLinear 1"
    convection = {f"div(phi,{name})": f"bounded Gauss {scheme}" for name in turbulence}
    limited = "limited corrected 0.5" if rough else "corrected"
    gradients = {"default": "Gauss linear"}
    if rough:
        gradients["grad(U)"] = "cellLimited Gauss linear 1"
    write_dictionary(
        case / "system" / "fvSchemes",
        {
            "ddtSchemes": {"default": "steadyState"},
            "gradSchemes": gradients,
            "divSchemes": {
                "default": "none",
                "div(phi,U)": "bounded Gauss linearUpwind grad(U)",
                **convection,
                "div((nuEff*dev2(T(grad(U)))))": "Gauss linear",
            },
            "laplacianSchemes": {"default": f"Gauss linear {limited}"},
            "interpolationSchemes": {"default": "linear"},
            "snGradSchemes": {"default": limited},
            "wallDist": {"method": "meshWave"},
        },
    )
    transported = {"solver": "smoothSolver", "smoother": "symGaussSeidel",
                   "tolerance": 1e-12, "relTol": 0.1}  # fmt: skip
    pressure = {"solver": "GAMG", "smoother": "DICGaussSeidel",
                "tolerance": 1e-12, "relTol": 0.05}  # fmt: skip
    others = f'"({"|".join(["U", *turbulence])})"'
    steps = 0.7 if rough else 0.9
    write_dictionary(
        case / "system" / "fvSolution",
        {
            "solvers": {"p": pressure, others: transported},
            "SIMPLE": {
                "consistent": True,
                "nNonOrthogonalCorrectors": 0,
            },
            "relaxationFactors": {"equations": {"U": steps, '".*"': steps}},
        },
    )
