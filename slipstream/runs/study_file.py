"""`study.json`: the cells of a study, each the run of one variant and seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from slipstream.core.files import json_text, read_json, remove_partials, write_text
from slipstream.core.locks import take_lock
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
    entries = content.get("cells")
    if not isinstance(entries, list):
        raise ValueError(f"{file}: cells must be a list, got {type(entries).__name__}")
    return [_checked(entry, f"{file}: cells[{i}]") for i, entry in enumerate(entries)]


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


def _checked(entry: object, where: str) -> PlannedCell:
    values = entry if isinstance(entry, dict) else {}
    kinds = {"experiment": str, "variant": str, "seed": int, "path": str}
    for name, kind in kinds.items():
        if not isinstance(values.get(name), kind):
            raise ValueError(f"{where}.{name} must be {kind.__name__}, got {values.get(name)!r}")
    return PlannedCell(**{field.name: values[field.name] for field in fields(PlannedCell)})
