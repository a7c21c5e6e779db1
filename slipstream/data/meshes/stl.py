"""Checks of an STL file before VTK reads it.

VTK takes an ascii file that is cut off for a binary one and returns meaningless triangles. It also
takes an ascii file that begins with SOLID in capitals for a binary one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_stl(path: Path) -> Iterator[Path]:
    """The path of a file that VTK reads correctly, for as long as the context lasts.

    For an ascii file in capitals that is a temporary copy in small letters.
    """
    if not _is_ascii(path) or _begin(path).lstrip().startswith(b"solid"):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="slipstream-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(path.read_bytes().lower())
        yield copy


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(84)


def _is_ascii(path: Path) -> bool:
    """Whether the file is ascii with its last line; False if it is binary of the declared length.

    ValueError if it is neither.
    """
    size = path.stat().st_size
    begin = _begin(path)
    with path.open("rb") as file:
        file.seek(max(0, size - 512))
        end = file.read().rstrip().rsplit(b"\n", 1)[-1].strip().lower()
    triangles = int.from_bytes(begin[80:84], "little")
    if size >= 84 and size == 84 + 50 * triangles:
        return False
    if begin.lstrip().lower().startswith(b"solid") and end.startswith(b"endsolid"):
        return True
    raise ValueError(
        f"{path.name} must be a whole STL file, either ascii with endsolid as its last line or"
        f" binary of 84 bytes and 50 a triangle, got {size} bytes that are neither"
    )
