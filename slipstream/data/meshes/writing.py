"""A mesh written as it is, with arrays added to its points and cells."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.files import publish, remove_partials, written_aside
from slipstream.core.locks import is_locked
from slipstream.data.meshes.arrays import LOCATIONS
from slipstream.data.meshes.block_index import changed_index, new_index
from slipstream.data.meshes.mesh_files import patches_of
from slipstream.data.meshes.openfoam import CASE
from slipstream.data.meshes.regions import INTERNAL, chosen_blocks
from slipstream.data.meshes.requests import Request, kind_of
from slipstream.data.meshes.vtk_files import SUFFIXES

NOTHING: Mapping[str, Any] = MappingProxyType({})
_XML_KIND = re.compile(rb"<VTKFile[^>]*\stype\s*=\s*[\"'](\w+)[\"']")
_XML_SUFFIXES = {b"PolyData": ".vtp", b"UnstructuredGrid": ".vtu"}
_BLOCK = re.compile(r"[0-9]{4,}-[^/]*\.vt[puisr]")
"""The name of a file in the folder of blocks that this package writes."""


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
    folder NAME_blocks beside it.

    The file has its name only when it is whole. ValueError, with one sentence, where it exists
    already (unless `overwrite`), where an array has another number of rows or the name of one that
    the mesh has, and for whatever `read_mesh` refuses.

    VTK holds the whole mesh in the process that reads for this one. Its peak, with p and U in the
    file and two such arrays added (a million points, bytes for each): a volume of hexahedra 163, in
    a legacy file 174, of polyhedra 407; a surface of triangles 117. Added arrays exist twice.
    """
    paths = [source] if isinstance(source, Path) else list(source)
    arrays = checked_arrays(point_arrays, cell_arrays)
    texts = {**units, **field_text, **dict.fromkeys((*point_arrays, *cell_arrays), "")}
    for name in (name for pair in texts.items() for name in pair):
        if "\0" in name:
            raise ValueError(f"names, units and texts must be without zero bytes, got {name!r}")
    if unknown := sorted(units.keys() - point_arrays.keys() - cell_arrays.keys()):
        raise ValueError(f"units must be of arrays that are written, got one of {unknown[0]!r}")
    path = output_path(source, out, regions=regions)
    _check_free(path, paths, overwrite)
    about = [
        {"name": name, "location": location, "unit": units.get(name)}
        for location, held in zip(LOCATIONS, arrays, strict=True)
        for name in held
    ]
    values = [array for held in arrays for array in held.values()]
    request = {"arrays": about, "text": dict(field_text), "suffix": path.suffix, "out": path.name}
    job = _Job(Request(paths, wanted=None, regions=regions), request, values)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".vtm":
        _write_blocks(job, path, paths, overwrite)
    else:
        remove_partials(path.parent, path.name)
        with written_aside(path) as aside:
            job.run(aside)
            _check_free(path, paths, overwrite)
    return path


def output_path(
    source: Path | Sequence[Path], out: Path, *, regions: Sequence[str] = (INTERNAL,)
) -> Path:
    """The file that `write_with_arrays` writes: `out`, with the suffix of its format added.

    ValueError where `out` ends with the suffix of another format.
    """
    paths = [source] if isinstance(source, Path) else list(source)
    suffix = _suffix(paths, regions)
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


def checked_arrays(*held: Mapping[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
    """Arrays of numbers that VTK has, by name."""
    return [{name: _numbers(name, values) for name, values in arrays.items()} for arrays in held]


def _numbers(name: str, values: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(values)
    if not name:
        raise ValueError("an array must have a name, got ''")
    if array.ndim not in (1, 2) or (array.ndim == 2 and not array.shape[1]):
        raise ValueError(f"{name!r} must have shape (rows,) or (rows, k), got {array.shape}")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name!r} must be an array of real numbers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_free(path: Path, sources: Sequence[Path], overwrite: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.exists() and any(path.samefile(source) for source in sources):
        raise ValueError(f"out must be another file than the mesh itself, got {path}")
    if not overwrite or path.is_dir():
        raise ValueError(f"out must be a new file, got {path}, which exists")


@dataclass(frozen=True, eq=False)
class _Job:
    """What is asked of the process that writes."""

    source: Request
    request: Mapping[str, Any]
    values: Sequence[NDArray[Any]]

    def run(self, target: Path) -> list[tuple[str, str]]:
        """Write to a file or into a folder; the name and the file of each block in a folder."""
        request = {**self.request, "target": str(target.absolute())}
        return [(name, file) for name, file in self.source.write(request, self.values)]


def _write_blocks(job: _Job, path: Path, sources: Sequence[Path], overwrite: bool) -> None:
    """Blocks first, in a folder beside; then the index, which only then has its name."""
    _remove_left(path)
    folder = path.with_name(f"{path.stem}_blocks")
    _check_folder(folder)
    with written_aside(path) as aside:
        blocks = path.with_name(f".{path.name}.{os.getpid()}.blocks")
        shutil.rmtree(blocks, ignore_errors=True)
        blocks.mkdir()
        try:
            written = job.run(blocks)
            aside.write_bytes(_index(job.source, written, folder.name))
            for _, file in written:
                publish(blocks / file, blocks / file)  # it is on the disk before its folder's name
            _check_free(path, sources, overwrite)
            _check_folder(folder)
            with _put_away(path, folder):
                blocks.rename(folder)
        except BaseException:
            shutil.rmtree(blocks, ignore_errors=True)
            raise
    shutil.rmtree(_old(path), ignore_errors=True)


def _index(source: Request, written: Sequence[tuple[str, str]], folder: str) -> bytes:
    path = source.paths[0]
    if kind_of(source.paths) == CASE:
        return new_index([(name, f"{folder}/{file}") for name, file in written])
    chosen = [block.file for block in chosen_blocks(path, source.regions)]
    files = {old: f"{folder}/{new}" for old, (_, new) in zip(chosen, written, strict=True)}
    return changed_index(path, files)


def _check_folder(folder: Path) -> None:
    """Raise ValueError where a folder holds anything but blocks that this package wrote."""
    if os.path.lexists(folder) and not (
        folder.is_dir()
        and not folder.is_symlink()
        and all(_BLOCK.fullmatch(f.name) and f.is_file() for f in folder.iterdir())
    ):
        raise ValueError(f"{folder} must be free for the blocks of out, got something else there")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.old")


@contextmanager
def _put_away(path: Path, folder: Path) -> Iterator[None]:
    """Without an index that is overwritten, and its blocks; they come back after an error.

    The index goes first: it never stands beside blocks that are not its own.
    """
    old, index = _old(path), path.with_name(f".{path.name}.{os.getpid()}.index.partial")
    moved: list[tuple[Path, Path]] = []
    try:
        for here, there in ((path, index), (folder, old)):
            if os.path.lexists(here):
                here.rename(there)
                moved.append((here, there))
        yield
    except BaseException:
        for here, there in reversed(moved):
            there.rename(here)
        raise
    index.unlink(missing_ok=True)


def _remove_left(path: Path) -> None:
    """Remove what processes that were killed have left of this .vtm and its blocks."""
    left = re.compile(re.escape(f".{path.name}.") + r"([0-9]+)\.(blocks|old)")
    for folder in path.parent.iterdir():
        match = left.fullmatch(folder.name)
        if match and not is_locked(path.with_name(f".{path.name}.{match[1]}.partial")):
            shutil.rmtree(folder, ignore_errors=True)
    remove_partials(path.parent, path.name, f"{glob.escape(path.name)}.[0-9]*.index")
