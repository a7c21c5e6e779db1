"""Whether an STL file is whole, before VTK reads it.

VTK takes an ascii STL that is cut off for a binary one and returns made-up triangles.
"""

from __future__ import annotations

from pathlib import Path


def check_stl(path: Path) -> None:
    """ValueError unless it is binary of the declared length, or ascii with its last line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(84)
        file.seek(max(0, size - 512))
        end = file.read().rstrip().rsplit(b"\n", 1)[-1].strip().lower()
    triangles = int.from_bytes(begin[80:84], "little")
    if size >= 84 and size == 84 + 50 * triangles:
        return
    if begin.lstrip().lower().startswith(b"solid") and end.startswith(b"endsolid"):
        return
    raise ValueError(
        f"{path.name} must be a whole STL file, either ascii with endsolid as its last line or"
        f" binary of 84 bytes and 50 a triangle, got {size} bytes that are neither"
    )
