"""The meshes that a user names on a command line: files, cases, folders and patterns."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from slipstream.core.folders import OnError
from slipstream.data.meshes.mesh_files import find_meshes
from slipstream.data.meshes.openfoam import case_folder, is_case
from slipstream.data.meshes.requests import kind_of
from slipstream.data.meshes.vtk_files import SUFFIXES


@dataclass(frozen=True)
class MeshInput:
    """One mesh of those that were named."""

    path: Path
    name: str
    """A path without suffix, as `wing/run_1`, that no other mesh has: for the output."""


def find_inputs(
    paths: Sequence[Path | str], *, tell: OnError | None = None, without: Container[str] = ()
) -> list[MeshInput]:
    """The meshes that are meant, each once, sorted by name.

    A path is a mesh file, an OpenFOAM case, a folder, in which all meshes are found however deep,
    or a pattern (`runs/*.vtp`, `**/*.stl`) of such. A mesh found in a folder is named by its path
    below that folder, another one by its file. Where that gives two the same name, folders above
    are added (`run_1/body`), or the suffix to those in the same folder (`body_stl`). `tell` is
    called with the error of each folder that cannot be read. Meshes whose real path is in `without`
    are left out. ValueError where a path does not exist or gives no mesh, and where none is left.
    """
    found: dict[str, tuple[Path, Path]] = {}
    for path in paths:
        for mesh, name in _meant(path, tell):
            real = os.path.realpath(case_folder(mesh) if is_case(mesh) else mesh)
            if real not in without:
                found.setdefault(real, (mesh, name))
    if not found:
        raise ValueError("at least one mesh must be named, got none")
    names = _unique(list(found.values()))
    inputs = (MeshInput(mesh, name) for (mesh, _), name in zip(found.values(), names, strict=True))
    return sorted(inputs, key=lambda one: one.name)


def _meant(path: Path | str, tell: OnError | None) -> Iterator[tuple[Path, Path]]:
    """Meshes with their names before they are made unique."""
    given = Path(path)
    if os.path.lexists(given):
        yield from _at(given, tell)
        return
    if not glob.has_magic(str(path)):
        raise ValueError(f"{path} must exist, got no such file or folder")
    found = False
    for match in sorted(glob.glob(str(path), recursive=True)):
        mesh = Path(match)
        if is_case(mesh) or (mesh.suffix.lower() in SUFFIXES and mesh.is_file()):
            found = True
            yield mesh, _stem(mesh)
        elif mesh.is_dir() and (inside := find_meshes(mesh, tell)):
            found = True
            yield from ((one, _below(one, mesh)) for one in inside)
    if not found:
        raise ValueError(f"{path} must fit the name of a mesh ({_kinds()}), got none that it fits")


def _at(path: Path, tell: OnError | None) -> Iterator[tuple[Path, Path]]:
    if not path.is_dir() or is_case(path):
        kind_of([path])  # raises ValueError for a file that is no mesh
        yield path, _stem(path)
        return
    meshes = find_meshes(path, tell)
    if not meshes:
        raise ValueError(f"{path} must hold a mesh ({_kinds()}), got none in it")
    yield from ((mesh, _below(mesh, path)) for mesh in meshes)


def _kinds() -> str:
    return f"{', '.join(SUFFIXES)} or the folder of an OpenFOAM case"


def _place(mesh: Path) -> Path:
    """The file or the folder of the case, from the root and without `..`."""
    return Path(os.path.abspath(case_folder(mesh) if is_case(mesh) else mesh))


def _kind(mesh: Path) -> str:
    return "case" if is_case(mesh) else mesh.suffix[1:].lower()


def _stem(mesh: Path) -> Path:
    place = _place(mesh)
    return Path(place.name or "case") if is_case(mesh) else Path(place.stem)


def _below(mesh: Path, folder: Path) -> Path:
    return mesh.relative_to(folder).parent / _stem(mesh)


def _unique(meshes: Sequence[tuple[Path, Path]]) -> list[str]:
    """A name for each mesh that no other one has, also where large letters are as small ones."""
    places = [_place(mesh) for mesh, _ in meshes]
    bare = [_place(mesh).parent / _stem(mesh) for mesh, _ in meshes]
    beside = _repeated(map(str, bare))
    bases = [
        name.with_name(f"{name.name}_{_kind(mesh)}") if str(own).casefold() in beside else name
        for (mesh, name), own in zip(meshes, bare, strict=True)
    ]
    names = [base.as_posix() for base in bases]
    for above in range(1, max(len(place.parts) for place in places)):
        same = _repeated(names)
        for index in range(len(names)) if same else ():
            if names[index].casefold() in same:
                names[index] = _longer(places[index], bases[index], above)
    return _numbered(names)


def _longer(place: Path, base: Path, above: int) -> str:
    """The name with this many of the folders above."""
    folders = place.parts[1 : len(place.parts) - len(base.parts)]
    return Path(*folders[max(0, len(folders) - above) :], base).as_posix()


def _numbered(names: Sequence[str]) -> list[str]:
    """With a number where they are still the same, as Body.vtp and body.vtp in one folder."""
    same = _repeated(names)
    taken = {name.casefold() for name in names}
    numbered = []
    for name in names:
        if name.casefold() in same:
            tries = (f"{name}_{number}" for number in count(1))
            name = next(longer for longer in tries if longer.casefold() not in taken)
            taken.add(name.casefold())
        numbered.append(name)
    return numbered


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(n.casefold() for n in names).items() if times > 1}
