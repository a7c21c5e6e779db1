"""`study.json`: the cells of a study, each the run of one variant and seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream.core.files import (
    json_text,
    naming_file,
    read_json,
    remove_partials,
    write_text,
)
from slipstream.core.locks import take_lock
from slipstream.core.schemas import fitted
from slipstream.runs.config import RunConfig

NAME = "study.json"
LOCK = "lock"
SCHEMA = 1


@dataclass(frozen=True)
class PlannedCell:
    experiment: str
    variant: str
    seed: int
    path: str
    """The run's folder, relative to the folder of the study."""

    @property
    def name(self) -> str:
        return f"{self.experiment} {self.variant} seed {self.seed}"


def planned(config: RunConfig, study: Path, folder: Path) -> PlannedCell:
    path = folder.relative_to(study).as_posix()
    return PlannedCell(config.experiment, config.model.variant, config.seed, path)


def read_planned(study: Path) -> list[PlannedCell]:
    """The cells in the order in which they were added; ValueError names what is wrong."""
    file = study / NAME
    content = read_json(file)
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{file}: schema must be {SCHEMA}, got {content.get('schema')!r}")
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
