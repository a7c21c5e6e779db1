"""A mesh as plain arrays, as it comes from the process that reads it with VTK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes.arrays import ArrayInfo, MeshInfo
from slipstream.data.meshes.cells import CHUNK, Cells, Chunk


@dataclass(frozen=True, eq=False)
class CellPart:
    """Cells that are stored together: `types` is one type for all of them, or one for each."""

    types: int | NDArray[np.uint8]
    offsets: NDArray[Any]
    corners: NDArray[Any]

    @property
    def count(self) -> int:
        return max(0, len(self.offsets) - 1)


@dataclass(frozen=True, eq=False)
class LoadedMesh:
    points: NDArray[Any]
    parts: Sequence[CellPart]
    values: Mapping[ArrayInfo, NDArray[Any]]

    @property
    def info(self) -> MeshInfo:
        return MeshInfo(len(self.points), sum(p.count for p in self.parts), tuple(self.values))

    def cells(self, file: str) -> Cells:
        def chunks() -> Iterator[Chunk]:
            for part in self.parts:
                types = part.types
                if isinstance(types, int):
                    types = np.full(part.count, types, np.uint8)
                for first in range(0, part.count, CHUNK):
                    bounds = part.offsets[first : first + CHUNK + 1]
                    here = part.corners[bounds[0] : bounds[-1]]
                    yield Chunk(types[first : first + CHUNK], bounds[:-1] - bounds[0], here)

        return Cells(file, self.info.cells, self.info.points, chunks)

    def to_message(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        parts = [None if isinstance(p.types, np.ndarray) else p.types for p in self.parts]
        arrays = [self.points, *self.values.values()]
        for part in self.parts:
            arrays += [part.offsets, part.corners]
            arrays += [part.types] if isinstance(part.types, np.ndarray) else []
        return {"parts": parts, "arrays": [asdict(info) for info in self.values]}, arrays

    @classmethod
    def from_message(cls, value: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> LoadedMesh:
        rest = iter(arrays)
        points = next(rest)
        values = {ArrayInfo(**info): next(rest) for info in value["arrays"]}
        parts = []
        for kind in value["parts"]:
            offsets, corners = next(rest), next(rest)
            parts.append(CellPart(next(rest) if kind is None else kind, offsets, corners))
        return cls(points, parts, values)
