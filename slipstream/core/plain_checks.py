"""Checks of plain arguments, which checks.py has too: whoever needs no torch takes them here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of `allowed`, suggesting the nearest one."""
    options = list(allowed)
    if value in options:
        return
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}{hint}")


def check_at_least(name: str, value: float | int, minimum: float | int) -> None:
    if isinstance(value, bool) or not value >= minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}")


def check_whole(name: str, value: object, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
