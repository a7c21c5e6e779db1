"""The dictionaries of blockMesh and snappyHexMesh: a box of cubes, finer around a body."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.physics.openfoam.c_grid import ratios
from slipstream.physics.openfoam.foam_text import value_text, write_dictionary

BODY, FAR = "body", "far"
BODY_FILE = "body.stl"
COMMANDS = (("blockMesh",), ("snappyHexMesh", "-overwrite"))
_FAR = 6.0
"""From the finer middle to the ends of the box, in lengths of the body."""
_OUTER = 8
"""Cells from the middle to an end, the larger the farther."""
_NEAR, _WAKE = 0.25, 1.0
"""How far the middle reaches around the body and behind it, in lengths of the body."""


@dataclass(frozen=True)
class Box:
    """Where a body is."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Its largest extent."""
        return float((self.high - self.low).max())


def write_mesh_dictionaries(case: Path, box: Box, *, coarse: int, level: int) -> None:
    """For a background of cubes around the body, `coarse` on its length, halved `level` times at
    it. They must be no larger than the body is thick, or snappyHexMesh does not see it."""
    size = box.length / coarse
    low = box.low - _NEAR * box.length
    high = box.high + box.length * np.array([_WAKE, _NEAR, _NEAR])
    inner = np.ceil((high - low) / size).astype(int)
    high = low + inner * size
    write_dictionary(case / "system" / "blockMeshDict", _block(low, inner, size, box.length))
    inside = low + size * 0.37
    near = box.low - _NEAR / 2 * box.length, box.high + _NEAR * box.length
    write_dictionary(case / "system" / "snappyHexMeshDict", _snappy(near, inside, level))


def _block(low: NDArray[Any], inner: NDArray[Any], size: float, length: float) -> dict[str, Any]:
    """Three sections of cells along each axis, those of the middle all alike."""
    far = _FAR * length
    x, y, z = ((start - far, start + n * size + far) for start, n in zip(low, inner, strict=True))
    bottom = [(x[0], y[0]), (x[1], y[0]), (x[1], y[1]), (x[0], y[1])]
    faces = ("0 4 7 3", "1 2 6 5", "0 1 5 4", "3 7 6 2", "0 3 2 1", "4 5 6 7")
    sides = " ".join(f"({face})" for face in faces)
    last = float(ratios(np.array([size]), _OUTER, far)[0]) ** (_OUTER - 1)
    grading = [
        [(far, _OUTER, 1 / last), (float(n * size), int(n), 1), (far, _OUTER, last)] for n in inner
    ]
    cells = " ".join(str(int(n) + 2 * _OUTER) for n in inner)
    return {
        "convertToMeters": 1,
        "vertices": [tuple(map(float, (*corner, height))) for height in z for corner in bottom],
        "blocks": f"(hex (0 1 2 3 4 5 6 7) ({cells}) simpleGrading {value_text(grading)})",
        "boundary": f"({FAR} {{ type patch; faces ({sides}); }})",
    }


def _snappy(
    near: tuple[NDArray[Any], NDArray[Any]], inside: NDArray[Any], level: int
) -> dict[str, Any]:
    return {
        "castellatedMesh": True,
        "snap": True,
        "addLayers": False,
        "geometry": {
            BODY_FILE: {"type": "triSurfaceMesh", "name": BODY},
            "near": {"type": "searchableBox", "min": near[0].tolist(), "max": near[1].tolist()},
        },
        "castellatedMeshControls": {
            "maxLocalCells": 10_000_000,
            "maxGlobalCells": 10_000_000,
            "minRefinementCells": 0,
            "nCellsBetweenLevels": 3,
            "features": [],
            "refinementSurfaces": {
                BODY: {"level": (level, level), "patchInfo": {"type": "wall"}},
            },
            "resolveFeatureAngle": 30,
            "refinementRegions": {
                "near": {"mode": "inside", "levels": f"((1e15 {max(level - 1, 0)}))"},
            },
            "locationInMesh": tuple(inside.tolist()),
            "allowFreeStandingZoneFaces": False,
        },
        "snapControls": {
            "nSmoothPatch": 3,
            "tolerance": 2.0,
            "nSolveIter": 50,
            "nRelaxIter": 5,
        },
        "addLayersControls": {
            "relativeSizes": True, "layers": {}, "expansionRatio": 1.0,
            "finalLayerThickness": 0.3, "minThickness": 0.1, "nGrow": 0, "featureAngle": 60,
            "nRelaxIter": 3, "nSmoothSurfaceNormals": 1, "nSmoothNormals": 3,
            "nSmoothThickness": 10, "maxFaceThicknessRatio": 0.5,
            "maxThicknessToMedialRatio": 0.3, "minMedianAxisAngle": 90,
            "nBufferCellsNoExtrude": 0, "nLayerIter": 50,
        },
        "meshQualityControls": {
            "maxNonOrtho": 65, "maxBoundarySkewness": 20, "maxInternalSkewness": 4,
            "maxConcave": 80, "minVol": 1e-13, "minTetQuality": 1e-15, "minArea": -1,
            "minTwist": 0.02, "minDeterminant": 0.001, "minFaceWeight": 0.05,
            "minVolRatio": 0.01, "minTriangleTwist": -1, "nSmoothScale": 4,
            "errorReduction": 0.75,
        },
        "mergeTolerance": 1e-6,
    }  # fmt: skip
