"""OpenFOAM's text files: dictionaries and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 12
"""Significant digits of all numbers that cases are written with, the solver's too."""


def write_foam(path: Path, kind: str, text: str) -> None:
    """A file with OpenFOAM's header; `kind` is its class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"FoamFile {{ version 2.0; format ascii; class {kind}; object {path.name}; }}\n"
    path.write_text(head + text, encoding="ascii")


def write_dictionary(path: Path, entries: Mapping[str, Any]) -> None:
    write_foam(path, "dictionary", dictionary_text(entries))


def dictionary_text(entries: Mapping[str, Any], depth: int = 0) -> str:
    """`{"a": 1, "b": {"c": [1, 2]}}` as `a 1; b { c (1 2); }`, a line for each entry.

    Numbers have `DIGITS` digits, lists parentheses, and booleans are yes and no; text is written
    as it is.
    """
    indent = "    " * depth
    lines = []
    for name, value in entries.items():
        if isinstance(value, Mapping):
            inside = dictionary_text(value, depth + 1)
            lines.append(f"{indent}{name}\n{indent}{{\n{inside}{indent}}}\n")
        else:
            lines.append(f"{indent}{name} {value_text(value)};\n")
    return "".join(lines)


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return f"{{ {' '.join(f'{name} {value_text(item)};' for name, item in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"({' '.join(map(value_text, value))})"
    return str(value)


def number(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def list_text(items: Iterable[str]) -> str:
    lines = list(items)
    return "\n".join((str(len(lines)), "(", *lines, ")", ""))


def vectors_text(vectors: NDArray[np.float64]) -> str:
    """Points or other vectors, (N, 3), as a list."""
    return list_text(f"({x:.{DIGITS}g} {y:.{DIGITS}g} {z:.{DIGITS}g})" for x, y, z in vectors)


def read_patch(path: Path, patch: str, components: int) -> NDArray[np.float64]:
    """The values of a field on a patch, (N,) or (N, components), as they are in the file.

    ValueError where the patch has no list of values.
    """
    text = path.read_text(encoding="ascii")
    start = text.find("boundaryField")
    found = re.search(rf"\n\s*{re.escape(patch)}\s*\{{(.*?)\n    \}}", text[start:], re.S)
    value = (
        re.search(r"\bvalue\s+nonuniform\s+List<\w+>\s*\d+\s*\((.*)\)\s*;", found[1], re.S)
        if (found)
        else None
    )
    if value is None:
        raise ValueError(f"{path.name} must have values on the patch {patch}, got none")
    return _numbers(value[1], components)


def read_internal(path: Path, components: int) -> NDArray[np.float64]:
    """The values of a field in the cells, as `read_patch`."""
    text = path.read_text(encoding="ascii")
    found = re.search(r"internalField\s+nonuniform\s+List<\w+>\s*\d+\s*\((.*?)\)\s*;", text, re.S)
    if found is None:
        raise ValueError(f"{path.name} must have a list of values, got none")
    return _numbers(found[1], components)


def _numbers(text: str, components: int) -> NDArray[np.float64]:
    words = text.replace("(", " ").replace(")", " ").split()
    values = np.array(words, np.float64)
    return values if components == 1 else values.reshape(-1, components)
