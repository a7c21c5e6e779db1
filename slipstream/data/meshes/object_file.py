"""A data set that was made in memory, written as a file of VTK's XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.core.files import written_aside
from slipstream.data.meshes.vtk_writing import write_data, xml_suffix


def write_object(data: Any, out: Path) -> Path:
    """Write a pyvista or VTK data set as OUT.vtp, OUT.vtu or another, by its kind.

    The file has its name only when it is whole, and replaces one that has it already. ValueError
    for what is no data set, and where VTK cannot write it.
    """
    suffix = xml_suffix(data)
    path = out.with_name(out.name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        write_data(data, aside, suffix, name=path.name)
    return path
