"""Configs are frozen dataclasses: reading them from JSON, and changing some of their fields.

    overlay(config, {"steps": 100, "model.size": {"layers": 4}})

Names and types are those of the dataclass, at every depth. A value that does not fit raises a
ValueError that names the place, what is expected there and what was given. The dataclass then
checks the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from slipstream.core.checks import check_choice

Config = TypeVar("Config")
YOUNGER = {"younger": True}
"""Metadata of a field that older files lack; its default is what those files meant."""


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
            values[name] = converted(value, hints[name], here)
    return replace(config, **values)  # type: ignore[type-var]


def from_json(kind: type[Config], value: Any, *, place: str = "") -> Config:
    """The config that `dataclasses.asdict` wrote: it must have every field and no other.

    A field with `metadata=YOUNGER`, which older files lack, may be absent.
    """
    name = place or kind.__name__
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, got {value!r}")
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for given in value:
        check_choice(f"a field of {name}", given, names)
    required = [f.name for f in fields(kind) if f.metadata != YOUNGER]  # type: ignore[arg-type]
    missing = [field_name for field_name in required if field_name not in value]
    if missing:
        raise ValueError(f"{name} must have the field {missing[0]}, got none")
    hints = get_type_hints(kind)
    dot = f"{place}." if place else ""
    return kind(**{name: converted(value[name], hints[name], dot + name) for name in value})


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


def converted(value: Any, hint: Any, place: str) -> Any:
    """The value as the type of its field: a list becomes a tuple, a whole number a float.

    Raises ValueError where it cannot be of that type.
    """
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return _any_of(value, parts, place)
    if kind is Literal:
        check_choice(place, value, parts)
        return value
    if kind is tuple and isinstance(value, list | tuple):
        inner = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        if len(inner) != len(value):
            raise ValueError(f"{place} must have {len(inner)} values, got {len(value)}")
        pairs = zip(value, inner, strict=True)
        return tuple(converted(v, part, f"{place}[{i}]") for i, (v, part) in enumerate(pairs))
    if kind is dict and isinstance(value, dict):
        return {
            converted(k, parts[0], f"a name in {place}"): converted(v, parts[1], f"{place}.{k}")
            for k, v in value.items()
        }
    if is_dataclass(hint) and isinstance(value, Mapping):
        return from_json(hint, value, place=place)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str) and (number := _number(value)) is not None:
        return number
    # `type(...) is` and not isinstance: True is an int to Python, but not a number of steps.
    expected = NoneType if hint is None else kind or hint
    if hint is not Any and (type(value) is not expected):
        raise ValueError(f"{place} must be {_named(hint)}, got {value!r}")
    return value


def _number(text: str) -> float | None:
    """The number in a text such as 1e-3, which YAML reads as text for want of a decimal point."""
    try:
        return float(text) if re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", text) else None
    except OverflowError:
        return None


def _any_of(value: Any, hints: Sequence[Any], place: str) -> Any:
    for hint in hints:
        try:
            return converted(value, hint, place)
        except ValueError:
            continue
    raise ValueError(f"{place} must be {' or '.join(map(_named, hints))}, got {value!r}")


def _named(hint: Any) -> str:
    known = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if hint in known:
        return known[hint]
    if hint in (None, NoneType):
        return "null"
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if parts[-1] is Ellipsis:
            return f"a list, each {_named(parts[0])}"
        return f"a list of {len(parts)}: {', '.join(map(_named, parts))}"
    if get_origin(hint) is dict:
        return "a mapping"
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    return f"a mapping with the fields of {getattr(hint, '__name__', hint)}"
