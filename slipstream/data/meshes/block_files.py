"""A .vtm and the files of its blocks, written so that there is never one without the other.

The blocks of NAME.vtm are in the folder NAME_blocks beside it, or in NAME_blocks_2, ... where that
is taken. They are written into a hidden folder, together with the new .vtm. The folder gets its
name first; then the .vtm moves out of it to its own, which is the moment when old becomes new.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path

from slipstream.core.files import naming, process_number, publish, sync_folder
from slipstream.core.locks import is_locked, take_lock
from slipstream.data.meshes.blocks import members_of

_INDEX = ".index"
"""The .vtm, for as long as it is not published; locked by the process that writes it."""


def write_with_blocks(
    path: Path, write: Callable[[Path, str], bytes], *, keep: Collection[Path]
) -> None:
    """Have blocks written into a new folder, then the .vtm at `path`, which may replace an old one.

    `write` gets an empty folder and the name that it will have, writes the blocks into it and
    returns the content of the .vtm. The blocks of a .vtm that is replaced are removed if this
    package wrote them and none of the files to `keep` is among them. After an error all is as it
    was before; what a process leaves that is killed, the next call removes.
    """
    _remove_left(path)
    replaced = _folder_of(path, keep)
    final = _free_folder(path)
    folder = path.with_name(f".{path.name}.{process_number()}.blocks")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        with naming(path), (folder / _INDEX).open("wb") as index:
            take_lock(index)
            index.write(write(folder, final.name))
            index.flush()
            for file in folder.iterdir():
                publish(file, file)  # on the disk before their names are
            sync_folder(folder)
            folder = folder.rename(final)
            os.replace(folder / _INDEX, path)
    except BaseException:
        if folder != final or (folder / _INDEX).exists():  # else the .vtm is there
            shutil.rmtree(folder, ignore_errors=True)
        raise
    sync_folder(path.parent)
    if replaced:
        shutil.rmtree(replaced, ignore_errors=True)


def _names(path: Path) -> re.Pattern[str]:
    return re.compile(re.escape(f"{path.stem}_blocks") + "(_[0-9]+)?")


def _free_folder(path: Path) -> Path:
    names = (f"{path.stem}_blocks{f'_{number}' if number > 1 else ''}" for number in count(1))
    return next(f for f in map(path.with_name, names) if not os.path.lexists(f))


def _folder_of(path: Path, keep: Collection[Path]) -> Path | None:
    """The folder of an old .vtm's blocks, if it is one of ours and nothing else is in it."""
    try:
        files = members_of(path)
        folder = files[0].parent
        inside = set(folder.iterdir())
    except (ValueError, OSError):
        return None
    ours = _names(path).fullmatch(folder.name) and folder.parent == path.parent
    kept = {os.path.realpath(file) for file in keep}
    if not ours or folder.is_symlink() or not inside <= set(files):
        return None
    return None if any(os.path.realpath(file) in kept for file in inside) else folder


def _remove_left(path: Path) -> None:
    """Remove folders that hold a .vtm of this name which was not published, and nobody writes."""
    hidden = re.compile(re.escape(f".{path.name}.") + r"[0-9]+\.blocks")
    for folder in path.parent.iterdir():
        if hidden.fullmatch(folder.name) or _names(path).fullmatch(folder.name):
            index = folder / _INDEX
            if index.is_file() and not is_locked(index):
                shutil.rmtree(folder, ignore_errors=True)
