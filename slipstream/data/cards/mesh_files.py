"""Which files on disk are meshes, and which further files a mesh consists of."""

from __future__ import annotations

import os
import re
from pathlib import Path

from slipstream.data.meshes.openfoam import is_case
from slipstream.data.meshes.vtk_files import blocks_of

SUFFIXES = (".vtp", ".vtu", ".vtk", ".vtm", ".stl", ".ply")


def find_meshes(folder: Path) -> list[Path]:
    """Every mesh below a folder, sorted; a block of a .vtm and the inside of a case are none."""
    meshes: list[Path] = []
    for name, folders, files in os.walk(folder):
        here = Path(name)
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        cases = [f for f in folders if is_case(here / f)]
        folders[:] = [f for f in folders if f not in cases]
        meshes += [here / f for f in cases]
        meshes += [
            here / f for f in files if not f.startswith(".") and Path(f).suffix.lower() in SUFFIXES
        ]
    blocks = {part for mesh in meshes if mesh.suffix == ".vtm" for part in parts_of(mesh)[1:]}
    return sorted(mesh for mesh in meshes if mesh not in blocks)


def parts_of(mesh: Path) -> list[Path]:
    """All files that a mesh is read from: itself, the blocks of a .vtm, the fields of a case."""
    if mesh.is_dir() or mesh.suffix == ".foam":
        return _parts_of_case(mesh if mesh.is_dir() else mesh.parent)
    if mesh.suffix.lower() != ".vtm":
        return [mesh]
    try:
        return [mesh, *blocks_of(mesh)]
    except ValueError:
        return [mesh]  # reading it will say what is wrong


def patches_of(case: Path) -> list[str]:
    """The names of the patches of an OpenFOAM case."""
    file = (case if case.is_dir() else case.parent) / "constant" / "polyMesh" / "boundary"
    if not file.is_file():
        return []
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read_text("utf-8", "replace"), flags=re.DOTALL)
    return [name for name in re.findall(r"([^\s{}()]+)\s*\{", text) if name != "FoamFile"]


def _parts_of_case(case: Path) -> list[Path]:
    """The mesh and the fields of the last time, which is the one that is read."""
    times = [f for f in case.iterdir() if f.is_dir() and _is_number(f.name)]
    last = max(times, key=lambda folder: float(folder.name), default=None)
    folders = [case / "constant" / "polyMesh", *([last] if last else [])]
    inside = [f for folder in folders if folder.is_dir() for f in sorted(folder.iterdir())]
    return [case / "system" / "controlDict", *(f for f in inside if f.is_file())]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
