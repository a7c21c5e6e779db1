"""Where an imported model is from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The program and the file that a model was made of, and what was left out of it."""

    source: str
    """The program, and the generation of its names."""
    file: str
    sha256: str
    version: str | None
    """Of the package that wrote the file, where the file says it."""
    dropped: tuple[str, ...]
    """Tensors that the program keeps and never trains, each with the reason."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        written = f" {self.version}" if self.version else ""
        return f"{self.source}: {self.file}{', written by' + written if written else ''}"
