"""Where a command writes one file: in a folder that exists, and over another only if asked to."""

from __future__ import annotations

from pathlib import Path


def check_out(out: Path, *, overwrite: bool = False) -> None:
    """Raise ValueError unless a file may be written there."""
    if not out.parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists, got {str(out)!r}")
    if out.is_dir() or (out.exists() and not overwrite):
        what = "a folder" if out.is_dir() else "a file that exists (--overwrite replaces it)"
        raise ValueError(f"--out must be a new file, got {what}: {str(out)!r}")
