"""Tile tables: how many points and slots a program takes, and with how many warps.

A table is a TOML file in `tuned/`, for GPUs on which a block may have at least its `shared_memory`.
Rows are tried in order, and the first is taken that has the kernel and the precision and whose
`slices` and `width` are at least those of the operation.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


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
    """Bytes that a thread may spill, for tiles that were measured to be fastest nevertheless."""


@dataclass(frozen=True)
class TileTable:
    name: str
    architecture: int
    """The compute capability it was made for, as in 90."""
    shared_memory: int
    """Bytes of shared memory that no block of any tile exceeds."""
    tiles: tuple[Tile, ...]
    bounds: dict[tuple[str, str], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By family and precision the largest pairs (slices, width) with tiles, one or several.

    They are those of the pair's backward, which needs the most memory; the other kernels have tiles
    for at least these.
    """

    def has_tiles(self, family: str, precision: str, slices: int, width: int) -> bool:
        within = self.bounds.get((family, precision), ())
        return any(slices <= most and width <= widest for most, widest in within)


def read_table(path: Path) -> TileTable:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = content["tile"]
    tiles = tuple(Tile(**{**row, "precisions": tuple(row["precisions"])}) for row in rows)
    bounds: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
    for tile in tiles:
        family, kernel = tile.kernel.split("/")
        if kernel in ("pair_backward", "pair_backward_points"):
            for precision in tile.precisions:
                known = bounds.get((family, precision), ())
                bounds[family, precision] = (*known, (tile.slices, tile.width))
    return TileTable(path.stem, content["architecture"], content["shared_memory"], tiles, bounds)


TABLES: dict[str, TileTable] = {
    table.name: table
    for table in sorted(
        map(read_table, Path(__file__).parent.glob("tuned/*.toml")), key=lambda t: t.shared_memory
    )
}
"""By name, in the order of shared memory. Read at import: a plan may be made while tracing."""
LEAST_SHARED_MEMORY = min(table.shared_memory for table in TABLES.values())


def table_for(shared_memory: int | None) -> TileTable:
    """The table with the most shared memory that a GPU can use; None stands for any GPU."""
    fitting = [
        table
        for table in TABLES.values()
        if shared_memory is None or table.shared_memory <= shared_memory
    ]
    if not fitting:
        raise ValueError(
            f"the kernels need {LEAST_SHARED_MEMORY} bytes of shared memory a block, and this GPU"
            f" has {shared_memory}"
        )
    return fitting[-1]


@cache
def pick_tile(table: str, kernel: str, precision: str, slices: int, width: int) -> Tile:
    for tile in TABLES[table].tiles:
        fits = slices <= tile.slices and width <= tile.width
        if tile.kernel == kernel and precision in tile.precisions and fits:
            return tile
    raise ValueError(
        f"table {table!r} has no tile for {kernel} in {precision}, G = {slices}, width {width}"
    )
