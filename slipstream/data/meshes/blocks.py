"""The files that a .vtm names, and those that a .vtm among them names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from slipstream.data.meshes.parts import whole_name

_DEEPEST = 10
_MOST = 10_000
_ELEMENTS = ("VTKFile", "vtkMultiBlockDataSet", "Block", "DataSet", "Piece", "FieldData")


@dataclass(frozen=True)
class Block:
    """A file that a .vtm names."""

    name: str
    """Its name in the .vtm, or that of the file; no other block of the .vtm has it."""
    file: Path
    around: tuple[str, ...]
    """The names of the blocks that it is inside of."""


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a .vtm, in its order; one of them may be a .vtm itself."""
    whole_name([path])  # it exists, and is a regular file
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # as an unknown encoding
        raise ValueError(f"{path.name} must be a whole VTK XML file, got {error}") from None
    blocks: dict[str, Block] = {}
    stack: list[tuple[ElementTree.Element, tuple[str, ...]]] = [(root, ())]
    while stack:
        element, around = stack.pop()
        if element.tag == "FieldData":  # arrays of the whole .vtm, as the time
            continue
        _check_element(element, path.name)
        if element.tag == "DataSet" and (file := element.get("file")):
            name = _unused(element.get("name") or Path(file).stem, around, blocks)
            blocks[name] = Block(name, path.parent / file, around)
        inner = element.get("name") if element.tag == "Block" else None
        inside = (*around, inner) if inner else around
        stack += [(child, inside) for child in reversed(element)]
    if not blocks:
        raise ValueError(f"{path.name} must name the files of its blocks, got none")
    return list(blocks.values())


def _check_element(element: ElementTree.Element, file: str) -> None:
    """Raise ValueError for what VTK would leave out: an unknown element, or all blocks but the last
    of those that have the same index."""
    if element.tag not in _ELEMENTS:
        tag = element.tag[:40]
        raise ValueError(f"{file} must consist of {', '.join(_ELEMENTS)}, got {tag!r}")
    given = [index for child in element if (index := child.get("index")) is not None]
    for index in given:
        if not re.fullmatch("[0-9]{1,9}", index):
            raise ValueError(f"an index of {file} must be a whole number, got {index[:40]!r}")
    for number, times in Counter(map(int, given)).items():
        if times > 1:
            raise ValueError(
                f"{file} must give each block an index of its own, got {number} {times} times"
            )


def _unused(name: str, around: tuple[str, ...], blocks: Mapping[str, Block]) -> str:
    """The name, made longer where another block has it."""
    if name in blocks:
        name = "/".join((*around, name))
    if name in blocks:
        name = f"{name}_{len(blocks)}"
    while name in blocks:
        name += "_"
    return name


def members_of(path: Path) -> list[Path]:
    """All files that a .vtm names, in its order; a .vtm among them comes before its own.

    ValueError for a .vtm that contains itself or names a file twice, and for one that is nested
    too deeply or has too many files.
    """
    members: dict[str, Path] = {}
    for file in _walk(path, ()):
        if len(members) == _MOST:
            raise ValueError(f"{path.name} must name at most {_MOST:,} files, got more")
        if members.setdefault(os.path.realpath(file), file) is not file:
            raise ValueError(f"{path.name} must name each file once, got {file.name!r} twice")
    return list(members.values())


def _walk(path: Path, around: tuple[Path, ...]) -> Iterator[Path]:
    """`around` are the .vtm files that this one is inside of."""
    here = Path(os.path.realpath(path))
    outermost = around[0].name if around else path.name
    if here in around:
        raise ValueError(f"{outermost} must not contain itself, got {path.name} inside itself")
    if len(around) == _DEEPEST:
        raise ValueError(f"{outermost} must have at most {_DEEPEST} .vtm inside one another")
    for block in blocks_of(path):
        yield block.file
        if block.file.suffix.lower() == ".vtm":
            yield from _walk(block.file, (*around, here))
