"""Triangles as binary STL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def write_stl(path: Path, points: NDArray[np.float64], triangles: NDArray[np.int64]) -> None:
    """Binary STL of triangles (T, 3), whose corners turn counter-clockwise seen from outside."""
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    rows = np.zeros(len(triangles), _TRIANGLE)
    rows["normal"] = normals / np.where(lengths > 0, lengths, 1)
    rows["corners"] = corners
    head = b"slipstream".ljust(80, b" ") + np.uint32(len(rows)).tobytes()
    path.write_bytes(head + rows.tobytes())
