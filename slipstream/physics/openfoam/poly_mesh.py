"""OpenFOAM's mesh of a grid: points, faces and which cells they lie between.

A grid in a plane becomes one layer of cells along y, the span; the grid's axes are x and z, so
that lift is along z in two dimensions as in three. Faces are in OpenFOAM's order: those between two
cells first, by their lower and then by their higher cell, then patch by patch; their area vectors
point from the owner outwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.physics.openfoam.c_grid import CGrid
from slipstream.physics.openfoam.foam_text import list_text, vectors_text, write_foam

Indices = NDArray[np.int64]
WALL, FAR, FRONT_AND_BACK = "airfoil", "far", "frontAndBack"


@dataclass(frozen=True)
class Patch:
    name: str
    kind: str
    """OpenFOAM's type."""
    start: int
    """The first of its faces."""
    count: int


@dataclass(frozen=True, eq=False)
class PolyMesh:
    """A mesh of faces with four corners each."""

    points: NDArray[np.float64]
    """(P, 3)"""
    faces: Indices
    """(F, 4): corners."""
    owner: Indices
    """(F,)"""
    neighbour: Indices
    """(N,): the other cell of each of the first N faces."""
    patches: tuple[Patch, ...]

    @property
    def cells(self) -> int:
        return int(self.owner.max()) + 1

    def area_vectors(self) -> NDArray[np.float64]:
        """(F, 3): half the product of the diagonals, out of the owner."""
        a, b, c, d = (self.points[self.faces[:, k]] for k in range(4))
        vectors: NDArray[np.float64] = np.cross(c - a, d - b) / 2
        return vectors

    def volumes(self) -> NDArray[np.float64]:
        """By Gauss: a third of the sum of position times area vector over the faces of a cell."""
        centres = self.points[self.faces].mean(1)
        parts = (centres * self.area_vectors()).sum(1) / 3
        inside = len(self.neighbour)
        total = np.bincount(self.owner, parts, self.cells)
        return np.asarray(total - np.bincount(self.neighbour, parts[:inside], self.cells))

    def gaps(self) -> NDArray[np.float64]:
        """(C, 3): the sum of the area vectors out of each cell, which is 0 where it is closed."""
        vectors, inside = self.area_vectors(), len(self.neighbour)
        sums = [
            np.bincount(self.owner, vectors[:, k], self.cells)
            - np.bincount(self.neighbour, vectors[:inside, k], self.cells)
            for k in range(3)
        ]
        return np.stack(sums, 1)

    def patch_faces(self, name: str) -> Indices:
        patch = next(patch for patch in self.patches if patch.name == name)
        return self.faces[patch.start : patch.start + patch.count]

    def write(self, folder: Path) -> None:
        """constant/polyMesh."""
        write_foam(folder / "points", "vectorField", vectors_text(self.points))
        faces = (f"4({a} {b} {c} {d})" for a, b, c, d in self.faces.tolist())
        write_foam(folder / "faces", "faceList", list_text(faces))
        for name in ("owner", "neighbour"):
            labels = map(str, getattr(self, name).tolist())
            write_foam(folder / name, "labelList", list_text(labels))
        patches = [
            f"{p.name} {{ type {p.kind}; nFaces {p.count}; startFace {p.start}; }}"
            for p in self.patches
        ]
        write_foam(folder / "boundary", "polyBoundaryMesh", list_text(patches))


def extruded(grid: CGrid, span: float) -> PolyMesh:
    """One layer of cells over the span, from y = -span / 2 to span / 2."""
    number, count = _numbers_of_points(grid)
    plane = np.empty((count, 2))
    plane[number] = grid.points
    points = np.empty((2 * count, 3))
    points[:, ::2] = np.concatenate((plane, plane))
    points[:count, 1], points[count:, 1] = -span / 2, span / 2
    return _assembled(points, number, count, grid.wake)


def _numbers_of_points(grid: CGrid) -> tuple[Indices, int]:
    """(I + 1, J + 1) and how many there are: the two sides of the wake share theirs."""
    rows, columns, _ = grid.points.shape
    number = np.arange(rows * columns).reshape(rows, columns)
    number[rows - 1 - grid.wake :, 0] = number[: grid.wake + 1, 0][::-1]
    kept, number = np.unique(number, return_inverse=True)
    return number.reshape(rows, columns), len(kept)


def _assembled(points: NDArray[np.float64], number: Indices, count: int, wake: int) -> PolyMesh:
    rows, columns = number.shape[0] - 1, number.shape[1] - 1
    cell = np.arange(rows * columns).reshape(rows, columns)

    def standing(first: Indices, second: Indices) -> Indices:
        """Faces over the span along edges of the grid; their area vectors point to the right."""
        a, b = first.ravel(), second.ravel()
        return np.stack((a, a + count, b + count, b), 1)

    mirrored = cell[rows - wake :, 0][::-1]
    inner = [
        (standing(number[1:-1, :-1], number[1:-1, 1:]), cell[:-1], cell[1:]),
        (standing(number[1:, 1:-1], number[:-1, 1:-1]), cell[:, :-1], cell[:, 1:]),
        (standing(number[:wake, 0], number[1 : wake + 1, 0]), cell[:wake, 0], mirrored),
    ]
    faces = np.concatenate([part[0] for part in inner])
    owner, neighbour = (np.concatenate([part[k].ravel() for part in inner]) for k in (1, 2))
    order = np.lexsort((neighbour, owner))
    low = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    back = np.stack([corner.ravel() for corner in low], 1)
    wall = slice(wake, rows - wake)
    outer = {
        WALL: ("wall", standing(number[:-1, 0], number[1:, 0])[wall], cell[wall, 0]),
        FAR: (
            "patch",
            np.concatenate(
                (
                    standing(number[1:, -1], number[:-1, -1]),
                    standing(number[0, 1:], number[0, :-1]),
                    standing(number[-1, :-1], number[-1, 1:]),
                )
            ),
            np.concatenate((cell[:, -1], cell[0], cell[-1])),
        ),
        FRONT_AND_BACK: (
            "empty",
            np.concatenate((back, back[:, ::-1] + count)),
            np.concatenate((cell.ravel(), cell.ravel())),
        ),
    }
    patches, start = [], len(faces)
    for name, (kind, corners, _) in outer.items():
        patches.append(Patch(name, kind, start, len(corners)))
        start += len(corners)
    return PolyMesh(
        points,
        np.concatenate((faces[order], *(corners for _, corners, _ in outer.values()))),
        np.concatenate((owner[order], *(cells for *_, cells in outer.values()))),
        neighbour[order],
        tuple(patches),
    )
