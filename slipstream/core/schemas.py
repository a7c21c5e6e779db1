"""JSON from a file as values of the dataclasses that describe it.

    parsed(RunConfig, value, place="config")

The annotations of the dataclass are the schema. pydantic compares the value with them, strictly:
`true` is not a number and 3.0 is not a whole one; a list becomes a tuple and a whole number a
float. A value that does not fit raises a ValueError with one sentence that names the place, what is
expected there and what it holds:

    config.model.size.layers must be a whole number, got 'eight'

Why pydantic: its errors hold place, kind and value, so that one function makes our sentences of
them, and it knows finite numbers. msgspec is quicker to import (18 ms against 52, where PyTorch
takes 1,500), but names no value and accepts NaN in dataclasses (November 2026).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from slipstream.core.plain_checks import check_choice
from slipstream.core.text import printable

Parsed = TypeVar("Parsed")
Count = Annotated[int, Field(ge=0)]
"""A whole number of at least 0."""
Positive = Annotated[int, Field(ge=1)]
"""A whole number of at least 1."""

YOUNGER = {"younger": True}
"""Metadata of a field that older files lack; its default is what those files meant."""

_DEEPEST = 64
_SHOWN = 80
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
_PHRASES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "none_required": "null",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping with the fields of {class_name}",
    "literal_error": "one of {expected}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "below {lt}",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
}
"""What each kind of error of pydantic's says was expected."""


def parsed(kind: type[Parsed], value: Any, *, place: str = "", open: bool = False) -> Parsed:
    """The value as an instance of a dataclass; `place` is its name in errors.

    Every field must be there, unless it has `metadata=YOUNGER`, and no other; `open` allows other
    fields in the outermost mapping.
    """
    return cast(Parsed, fitted(kind, value, place=place, open=open))


def fitted(hint: Any, value: Any, *, place: str = "", open: bool = False) -> Any:
    """The same for any type hint, as `tuple[int, ...]` or `float | None`."""
    check_plain(value, place)
    try:
        (result,) = _adapter(hint).validate_json(json.dumps([value]))
    except ValidationError as error:
        raise ValueError(_sentence(error, value, place)) from None
    _check_fields(result, value, place, open)
    return result


def check_plain(value: Any, place: str = "") -> None:
    """Raise ValueError where a value holds what a file of ours never does.

    That is a number that is not finite or needs more than 64 bits, or mappings and lists nested
    more than 64 deep.
    """
    for where, leaf in _leaves(value, place, 0):
        name = where or "it"
        if isinstance(leaf, float) and not math.isfinite(leaf):
            raise ValueError(f"{name} must be a finite number, got {leaf}")
        if isinstance(leaf, int) and abs(leaf) >= 2**64:
            raise ValueError(f"{name} must be a number of at most 64 bits, got {shortened(leaf)}")


def shortened(value: Any) -> str:
    """The value for a message, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list of itself
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."


@cache
def _adapter(kind: Any) -> Any:
    """pydantic's validator of a list of `kind`."""
    # A list around it, because the strictness is inherited by what is inside a type and cannot be
    # given to a dataclass itself.
    return TypeAdapter(list[kind], config=_STRICT)


def _leaves(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (Mapping, list, tuple)):
        yield place, value
        return
    if depth == _DEEPEST:
        raise ValueError(f"{place} must not be nested more than {_DEEPEST} deep, got more")
    inner = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, part in inner:
        yield from _leaves(part, _below(place, key), depth + 1)


def _below(place: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{place}[{key}]"
    name = printable(str(key))
    return f"{place}.{name}" if place else name


def _sentence(error: ValidationError, value: Any, place: str) -> str:
    details = error.errors(include_url=False)
    path = _path(details[0], value)
    where = place
    for key in path:
        where = _below(where, key)
    here = [detail for detail in details if _path(detail, value) == path]
    first = here[0]
    if first["type"] == "missing":
        return _missing(here, value, path, where or "it")
    if first["type"] in ("value_error", "assertion_error"):
        message = str(first.get("ctx", {}).get("error", first["msg"]))
        return message if not where or message.startswith(where) else f"{where}: {message}"
    expected = " or ".join(dict.fromkeys(map(_expected, here)))
    return f"{where or 'it'} must be {expected}, got {shortened(first['input'])}"


def _path(detail: ErrorDetails, value: Any) -> tuple[str | int, ...]:
    """The keys that lead to the value of an error, or to the mapping that lacks a field.

    pydantic's own location has the members of unions in between, as in ("points", "float"): those
    are no keys of the value.
    """
    path = []
    for key in detail["loc"][1:]:  # [0] is the list of `_adapter`
        if isinstance(value, Mapping) and key in value:
            value = value[str(key)]
        elif isinstance(value, Sequence) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            continue
        path.append(key)
    return tuple(path)


def _missing(
    details: Sequence[ErrorDetails], value: Any, path: Sequence[str | int], where: str
) -> str:
    """The sentence about fields that are missing: about one written otherwise, if there is one."""
    for key in path:
        value = value[key]
    lacking = [detail["loc"][-1] for detail in details]
    if isinstance(value, Sequence):
        return f"{where} must have more than {len(value)} values, got {len(value)}"
    for name in lacking:
        near = get_close_matches(str(name), map(str, value), n=1, cutoff=0.8)
        if near:
            return f"{where} must have the field {name}, got {near[0]!r}"
    return f"{where} must have the field {lacking[0]}, got none"


def _expected(detail: ErrorDetails) -> str:
    phrase = _PHRASES.get(detail["type"])
    if phrase is None:
        return f"of its type ({detail['msg']})"
    context = dict(detail.get("ctx", {}))
    if "expected" in context:  # "'fast' or 'slow'" as "fast, slow"
        context["expected"] = context["expected"].replace("' or '", "', '").replace("'", "")
    return phrase.format(**context)


def _check_fields(result: Any, value: Any, place: str, open: bool = False) -> None:
    """Raise ValueError where a mapping has other fields than the dataclass made of it."""
    if is_dataclass(result):
        name = place or "it"
        known = {field.name: field.metadata for field in fields(result)}
        for key in () if open else value:
            check_choice(f"a field of {place}" if place else "a field", key, known)
        for key, metadata in known.items():
            if key in value:
                _check_fields(getattr(result, key), value[key], _below(place, key))
            elif not metadata.get("younger"):
                raise ValueError(f"{name} must have the field {key}, got none")
    elif isinstance(result, Mapping):
        for key, part in result.items():
            _check_fields(part, value[key], _below(place, key))
    elif isinstance(result, (list, tuple)):
        for index, part in enumerate(result):
            _check_fields(part, value[index], _below(place, index))
