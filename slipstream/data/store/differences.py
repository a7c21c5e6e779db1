"""In which keys two values of JSON differ, for errors that need not print the whole of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NAMED = 5
"""So many differences are named, the others counted."""


def difference(old: Any, new: Any) -> str:
    """How two values of JSON differ, as "0, got 1", or inside them "a.b 0, got 1; c 2, got 3"."""
    found = list(_differences(old, new, ""))
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(found[:_NAMED]) + more


def _differences(old: Any, new: Any, place: str) -> Iterator[str]:
    had, has = _parts(old), _parts(new)
    if had is None or has is None:
        if old != new:
            yield f"{place} {_short(old)}, got {_short(new)}".strip()
        return
    for key in {**had, **has}:
        inside = f"{place}.{key}".lstrip(".")
        if key in had and key in has:
            yield from _differences(had[key], has[key], inside)
        elif key in had:
            yield f"{inside} {_short(had[key])}, got none"
        else:
            yield f"{inside} none, got {_short(has[key])}"


def _parts(value: Any) -> Mapping[str, Any] | None:
    """What can be named inside a value: keys, and the places of a list of mappings."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return {str(place): item for place, item in enumerate(value)}
    return value if isinstance(value, Mapping) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
