"""Configs are frozen dataclasses: changing some of their fields, and comparing two of them.

    overlay(config, {"steps": 100, "model.size": {"layers": 4}})

Names and types are those of the dataclass, at every depth. A value that does not fit raises a
ValueError that names the place, what is expected there and what was given. The dataclass then
checks the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, TypeVar, get_type_hints

from slipstream.core.checks import check_choice
from slipstream.core.schemas import fitted

Config = TypeVar("Config")


def overlay(
    config: Config, changes: Mapping[str, Any], *, place: str = "", fixed: Sequence[str] = ()
) -> Config:
    """The config with some fields changed; those in `fixed` must not be among them.

    A name may have dots, `model.layers`, or the value of a nested config may be a mapping. `place`
    is the name of the config in error messages.
    """
    given: dict[str, Any] = {}
    for name, value in changes.items():
        head, _, rest = str(name).partition(".")
        nested = {rest: value} if rest else value
        if isinstance(given.get(head), dict) and isinstance(nested, Mapping):
            given[head] = {**given[head], **nested}
        else:
            given[head] = nested
    hints = get_type_hints(type(config))
    names = [f.name for f in fields(config) if f.name not in fixed]  # type: ignore[arg-type]
    values = {}
    for name, value in given.items():
        check_choice(f"a field of {place or type(config).__name__}", name, names)
        here = f"{place}.{name}" if place else name
        now = getattr(config, name)
        if is_dataclass(now) and isinstance(value, Mapping):
            values[name] = overlay(now, value, place=here)
        else:
            values[name] = _fitting(value, hints[name], here)
    return replace(config, **values)  # type: ignore[type-var]


def differences(one: Any, other: Any, *, ignored: Sequence[str] = ()) -> list[str]:
    """The fields in which two configs differ, as "model.variant: baseline, mlp-only"."""
    pairs = _flat(asdict(one)), _flat(asdict(other))
    names = dict.fromkeys([*pairs[0], *pairs[1]])
    differing = []
    for name in names:
        here, there = (pair.get(name) for pair in pairs)
        if here != there and not any(f"{name}.".startswith(f"{part}.") for part in ignored):
            differing.append(f"{name}: {here}, {there}")
    return differing


def _flat(value: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """{"model": {"layers": 4}} as {"model.layers": 4}; tuples as the lists that JSON has."""
    leaves: dict[str, Any] = {}
    for name, part in value.items():
        if isinstance(part, Mapping):
            leaves |= _flat(part, f"{place}{name}.")
        else:
            leaves[place + name] = list(part) if isinstance(part, tuple) else part
    return leaves


def _fitting(value: Any, hint: Any, place: str) -> Any:
    """The value as the type of its field; 1e-3, which YAML reads as text, as a number."""
    try:
        return fitted(hint, value, place=place)
    except ValueError:
        if isinstance(value, str) and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", value):
            with suppress(ValueError):
                return fitted(hint, float(value), place=place)
        raise
