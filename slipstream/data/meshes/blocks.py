"""The files that a .vtm names, and those that a .vtm among them names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from slipstream.data.meshes.parts import whole_name

_DEEPEST = 10
_MOST = 10_000


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
        if element.tag == "DataSet" and (file := element.get("file")):
            name = _unused(element.get("name") or Path(file).stem, around, blocks)
            blocks[name] = Block(name, path.parent / file, around)
        inner = element.get("name") if element.tag == "Block" else None
        inside = (*around, inner) if inner else around
        stack += [(child, inside) for child in reversed(element)]
    if not blocks:
        raise ValueError(f"{path.name} must name the files of its blocks, got none")
    return list(blocks.values())


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
    for block in blocks_of(path):
        yield block.file
        if block.file.suffix.lower() == ".vtm":
            yield from _walk(block.file, (*around, here))
