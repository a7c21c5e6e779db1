"""The files that a .vtm names, and those that a .vtm among them names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from slipstream.data.meshes.parts import whole_name

_DEEPEST = 10
_MOST = 10_000


def blocks_of(path: Path) -> list[Path]:
    """The files with points of a .vtm, in its order."""
    return [file for file in members_of(path) if file.suffix.lower() != ".vtm"]


def members_of(path: Path) -> list[Path]:
    """All files that a .vtm names, in its order; a .vtm among them comes before its own.

    ValueError for a .vtm that contains itself, and for one that is nested too deeply or has too
    many files: one that names the same file twice, at 29 depths, would stand for 2^29.
    """
    members = list(islice(_walk(path, ()), _MOST + 1))
    if len(members) > _MOST:
        raise ValueError(f"{path.name} must name at most {_MOST:,} files, got more")
    return members


def _walk(path: Path, around: tuple[Path, ...]) -> Iterator[Path]:
    """`around` are the .vtm files that this one is inside of."""
    here = Path(os.path.realpath(path))
    outermost = around[0].name if around else path.name
    if here in around:
        raise ValueError(f"{outermost} must not contain itself, got {path.name} inside itself")
    if len(around) == _DEEPEST:
        raise ValueError(f"{outermost} must have at most {_DEEPEST} .vtm inside one another")
    for file in _named(path):
        yield file
        if file.suffix.lower() == ".vtm":
            yield from _walk(file, (*around, here))


def _named(path: Path) -> list[Path]:
    whole_name([path])  # it exists, and is a regular file
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # as an unknown encoding
        raise ValueError(f"{path.name} must be a whole VTK XML file, got {error}") from None
    files = [path.parent / name for e in root.iter("DataSet") if (name := e.get("file"))]
    if not files:
        raise ValueError(f"{path.name} must name the files of its blocks, got none")
    return files
