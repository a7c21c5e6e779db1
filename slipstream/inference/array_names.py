"""Names for the arrays of a prediction that no array of its mesh has."""

from __future__ import annotations

from typing import Any

from slipstream.data.meshes import Location


def free_name(name: str, ending: str, taken: set[str]) -> str:
    """The name, if it is taken with the ending, and if that is taken with a number."""
    if name not in taken:
        return name
    base, free, number = name + ending, name + ending, 2
    while free in taken:
        free, number = f"{base}_{number}", number + 1
    return free


def names_at(data: Any, location: Location) -> set[str]:
    """The names of the arrays at the points or cells of a pyvista object, or of all its blocks;
    none of numpy arrays."""
    if isinstance(data, tuple):
        return set()
    if hasattr(data, f"{location}_data"):
        return set(getattr(data, f"{location}_data").keys())
    blocks = [block for block in data if block is not None]
    return {name for block in blocks for name in names_at(block, location)}
