"""OpenFOAM's text files: dictionaries and lists."""

from __future__ import annotations

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
