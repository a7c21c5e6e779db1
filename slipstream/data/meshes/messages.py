"""VTK's errors as exceptions; VTK itself prints them and returns an empty or partial data set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from slipstream.core.extras import need
from slipstream.core.text import printable
from slipstream.data.meshes.arrays import as_text

_ERROR = re.compile(
    r"ERROR: In .*?, line \d+\s+(?:\S+ \((?:0x)?[0-9a-fA-F]+\): )?(.*?)\s*(?:\n\n|\Z)", re.S
)


@contextmanager
def vtk_errors(
    file: str, says: str = "must be a whole file, got an error of VTK's reader"
) -> Iterator[None]:
    """Keep VTK from printing, and raise ValueError at the end with the first error it reported:
    the name of the file, what `says`, and VTK's own words.

    VTK prints to one window for the whole process, so two threads must not read at the same time.
    """
    core = need("vtkmodules.vtkCommonCore", "mesh")
    before = core.vtkOutputWindow.GetInstance()
    verbosity = core.vtkLogger.GetCurrentVerbosityCutoff()
    window = core.vtkStringOutputWindow()
    core.vtkOutputWindow.SetInstance(window)
    core.vtkLogger.SetStderrVerbosity(core.vtkLogger.VERBOSITY_OFF)
    try:
        yield
    finally:
        core.vtkOutputWindow.SetInstance(before)
        core.vtkLogger.SetStderrVerbosity(verbosity)
    error = _ERROR.search(as_text(window.GetOutput()))
    if error:
        message = printable(" ".join(error[1].split()).rstrip("."))  # it quotes the file
        raise ValueError(f"{file} {says}: {message}")
