"""Checks of an STL file before VTK reads it.

VTK takes an ascii file that is cut off for a binary one and returns meaningless triangles. It also
takes an ascii file that begins with SOLID in capitals for a binary one, and goes on to read where a
line has too few numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from slipstream.data.meshes.text_numbers import numbers

_BLOCK = 1 << 20
_VERTEX = b"vertex 0 0 0 "
_FACET = np.array((b"facet normal 0 0 0 outer loop " + 3 * _VERTEX + b"endloop endfacet").split())
"""The 21 words of a triangle, with 0 in the place of numbers."""
_NUMBERS = _FACET == b"0"


@contextmanager
def whole_stl(path: Path) -> Iterator[Path]:
    """The path of a file that VTK reads correctly, for as long as the context lasts.

    For an ascii file in capitals that is a temporary copy in small letters.
    """
    text = _is_ascii(path)
    if text:
        _check_text(path)
    if not text or _begin(path).lstrip().startswith(b"solid"):
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


def _check_text(path: Path) -> None:
    """Raise ValueError unless the file consists of triangles, each of 21 words."""
    words: list[bytes] = []
    with path.open("rb") as file:
        while text := file.read(_BLOCK) + file.readline():
            if b"\0" in text:
                raise ValueError(f"{path.name} must be a whole STL file, got a zero byte in text")
            for line in text.lower().splitlines():
                parts = line.split()
                if parts and parts[0] not in (b"solid", b"endsolid"):  # names may be any words
                    words += parts
            whole = len(words) - len(words) % len(_FACET)
            _check_facets(path, words[:whole])
            words = words[whole:]
    if words:
        raise ValueError(
            f"{path.name} must be a whole STL file, got a last triangle of {len(words)} words"
        )


def _check_facets(path: Path, words: list[bytes]) -> None:
    if not words:
        return
    facets = np.array(words).reshape(-1, len(_FACET))
    wrong = (facets != _FACET) & ~_NUMBERS
    try:
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            got, needed = facets[row, column].decode("latin-1"), _FACET[column].decode()
            raise ValueError(f"{got[:40]!r} where {needed!r} must be")
        numbers(facets[:, _NUMBERS].ravel(), "float32")
    except ValueError as error:
        raise ValueError(f"{path.name} must be a whole STL file, got {error}") from None
