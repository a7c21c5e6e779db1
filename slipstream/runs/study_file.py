"""`study.json`: the cells of a study, each the run of one variant, seed and set of swept values.

Schema 2. Schema 1, which is read too, had no sweeps: its cells have no `swept`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.files import (
    json_text,
    naming_file,
    read_json,
    remove_partials,
    write_text,
)
from slipstream.core.locks import take_lock
from slipstream.core.schemas import YOUNGER, fitted
from slipstream.runs.config import RunConfig
from slipstream.runs.sweep import Swept, cell_name, values_of

NAME = "study.json"
LOCK = "lock"
SCHEMA = 2
READABLE = (1, 2)


@dataclass(frozen=True)
class PlannedCell:
    experiment: str
    variant: str
    seed: int
    path: str
    """The run's folder, relative to the folder of the study."""
    swept: dict[str, Any] = field(default_factory=dict, metadata=YOUNGER)
    """The values of the fields that the study sweeps and the variant depends on."""

    @property
    def name(self) -> str:
        return cell_name(self.experiment, self.variant, self.seed, self.swept)

    def name_of(self, config: RunConfig) -> str:
        """The name that the run with this config would have in the place of the cell."""
        swept = values_of(config, self.swept)
        return cell_name(config.experiment, config.model.variant, config.seed, swept)


def planned(
    config: RunConfig, study: Path, folder: Path, swept: Swept | None = None
) -> PlannedCell:
    path = folder.relative_to(study).as_posix()
    return PlannedCell(
        config.experiment, config.model.variant, config.seed, path, dict(swept or {})
    )


def planned_at(folder: Path) -> tuple[int, PlannedCell] | None:
    """What the study round a run's folder plans there, and its place among the cells; or None.

    Raises ValueError where the study's list cannot be read.
    """
    study = next((above for above in folder.parents if (above / NAME).is_file()), None)
    if study is None:
        return None
    cells = enumerate(read_planned(study))
    return next(((place, cell) for place, cell in cells if study / cell.path == folder), None)


def read_planned(study: Path) -> list[PlannedCell]:
    """The cells in the order in which they were added; ValueError names what is wrong."""
    file = study / NAME
    content = read_json(file)
    if content.get("schema") not in READABLE:
        raise ValueError(f"{file}: schema must be 1 or 2, got {content.get('schema')!r}")
    with naming_file(file):
        cells: list[PlannedCell] = fitted(list[PlannedCell], content.get("cells"), place="cells")
    return cells


def add_planned(study: Path, cells: Iterable[PlannedCell]) -> None:
    """Add cells to the file. The lock keeps those that another process adds at the same time."""
    study.mkdir(parents=True, exist_ok=True)
    with (study / LOCK).open("a") as file:
        take_lock(file, wait=True)
        remove_partials(study, NAME)
        before = read_planned(study) if (study / NAME).is_file() else []
        known = {cell.path: cell for cell in (*before, *cells)}
        entries = [asdict(cell) for cell in known.values()]
        write_text(study / NAME, json_text({"schema": SCHEMA, "cells": entries}))
