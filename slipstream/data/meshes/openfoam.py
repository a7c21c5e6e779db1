"""OpenFOAM cases, of which the last time step is read, in the internal mesh or on patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slipstream.core.extras import need
from slipstream.data.meshes.arrays import ArrayInfo, Wanted, resolve
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.regions import choose_regions
from slipstream.data.meshes.vtk_data import joined_data
from slipstream.data.meshes.vtk_files import keep_wanted

CASE = ".foam"
"""The suffix of the empty file that marks a case; ParaView takes .openfoam for the same."""


def is_case(path: Path) -> bool:
    """Whether this is a case's folder, or the empty file in it that marks one (`case.foam`)."""
    return path.suffix.lower() in (CASE, ".openfoam") or (path / "constant").is_dir()


def case_folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def load_case(path: Path, wanted: Sequence[Wanted] | None, regions: Sequence[str]) -> Any:
    """The regions joined into one data set: internalMesh, or patches by name, pattern or group.

    OpenFOAM's fields are cell data.
    """
    folder = case_folder(path)
    _check_mesh(folder)
    with vtk_errors(folder.name):
        reader = _opened(folder)
    names = [reader.GetCellArrayName(i) for i in range(reader.GetNumberOfCellArrays())]
    chosen = names if wanted is None else [_name(want, names, folder.name) for want in wanted]
    listed = [reader.GetPatchArrayName(i) for i in range(reader.GetNumberOfPatchArrays())]
    known = {name.removeprefix("patch/"): name for name in listed if not _is_group(name)}
    groups = {name: name for name in filter(_is_group, listed)}
    selected = choose_regions(regions, known, groups, f"a region of {folder.name}")
    with vtk_errors(folder.name):
        by_region = dict(_leaves(_read(reader, list(selected.values()), chosen)))
    for region in regions:
        if region in known and not _points(by_region.get(region)):
            raise ValueError(f"{region} of {folder.name} must have at least one point, got none")
    ordered = dict.fromkeys((*(name for name in selected if name in by_region), *by_region))
    full = [name for name in ordered if _points(by_region[name])]
    if not full:
        raise ValueError(f"{', '.join(regions)} of {folder.name} must have points, got none")
    for name in full:
        keep_wanted(by_region[name], wanted, f"{name} of {folder.name}")
    return joined_data([by_region[name] for name in full], folder.name)


def _is_group(patch: str) -> bool:
    return patch.startswith("group/")


def _points(data: Any) -> int:
    return 0 if data is None else int(data.GetNumberOfPoints())


def _check_mesh(folder: Path) -> None:
    if (folder / "constant" / "polyMesh").is_dir():
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


def _read(reader: Any, patches: Sequence[str], arrays: Sequence[str]) -> Any:
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
            yield blocks.GetMetaData(index).Get(key), block
