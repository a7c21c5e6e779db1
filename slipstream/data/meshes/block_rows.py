"""Which rows of a joined mesh belong to each of the data sets that it was joined from.

`vtk_data.joined_data` puts the points of the data sets one after the other. So it does with their
cells, except where all of them are PolyData: there all vertices come first, then all lines, all
polygons and all strips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes.arrays import Location

_KINDS = ("Verts", "Lines", "Polys", "Strips")


@dataclass(frozen=True)
class BlockRows:
    """The rows of one data set among those of the joined mesh."""

    points: slice
    cells: tuple[slice, ...]
    """One after the other they are the cells of the data set, in its order."""

    def take(self, values: NDArray[Any], location: Location) -> NDArray[Any]:
        """The rows of an array of the joined mesh; not copied where they follow one another."""
        parts = (self.points,) if location == "point" else self.cells
        full = [part for part in parts if part.stop > part.start]
        if len(full) > 1:
            return np.concatenate([values[part] for part in full])
        return values[full[0]] if full else values[:0]


def rows_of(blocks: Sequence[Any]) -> list[BlockRows]:
    """The rows of each of these VTK data sets in what they are joined to."""
    full = [block for block in blocks if block.GetNumberOfPoints()]
    surfaces = len(full) > 1 and all(block.IsA("vtkPolyData") for block in full)
    counts = np.array([_counts(block, surfaces) for block in blocks], np.int64)
    ends = np.cumsum(counts.T.ravel()).reshape(counts.T.shape).T  # kind by kind, block by block
    points = np.cumsum([block.GetNumberOfPoints() for block in blocks])
    rows = []
    for number, block in enumerate(blocks):
        cells = tuple(
            slice(int(end - count), int(end))
            for end, count in zip(ends[number], counts[number], strict=True)
        )
        end = int(points[number])
        rows.append(BlockRows(slice(end - block.GetNumberOfPoints(), end), cells))
    return rows


def _counts(block: Any, surfaces: bool) -> list[int]:
    if not block.GetNumberOfPoints():  # it is left out where data sets are joined
        return [0] * (len(_KINDS) if surfaces else 1)
    if not surfaces:
        return [block.GetNumberOfCells()]
    return [getattr(block, f"GetNumberOf{kind}")() for kind in _KINDS]
