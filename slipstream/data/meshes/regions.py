"""Which patches of an OpenFOAM case, or blocks of a .vtm, are read, by names with wildcards.

A .vtm of an OpenFOAM case has the volume as `internal` (or `internalMesh`) and each patch as a
block of its own. It is read like the case: the volume, unless patches are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from slipstream.core.plain_checks import check_choice
from slipstream.core.text import printable
from slipstream.data.meshes.blocks import Block, blocks_of, members_of

INTERNAL = "internalMesh"
_GROUP = "group/"
_INTERNAL_NAMES = ("internal", "internalmesh")
_SURFACES = (".vtp", ".stl", ".ply")

T = TypeVar("T")


def choose_regions(
    regions: Iterable[str], known: Mapping[str, T], groups: Mapping[str, T], what: str
) -> dict[str, T]:
    """What is named `known` or `groups`, by exact names or patterns (`body*`), each once.

    A pattern never means the volume. A group may be called `wheels` or, where a patch has the same
    name, `group/wheels`. ValueError for a region that fits none; `what` begins its sentence.
    """
    prefixed = {_GROUP + name.removeprefix(_GROUP): value for name, value in groups.items()}
    chosen: dict[str, T] = {}
    for region in regions:
        if region in known:
            chosen[region] = known[region]
            continue
        patches = {name: v for name, v in known.items() if name.lower() not in _INTERNAL_NAMES}
        fitting = {name: value for name, value in patches.items() if fnmatchcase(name, region)}
        for name, value in prefixed.items() if not fitting else ():
            if fnmatchcase(name, region) or fnmatchcase(name.removeprefix(_GROUP), region):
                fitting[name] = value
        if not fitting:
            check_choice(what, region, map(printable, (*known, *prefixed)))
        chosen |= fitting
    return chosen


def chosen_blocks(path: Path, regions: Sequence[str]) -> list[Block]:
    """The blocks of a .vtm that are read: the volume of one made from an OpenFOAM case, all blocks
    of another, or those that `regions` names. Surfaces and volumes are never joined."""
    members_of(path)  # refuses a .vtm inside itself, and too many of them
    chosen = _chosen(path, regions)
    flat = [block.name for block in chosen if block.file.suffix.lower() in _SURFACES]
    if flat and len(flat) < len(chosen):
        rest = [block.name for block in chosen if block.file.suffix.lower() not in _SURFACES]
        raise ValueError(
            f"{path.name} must give a surface or a volume, got the surfaces {_some(flat)} beside"
            f" {_some(rest)}: `patches` in the card names the blocks to read"
        )
    return chosen


def _chosen(path: Path, regions: Sequence[str]) -> list[Block]:
    """The blocks that `regions` names; a .vtm among them gives its volume, or all its blocks."""
    blocks = {block.name: block for block in blocks_of(path)}
    volume = [name for name in blocks if name.lower() in _INTERNAL_NAMES]
    if tuple(regions) == (INTERNAL,):
        chosen = volume or list(blocks)
    else:
        known = {name: [name] for name in blocks}
        if volume:
            known[INTERNAL] = volume
        groups: dict[str, list[str]] = {}
        for block in blocks.values():
            for group in block.around:
                groups.setdefault(group, []).append(block.name)
        fitting = choose_regions(regions, known, groups, f"a block of {path.name}")
        chosen = list(dict.fromkeys(name for members in fitting.values() for name in members))
    files = []
    for block in (blocks[name] for name in chosen):
        inner = block.file.suffix.lower() == ".vtm"
        files += _chosen(block.file, (INTERNAL,)) if inner else [block]
    return files


def patches_of_blocks(path: Path) -> list[str]:
    """The blocks of a .vtm beside its volume; none where it has no volume of an OpenFOAM case."""
    try:
        names = [block.name for block in blocks_of(path)]
    except (ValueError, OSError):
        return []
    patches = [name for name in names if name.lower() not in _INTERNAL_NAMES]
    return patches if len(patches) < len(names) else []


def _some(names: Sequence[str]) -> str:
    return printable(", ".join(names[:5])) + (", ..." if len(names) > 5 else "")
