"""Folders with all that is below them, behind links too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

Tell = Callable[[OSError], object]
"""Is told of each folder that cannot be listed."""


def walk(top: Path, tell: Tell | None = None) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every folder below `top`, itself first, with the sorted names of its folders and files.

    Links to folders are followed, but each folder is seen once: not behind a link where it is
    below `top` anyway, and not in circles. Names taken out of the folders are left out.
    """
    root = Path(os.path.realpath(top))
    seen: set[Path] = set()
    for name, folders, files in os.walk(top, onerror=tell, followlinks=True):
        here, real = Path(name), Path(os.path.realpath(name))
        around = real.is_relative_to(root) or root.is_relative_to(real)
        if real in seen or (around and here != top and here.is_symlink()):
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        yield here, folders, sorted(files)


def files_below(top: Path) -> list[Path]:
    """Every file below `top`, sorted by path."""
    return sorted(here / file for here, _, files in walk(top) for file in files)
