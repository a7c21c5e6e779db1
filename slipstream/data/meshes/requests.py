"""Requests to the process that reads with VTK: which files, what of them, within which limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from slipstream.data.meshes.arrays import ArrayInfo, MeshInfo, Wanted
from slipstream.data.meshes.guard import GUARD
from slipstream.data.meshes.limits import current_limits
from slipstream.data.meshes.loaded import LoadedMesh
from slipstream.data.meshes.mesh_files import parts_of
from slipstream.data.meshes.openfoam import CASE, case_folder, is_case
from slipstream.data.meshes.parts import joined, whole_name
from slipstream.data.meshes.regions import INTERNAL, chosen_blocks
from slipstream.data.meshes.stl import whole_stl
from slipstream.data.meshes.vtk_files import SUFFIXES

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Request:
    """A mesh, or the byte parts of its file, with the arrays that are wanted (None: all)."""

    paths: Sequence[Path]
    wanted: Sequence[Wanted] | None
    regions: Sequence[str] = (INTERNAL,)

    @property
    def name(self) -> str:
        return name_of(self.paths)

    def read(self) -> LoadedMesh:
        return LoadedMesh.from_message(*self._ask("mesh"))

    def info(self) -> MeshInfo:
        value, _ = self._ask("info")
        arrays = tuple(ArrayInfo(**array) for array in value["arrays"])
        return MeshInfo(value["points"], value["cells"], arrays)

    def volumes(self) -> NDArray[Any]:
        """The volume of each cell."""
        _, (volumes,) = self._ask("volumes")
        return volumes

    def check(self) -> None:
        """Raise ValueError where the whole mesh, with all its arrays, cannot be read."""
        self._ask("check")

    def write(self, request: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> list[list[str]]:
        """Have the mesh written with arrays added, as `vtk_writing.write_blocks` says."""
        written, _ = self._ask("write", request, arrays)
        return written

    def _ask(
        self, what: str, more: Mapping[str, Any] = _NOTHING, arrays: Sequence[NDArray[Any]] = ()
    ) -> tuple[Any, list[NDArray[Any]]]:
        size, limits = _size(self.paths), current_limits()
        wanted = self.wanted if what != "volumes" else ()
        size += sum(array.nbytes for array in arrays)
        with self.files() as files:
            request = {
                **more,
                "name": self.name,
                "what": what,
                "kind": kind_of(self.paths),
                "files": [str(file.absolute()) for file in files],
                "wanted": None if wanted is None else [asdict(want) for want in wanted],
                "regions": list(self.regions),
            }
            return GUARD.ask(
                request,
                name=more.get("out", self.name),
                memory=limits.memory_for(size),
                seconds=limits.seconds_for(size),
                arrays=arrays,
                doing="writing" if what == "write" else "reading",
            )

    @contextmanager
    def files(self) -> Iterator[list[Path]]:
        """The files that VTK reads. Copies, where it needs any, are made and removed here, as the
        process that reads them may crash."""
        kind = kind_of(self.paths)
        with ExitStack() as copies:
            if kind == CASE:
                files = [self.paths[0]]
            elif kind == ".vtm":
                files = [block.file for block in chosen_blocks(self.paths[0], self.regions)]
            else:
                files = [copies.enter_context(joined(self.paths))]
            for index, file in enumerate(files):
                inner = kind_of([file]) if kind == ".vtm" else kind
                if inner == CASE and kind != CASE:
                    raise ValueError(f"{self.name} must name mesh files, got the case {file.name}")
                if inner == ".stl":
                    files[index] = copies.enter_context(whole_stl(file))
            yield files


def name_of(paths: Sequence[Path]) -> str:
    """The name of a mesh, for errors."""
    if len(paths) == 1 and is_case(paths[0]):
        return case_folder(paths[0]).name
    return whole_name(paths)


def kind_of(paths: Sequence[Path]) -> str:
    """The suffix that stands for the format of a mesh."""
    if len(paths) == 1 and is_case(paths[0]):
        return CASE
    name = whole_name(paths)
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES or paths[0].is_dir():
        got = "a folder" if paths[0].is_dir() else repr(suffix)
        known = ", ".join((*SUFFIXES, CASE))
        raise ValueError(f"{name} must be {known} or the folder of an OpenFOAM case, got {got}")
    return suffix


def _size(paths: Sequence[Path]) -> int:
    """Bytes of all files that a mesh consists of; where one is missing, reading it will say so."""
    total = 0
    with suppress(OSError):
        for path in paths:
            total += sum(part.stat().st_size for part in parts_of(path))
    return total
