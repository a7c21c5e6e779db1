"""STUDY/times.json: how long a solver and a model take for one sample, measured side by side.

`slipstream demo` writes it after the evaluation; a report shows it with the sample's picture.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream.core.files import json_text, naming_file, read_json, remove_partials, write_text
from slipstream.core.schemas import parsed

NAME = "times.json"
SCHEMA = 1


@dataclass(frozen=True)
class Times:
    """Seconds, each the shortest of several calls in the same process."""

    experiment: str
    sample: str
    variant: str
    seed: int
    weights: str
    """Hash of the model's parameters."""
    points: int
    solver: str
    """What the solver is, as "a panel method with 720 panels"."""
    solver_seconds: float
    model_seconds: float
    calls: int
    device: str
    date: str


def write_times(study: Path, times: Times) -> None:
    file = study / NAME
    remove_partials(file.parent, file.name)
    write_text(file, json_text({"schema": SCHEMA, "times": asdict(times)}))


def read_times(study: Path) -> Times | None:
    """None where there are none; ValueError where the file is none of this package."""
    file = study / NAME
    if not file.is_file():
        return None
    content = read_json(file)
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{file}: schema must be {SCHEMA}, got {content.get('schema')!r}")
    with naming_file(file):
        return parsed(Times, content.get("times"), place="times")
