"""What one of a unit is in SI: coefficients are made of numbers in m, m/s, kg/m^3 and Pa."""

from __future__ import annotations

from collections.abc import Mapping

METRES: Mapping[str, float] = {"m": 1.0, "cm": 1e-2, "mm": 1e-3}
SPEEDS: Mapping[str, float] = {
    "m/s": 1.0,
    "km/h": 1 / 3.6,
    "ft/s": 0.3048,
    "mm/s": 1e-3,
    "mph": 0.44704,
    "kn": 1852 / 3600,
}
DENSITIES: Mapping[str, float] = {"kg/m^3": 1.0, "kg/m3": 1.0, "g/cm^3": 1e3}
_PASCALS: Mapping[str, float] = {
    "hPa": 1e2,
    "kPa": 1e3,
    "MPa": 1e6,
    "bar": 1e5,
    "mbar": 1e2,
    "psi": 6894.757293168,
}


def flow_factor(unit: str) -> float:
    """What makes a speed or a density one in SI; 1 for all other units."""
    return {**SPEEDS, **DENSITIES}.get(unit, 1.0)


def stress_unit(unit: str) -> float:
    """What makes a pressure or a shear one in Pa; 1 for those in Pa, m^2/s^2 or 1."""
    return _PASCALS.get(unit.replace(" ", ""), 1.0)
