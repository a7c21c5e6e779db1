"""The keys in which two JSON values differ, for errors that should not print both in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NAMED = 5
"""How many differences are named; the others are counted."""


def difference(old: Any, new: Any) -> str:
    """How two JSON values differ, as "0, got 1", or inside them "a.b 0, got 1; c 2, got 3"."""
    phrases = list(_differences(old, new, ""))
    more = f"; and {len(phrases) - _NAMED} more" if len(phrases) > _NAMED else ""
    return "; ".join(phrases[:_NAMED]) + more


def _differences(old: Any, new: Any, place: str) -> Iterator[str]:
    old_parts, new_parts = _parts(old), _parts(new)
    if old_parts is None or new_parts is None:
        if old != new:
            yield f"{place} {_short(old)}, got {_short(new)}".strip()
        return
    for key in {**old_parts, **new_parts}:
        inside = f"{place}.{key}".lstrip(".")
        if key in old_parts and key in new_parts:
            yield from _differences(old_parts[key], new_parts[key], inside)
        elif key in old_parts:
            yield f"{inside} {_short(old_parts[key])}, got none"
        else:
            yield f"{inside} none, got {_short(new_parts[key])}"


def _parts(value: Any) -> Mapping[str, Any] | None:
    """The parts of a value that have a name: keys, or the indices of a list of mappings."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return {str(index): item for index, item in enumerate(value)}
    return value if isinstance(value, Mapping) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
