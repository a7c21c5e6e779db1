"""A mesh written as it is, with arrays added to its points and cells."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from slipstream.core.files import remove_partials, written_aside
from slipstream.data.meshes.added_arrays import NOTHING, check_texts, checked_arrays
from slipstream.data.meshes.block_files import write_with_blocks
from slipstream.data.meshes.block_index import changed_index, new_index
from slipstream.data.meshes.mesh_files import parts_of, patches_of
from slipstream.data.meshes.openfoam import CASE
from slipstream.data.meshes.regions import INTERNAL, chosen_blocks
from slipstream.data.meshes.requests import Request, kind_of
from slipstream.data.meshes.vtk_files import SUFFIXES

_XML_KIND = re.compile(rb"<VTKFile[^>]*\stype\s*=\s*[\"'](\w+)[\"']")
_XML_SUFFIXES = {b"PolyData": ".vtp", b"UnstructuredGrid": ".vtu"}


def write_with_arrays(
    source: Path | Sequence[Path],
    out: Path,
    *,
    point_arrays: Mapping[str, NDArray[Any]] = NOTHING,
    cell_arrays: Mapping[str, NDArray[Any]] = NOTHING,
    units: Mapping[str, str] = NOTHING,
    field_text: Mapping[str, str] = NOTHING,
    regions: Sequence[str] = (INTERNAL,),
    overwrite: bool = False,
) -> Path:
    """Write the mesh at `source` once more, with its faces and all its arrays, and with new ones.

    Arrays are (rows,) or (rows, components), in the order of the points and cells that
    `read_mesh(source, regions=regions)` gives. `units` has the unit of an array by its name, which
    the file holds as VTK's UNITS_LABEL; `field_text` becomes field data. The format is that of the
    source, except that STL and PLY become .vtp, and a case .vtu, .vtp or .vtm (`output_path`); of a
    case or a .vtm only the regions that are read are written. The blocks of NAME.vtm are in the
    folder NAME_blocks beside it (block_files.py).

    The file has its name only when it is whole. ValueError, with one sentence, where it exists
    already (unless `overwrite`), where an array has another number of rows or the name of one that
    the mesh has, and for whatever `read_mesh` refuses.

    VTK holds the whole mesh in the process that reads for this one. Its peak, with p and U in the
    file and two such arrays added (a million points, bytes for each): a volume of hexahedra 163, in
    a legacy file 174, of polyhedra 407; a surface of triangles 117. Added arrays exist twice.
    """
    paths = [source] if isinstance(source, Path) else list(source)
    added = checked_arrays(point_arrays, cell_arrays, units)
    check_texts(field_text)
    path = output_path(source, out, regions=regions)
    inputs = [part for file in paths for part in (file, *parts_of(file))]
    _check_free(path, inputs, overwrite)
    source_request = Request(paths, wanted=None, regions=regions)
    request = {
        "arrays": [one.about for one in added],
        "text": dict(field_text),
        "suffix": path.suffix.lower(),
        "out": path.name,
    }

    def write(target: Path) -> list[list[str]]:
        where = {"target": str(target.absolute())}
        written = source_request.write({**request, **where}, [one.values for one in added])
        _check_free(path, inputs, overwrite)  # again: it takes long
        return written

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".vtm":
        write_with_blocks(
            path, lambda folder, name: _index(source_request, write(folder), name), keep=inputs
        )
    else:
        remove_partials(path.parent, path.name)
        with written_aside(path) as aside:
            write(aside)
    return path


def output_path(
    source: Path | Sequence[Path], out: Path, *, regions: Sequence[str] = (INTERNAL,)
) -> Path:
    """The file that `write_with_arrays` writes: `out`, with the suffix of its format added.

    ValueError where `out` ends with the suffix of another format.
    """
    paths = [source] if isinstance(source, Path) else list(source)
    suffix = _suffix(paths, regions)
    if out.name in ("", ".."):
        raise ValueError(f"out must be the path of a file, got {out}")
    if out.suffix.lower() == suffix:
        return out
    if out.suffix.lower() in SUFFIXES:
        raise ValueError(
            f"out must end with {suffix} for this mesh, or be without a suffix, got {out.name}"
        )
    return out.with_name(out.name + suffix)


def _suffix(paths: Sequence[Path], regions: Sequence[str]) -> str:
    kind = kind_of(paths)
    if kind in (".stl", ".ply"):
        return ".vtp"
    if kind == CASE:
        if tuple(regions) == (INTERNAL,):
            return ".vtu"
        return ".vtp" if len(regions) == 1 and regions[0] in patches_of(paths[0]) else ".vtm"
    if kind in (".vtp", ".vtu"):  # either may hold what the other is for
        with paths[0].open("rb") as file:
            held = _XML_KIND.search(file.read(4096))
        return _XML_SUFFIXES.get(held[1], kind) if held else kind
    return kind


def _check_free(path: Path, inputs: Sequence[Path], overwrite: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise ValueError(f"out must be a file, got {path}, which is a folder")
    for file in inputs if path.exists() else ():
        if file.exists() and path.samefile(file):
            raise ValueError(f"out must be another file than those of the mesh, got {path}")
    if not overwrite:
        raise ValueError(f"out must be a new file, got {path}, which exists")


def _index(source: Request, written: Sequence[Sequence[str]], folder: str) -> bytes:
    """The .vtm of blocks, by the name and the file of each."""
    if kind_of(source.paths) == CASE:
        return new_index([(name, f"{folder}/{file}") for name, file in written])
    chosen = [block.file for block in chosen_blocks(source.paths[0], source.regions)]
    files = {old: f"{folder}/{new}" for old, (_, new) in zip(chosen, written, strict=True)}
    return changed_index(source.paths[0], files)
