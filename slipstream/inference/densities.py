"""From which points the tokens come.

`full`: all points, exactly as one pass. `training`: subsets of the points, as many in each as a
training step saw, whose tokens are averaged; all points are then decoded by the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.runtime import derive_seed

Density = Literal["auto", "training", "full"]
FAR_DENSER = 4.0
"""`auto` takes subsets where a mesh has this many times the points of a training step."""
MOST_SUBSETS = 8


@dataclass(frozen=True, eq=False)
class TokenPoints:
    """The subsets of points, as rows of a mesh, or none for all points at once."""

    subsets: tuple[NDArray[np.int64], ...]
    text: str


def token_points(rows: int, draw: int, density: Density) -> TokenPoints:
    """Choose the points; `draw` is the number of points that a training step saw of a sample."""
    wanted = density == "training" or (density == "auto" and rows > FAR_DENSER * draw)
    if not wanted or rows <= draw:
        return TokenPoints((), f"tokens of all {rows:,} points")
    count = min(MOST_SUBSETS, rows // draw)
    order = np.random.default_rng(derive_seed(0, "density", rows)).permutation(rows)
    subsets = tuple(np.sort(order[k * draw : (k + 1) * draw]) for k in range(count))
    why = " (the mesh is far denser than the training)" if density == "auto" else ""
    text = f"tokens of {count} random subsets of {draw:,} points, as dense as in training{why}"
    return TokenPoints(subsets, text)
