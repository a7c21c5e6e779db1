"""The run records as one compressed file.

    python archive.py pack FOLDER ARCHIVE       all files below FOLDER, but no predictions
    python archive.py unpack ARCHIVE FOLDER

The same files give the same archive to the byte: owners, modes and times are left out. Files of one
name follow each other, as they resemble each other most.
"""

from __future__ import annotations

import lzma
import sys
import tarfile
from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """Raises ValueError where the folder holds no records: the archive would lose all it has."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    kept = [path for path in paths if "predictions" not in path.parts]
    if not any(path.name == "records.jsonl" for path in kept):
        raise ValueError(f"folder must hold records of runs, got {folder} with {len(kept)} files")
    with tarfile.open(archive, "w:xz", preset=9 | lzma.PRESET_EXTREME) as tar:
        for path in sorted(kept, key=lambda path: (path.name, path)):
            member = tarfile.TarInfo(path.as_posix())
            member.size = (folder / path).stat().st_size
            with (folder / path).open("rb") as file:
                tar.addfile(member, file)


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(folder, filter="data")


if __name__ == "__main__":
    try:
        {"pack": pack, "unpack": unpack}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    except (ValueError, OSError) as error:
        sys.exit(f"archive.py: {error}")
