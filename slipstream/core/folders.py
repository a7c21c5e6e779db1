"""Walking through a folder and all folders below it, including those behind links."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

OnError = Callable[[OSError], object]
"""Called with the error of each folder that cannot be listed."""


def walk(top: Path, on_error: OnError | None = None) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every folder below `top`, itself first, with the sorted names of its folders and files.

    Links to folders are followed, but each folder is visited once: not through a link to a folder
    that lies below `top` anyway, and not in circles. A caller may remove names from the list of
    folders; these are then not visited.
    """
    root = Path(os.path.realpath(top))
    seen: set[Path] = set()
    for name, folders, files in os.walk(top, onerror=on_error, followlinks=True):
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
