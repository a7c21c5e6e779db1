"""Files published in byte parts: `volume_1.vtu.00.part`, `volume_1.vtu.01.part`, ..."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from slipstream.core.files import check_regular

_PART = re.compile(r"(?P<whole>.+)\.(?P<number>\d+)\.part")


def whole_name(paths: Sequence[Path]) -> str:
    """The name of the file that was cut into these parts; for a single path, the path's own name.

    ValueError unless all parts are regular files, numbered 0, 1, 2, ... in this order.
    """
    matches = [_PART.fullmatch(path.name) for path in paths]
    numbers = [int(match["number"]) for match in matches if match]
    names = {match["whole"] for match in matches if match}
    parts = numbers == list(range(len(paths))) and len(names) == 1
    if not parts and (len(paths) != 1 or matches[0]):
        got = ", ".join(path.name for path in paths) or "none"
        raise ValueError(f"parts must be NAME.00.part, NAME.01.part, ... without a gap, got {got}")
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path} must exist, got no such file")
        if not path.is_dir():  # a folder may be an OpenFOAM case
            check_regular(path)
    return names.pop() if parts else paths[0].name


def open_parts(paths: Sequence[Path]) -> io.BufferedReader:
    """The parts as one open file, without a copy."""
    return paths[0].open("rb") if len(paths) == 1 else io.BufferedReader(_Parts(paths), 1 << 20)


@contextmanager
def joined(paths: Sequence[Path]) -> Iterator[Path]:
    """The path of the whole file, for as long as the context lasts.

    VTK opens files itself and seeks in them, so parts are copied into one file in the system's
    folder for temporary files (TMPDIR). The copy is removed at the end, also after an error.
    """
    if len(paths) == 1 and not _PART.fullmatch(paths[0].name):
        yield paths[0]
        return
    name = whole_name(paths)
    size = sum(path.stat().st_size for path in paths)
    with tempfile.TemporaryDirectory(prefix="slipstream-") as folder:
        free = shutil.disk_usage(folder).free
        if free < size:
            raise ValueError(
                f"{tempfile.gettempdir()} must have {size} bytes free to join {name}, got {free}"
                " (TMPDIR chooses another folder)"
            )
        with (Path(folder) / name).open("wb") as whole:
            for path in paths:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 22)
        yield Path(folder) / name


class _Parts(io.RawIOBase):
    """Several files, one after the other, read as one file."""

    mode = "rb"

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [path.open("rb", buffering=0) for path in paths]
        sizes = [os.fstat(file.fileno()).st_size for file in self._files]
        self._ends = list(accumulate(sizes))
        self._begins = [end - size for end, size in zip(self._ends, sizes, strict=True)]
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._ends[-1]}[whence]
        self._place = origin + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        for file, begin, end in zip(self._files, self._begins, self._ends, strict=True):
            if begin <= self._place < end:
                file.seek(self._place - begin)
                count = file.readinto(buffer) or 0
                self._place += count
                return count
        return 0

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
