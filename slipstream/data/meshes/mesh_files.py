"""Which files on disk are meshes, and which further files a mesh consists of."""

from __future__ import annotations

import re
from pathlib import Path

from slipstream.core.folders import OnError, walk
from slipstream.data.meshes.blocks import members_of
from slipstream.data.meshes.openfoam import case_folder, is_case, times_of
from slipstream.data.meshes.regions import patches_of_blocks
from slipstream.data.meshes.vtk_files import SUFFIXES


def find_meshes(folder: Path, tell: OnError | None = None) -> list[Path]:
    """Every mesh below a folder, sorted; blocks of a .vtm and files inside a case do not count.

    Folders that cannot be read are left out, and `tell` is called with the error of each.
    """
    meshes: list[Path] = []
    for here, folders, files in walk(folder, tell):
        try:
            if here != folder and is_case(here):
                meshes.append(here)
                folders.clear()
                continue
        except OSError as error:  # the folder can be listed, but not entered
            folders.clear()
            if tell:
                tell(OSError(error.errno, error.strerror, str(here)))
            continue
        folders[:] = [f for f in folders if not f.startswith(".")]
        meshes += [
            here / f for f in files if not f.startswith(".") and Path(f).suffix.lower() in SUFFIXES
        ]
    blocks = {part for mesh in meshes if mesh.suffix == ".vtm" for part in parts_of(mesh)[1:]}
    return sorted(mesh for mesh in meshes if mesh not in blocks)


def parts_of(mesh: Path) -> list[Path]:
    """All files that a mesh is read from: itself, the blocks of a .vtm, the fields of a case."""
    if mesh.is_dir() or is_case(mesh):
        return _parts_of_case(case_folder(mesh))
    if mesh.suffix.lower() != ".vtm":
        return [mesh]
    try:
        return [mesh, *members_of(mesh)]
    except ValueError:
        return [mesh]  # reading it will say what is wrong


def patches_of(case: Path) -> list[str]:
    """The names of the patches of an OpenFOAM case, or of a .vtm made from one."""
    if case.suffix.lower() == ".vtm":
        return patches_of_blocks(case)
    file = case_folder(case) / "constant" / "polyMesh" / "boundary"
    if not file.is_file():
        return []
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read_text("utf-8", "replace"), flags=re.DOTALL)
    return [name for name in re.findall(r"([^\s{}()]+)\s*\{", text) if name != "FoamFile"]


def _parts_of_case(case: Path) -> list[Path]:
    """The files of the mesh, and those of the fields of the last time, which is the one read.

    A mesh that moves or changes has its newest points and faces in the folder of one of the times.
    """
    times = times_of(case)
    folders = [case / "constant" / "polyMesh", *times[-1:]]
    for name in ("points", "faces"):
        moved = [time / "polyMesh" for time in times if any(time.glob(f"polyMesh/{name}*"))]
        folders += [folder for folder in moved[-1:] if folder not in folders]
    inside = [f for folder in folders if folder.is_dir() for f in sorted(folder.iterdir())]
    return [case / "system" / "controlDict", *(f for f in inside if f.is_file())]
