"""Tile tables: how many points and slots a program takes, with how many warps. Data, not code.

A table is a TOML file of `tuned/`, for GPUs that give a block at least its `shared_memory`. Rows
are tried in order; the first whose kernel and precision fit and whose bounds hold the problem is
taken.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLES = Path(__file__).parent / "tuned"


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One row of a table."""

    kernel: str
    """Family and kernel, as in "single-tile/backward"."""
    precisions: tuple[str, ...]
    slices: int
    """Largest G the row is for."""
    width: int
    """Largest D and V the row is for."""
    points: int
    """BN, points per tile."""
    slots: int = 0
    """BG, slots per tile; 0 in the single-tile family, where it is G."""
    warps: int = 4
    stages: int = 2
    per_sm: int = 4
    """Programs per multiprocessor that kernels with partial sums are split into."""
    spills: int = 0
    """Bytes a thread may spill, where the sweep found that faster all the same."""


@dataclass(frozen=True)
class TileTable:
    name: str
    architecture: int
    """The compute capability it was made for, as in 90."""
    shared_memory: int
    """Bytes that no tile's block exceeds."""
    tiles: tuple[Tile, ...]


def table_names() -> list[str]:
    return sorted(path.stem for path in TABLES.glob("*.toml"))


@cache
def read_table(name: str) -> TileTable:
    content = tomllib.loads((TABLES / f"{name}.toml").read_text())
    rows = content["tile"]
    tiles = tuple(Tile(**{**row, "precisions": tuple(row["precisions"])}) for row in rows)
    return TileTable(name, content["architecture"], content["shared_memory"], tiles)


@cache
def table_for(shared_memory: int) -> str:
    """The table that makes most of a GPU whose blocks may have this much shared memory."""
    tables = [read_table(name) for name in table_names()]
    fitting = [table for table in tables if table.shared_memory <= shared_memory]
    if not fitting:
        raise ValueError(
            f"the kernels need {least_shared_memory()} bytes of shared memory a block, and this GPU"
            f" has {shared_memory}"
        )
    return max(fitting, key=lambda table: table.shared_memory).name


@cache
def least_shared_memory() -> int:
    return min(read_table(name).shared_memory for name in table_names())


@cache
def pick_tile(table: str, kernel: str, precision: str, slices: int, width: int) -> Tile:
    for tile in read_table(table).tiles:
        fits = slices <= tile.slices and width <= tile.width
        if tile.kernel == kernel and precision in tile.precisions and fits:
            return tile
    raise ValueError(
        f"table {table!r} has no tile for {kernel} in {precision}, G = {slices}, width {width}"
    )
