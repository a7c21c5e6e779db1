"""`reference` of a card: the values that forces are made coefficients with.

    reference:
      density: 1.2          # a number, or the name of a parameter
      speed: U_inf
      area: 2.17
      length: 4.6
      drag: [1, 0, 0]
      lift: [0, 0, 1]
      centre: [1.4, 0, 0]
      pressure: 101325      # subtracted from the pressure
      mirror: y             # the meshes are halves, cut by the plane y = 0

They change no row of a store: whoever computes forces of its samples reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from slipstream.core.checked_yaml import Place
from slipstream.data.cards.types import Entry, ReferenceValue

_POSITIVE = ("density", "speed", "area", "length")
_VECTORS = ("drag", "lift", "centre")
KEYS = (*_POSITIVE, *_VECTORS, "pressure", "mirror")
_UNITS = {"density": ("kg/m^3", "kg/m3"), "speed": ("m/s",)}
"""Units of parameters by name."""
_USUAL: dict[str, tuple[float, ...]] = {"drag": (1.0, 0.0, 0.0), "lift": (0.0, 0.0, 1.0)}


def read_reference(place: Place, parameters: Sequence[Entry]) -> dict[str, ReferenceValue]:
    """The checked values; ValueError names the place of one that is wrong."""
    values: dict[str, ReferenceValue] = {}
    for key, entry in place.keys(may=KEYS).items():
        if key in _VECTORS:
            values[key] = _direction(entry, zero=key == "centre")
        elif key == "mirror":
            values[key] = entry.choice(("x", "y", "z"))
        elif key in _UNITS and isinstance(entry.value, str) and not _is_number(entry.value):
            values[key] = _parameter(entry, key, parameters)
        else:
            values[key] = entry.number()
            if key in _POSITIVE and entry.number() <= 0:
                entry.fail("be a positive number")
    drag, lift = (_vector(values.get(key, usual)) for key, usual in _USUAL.items())
    across = sum(a * b for a, b in zip(drag, lift, strict=True))
    if abs(across) > 1e-3 * math.hypot(*drag) * math.hypot(*lift):
        place.fail("have a lift perpendicular to the drag", f"drag {drag} and lift {lift}")
    if not values:
        place.fail(f"have at least one of the keys {', '.join(KEYS)}")
    return values


def _direction(place: Place, *, zero: bool) -> tuple[float, ...]:
    numbers = tuple(item.number() for item in place.items())
    if len(numbers) != 3:
        place.fail("be three numbers")
    if not zero and not any(numbers):
        place.fail("be a direction", "0, 0, 0")
    return numbers


def _vector(value: ReferenceValue) -> tuple[float, ...]:
    assert isinstance(value, tuple)
    return value


def _parameter(place: Place, key: str, parameters: Sequence[Entry]) -> str:
    """The name of a parameter of one number, in the unit that forces are computed with."""
    fields = {e.field.name: e.field for e in parameters if e.field.components == 1}
    if place.text() not in fields:
        known = ", ".join(fields) or "none"
        place.fail(f"be a number, or the name of a parameter of one number ({known})")
    unit = fields[place.text()].unit
    if unit not in _UNITS[key]:
        place.fail(f"name a parameter in {_UNITS[key][0]}", f"{place.text()} in {unit}")
    return place.text()


def _is_number(text: str) -> bool:
    """Whether YAML left a number as text, as it does with 1e5."""
    try:
        float(text)
    except ValueError:
        return False
    return True
