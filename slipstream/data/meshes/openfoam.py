"""OpenFOAM cases, of which the last time step is read, in the internal mesh or on patches."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from slipstream.core.extras import need
from slipstream.core.files import check_regular
from slipstream.core.text import printable
from slipstream.data.meshes.arrays import ArrayInfo, Wanted, as_text, resolve
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.regions import choose_regions
from slipstream.data.meshes.vtk_data import joined_data
from slipstream.data.meshes.vtk_files import keep_wanted

_UNITS: dict[tuple[float, ...], str] = {
    (0, 2, -2): "m^2/s^2",
    (1, -1, -2): "Pa",
    (0, 0, 0): "1",
    (0, 1, -1): "m/s",
}
"""By the powers of kg, m and s, where the field has no other dimensions."""
_HEADER = 65_536

CASE = ".foam"
"""The suffix of the empty file that marks a case; ParaView takes .openfoam for the same."""


def is_case(path: Path) -> bool:
    """Whether this is a case's folder, or the empty file in it that marks one (`case.foam`)."""
    return path.suffix.lower() in (CASE, ".openfoam") or (path / "constant").is_dir()


def case_folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def times_of(case: Path) -> list[Path]:
    """The folders of the times, the last one last."""
    times = [folder for folder in case.iterdir() if _is_number(folder.name) and folder.is_dir()]
    return sorted(times, key=lambda folder: float(folder.name))


def field_unit(path: Path, field: str) -> str | None:
    """The unit of a field of a case at its last time, by the dimensions in its file; None where
    there is no such file, or they are those of another kind of field."""
    times = times_of(case_folder(path))
    for file in (times[-1] / field, times[-1] / f"{field}.gz") if times else ():
        if not file.is_file():
            continue
        try:
            with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
                head = as_text(opened.read(_HEADER))
        except (OSError, EOFError):
            return None
        powers = re.search(r"\bdimensions\s*\[([^\]]*)\]", head)
        words = powers[1].split() if powers else []
        if not words or not all(map(_is_number, words)):
            return None
        numbers = tuple(map(float, words))
        return _UNITS.get(numbers[:3]) if not any(numbers[3:]) else None
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def load_case(path: Path, wanted: Sequence[Wanted] | None, regions: Sequence[str]) -> Any:
    """The regions joined into one data set: internalMesh, or patches by name, pattern or group.

    OpenFOAM's fields are cell data.
    """
    return joined_data(list(load_regions(path, wanted, regions).values()), case_folder(path).name)


def load_regions(
    path: Path, wanted: Sequence[Wanted] | None, regions: Sequence[str]
) -> dict[str, Any]:
    """The data set of each region that has points, in the order in which they are joined."""
    folder = case_folder(path)
    _check_mesh(folder)
    with vtk_errors(folder.name):
        reader = _opened(folder)
    arrays = _by_text(reader.GetCellArrayName, reader.GetNumberOfCellArrays())
    names = list(arrays)
    chosen = names if wanted is None else [_name(want, names, folder.name) for want in wanted]
    listed = _by_text(reader.GetPatchArrayName, reader.GetNumberOfPatchArrays())
    known = {
        name.removeprefix("patch/"): raw for name, raw in listed.items() if not _is_group(name)
    }
    if not known:
        raise ValueError(f"{folder.name} must have a boundary that VTK can read, got none")
    groups = {name: raw for name, raw in listed.items() if _is_group(name)}
    selected = choose_regions(regions, known, groups, f"a region of {folder.name}")
    with vtk_errors(folder.name):
        by_region = dict(_leaves(_read(reader, selected.values(), map(arrays.get, chosen))))
    for region in regions:
        if region in known and not _points(by_region.get(region)):
            raise ValueError(f"{region} of {folder.name} must have at least one point, got none")
    ordered = dict.fromkeys((*(name for name in selected if name in by_region), *by_region))
    full = [name for name in ordered if _points(by_region[name])]
    if not full:
        raise ValueError(f"{', '.join(regions)} of {folder.name} must have points, got none")
    for name in full:
        keep_wanted(by_region[name], wanted, f"{printable(name)} of {folder.name}")
    return {name: by_region[name] for name in full}


def _by_text(name_at: Callable[[int], str | bytes], count: int) -> dict[str, str | bytes]:
    """Names as text, with what VTK calls them: bytes, where they are not UTF-8."""
    return {as_text(raw): raw for raw in map(name_at, range(count))}


def _is_group(patch: str) -> bool:
    return patch.startswith("group/")


def _points(data: Any) -> int:
    return 0 if data is None else int(data.GetNumberOfPoints())


def _check_mesh(folder: Path) -> None:
    mesh = folder / "constant" / "polyMesh"
    if mesh.is_dir():
        for file in (f for inside in (mesh, *times_of(folder)[-1:]) for f in inside.iterdir()):
            if not file.is_dir():
                check_regular(file)
        return
    apart = (folder / "processor0").is_dir()
    got = "one in pieces, which reconstructPar joins" if apart else "no constant/polyMesh"
    raise ValueError(f"{folder} must be an OpenFOAM case with a mesh, got {got}")


def _opened(folder: Path) -> Any:
    """VTK's reader, which knows the names of arrays and patches."""
    reader = need("vtkmodules.vtkIOGeometry", "mesh").vtkOpenFOAMReader()
    reader.SetFileName(str(folder / "case.foam"))  # need not exist
    reader.CreateCellToPointOff()
    reader.SkipZeroTimeOff()
    reader.UpdateInformation()
    return reader


def _name(wanted: Wanted, names: Sequence[str], file: str) -> str:
    """The array that is wanted, chosen by name only: components are known after reading."""
    held = [ArrayInfo(name, "cell", wanted.components, 0, "") for name in names]
    return resolve(wanted, held, file).name


def _read(reader: Any, patches: Iterable[Any], arrays: Iterable[Any]) -> Any:
    reader.DisableAllPatchArrays()
    reader.DisableAllCellArrays()
    reader.DisableAllPointArrays()
    reader.DisableAllLagrangianArrays()
    for patch in patches:
        reader.SetPatchArrayStatus(patch, 1)
    for array in arrays:
        reader.SetCellArrayStatus(array, 1)
    times = reader.GetTimeValues()
    if times is not None and times.GetNumberOfTuples():
        reader.UpdateTimeStep(times.GetValue(times.GetNumberOfTuples() - 1))
    else:
        reader.Update()
    return reader.GetOutput()


def _leaves(blocks: Any) -> Iterator[tuple[str, Any]]:
    """The data sets in a tree of blocks, with their names."""
    key = need("vtkmodules.vtkCommonDataModel", "mesh").vtkCompositeDataSet.NAME()
    for index in range(blocks.GetNumberOfBlocks()):
        block = blocks.GetBlock(index)
        if block is not None and block.IsA("vtkMultiBlockDataSet"):
            yield from _leaves(block)
        elif block is not None:
            yield as_text(blocks.GetMetaData(index).Get(key)), block
