"""What the folder of a run holds, read once; what cannot be read is a sentence, not an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from slipstream.core.configs import from_json
from slipstream.data.store import Schema
from slipstream.runs.checkpoint import read_checkpoint, read_tensors, weights_hash
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.runs.run_records import check_fields

Row = dict[str, Any]
Read = TypeVar("Read")

_HASHES = {"data_hash": str, "split_hash": str}
_CHECKPOINT = {
    "step": int,
    "skipped": int,
    "processes": int,
    "loader": dict,
    "versions": dict,
    **_HASHES,
}
_PLACE = {"epoch": int, "position": int, "samples": int}
_MODEL = {"fields": dict, "metric": dict, **_HASHES}


@dataclass(frozen=True, eq=False)
class Saved:
    """A checkpoint or the model file."""

    name: str
    config: RunConfig
    state: Mapping[str, Any]
    weights_hash: str
    weights: Mapping[str, Tensor]
    """By parameter; empty for checkpoints that are neither the first nor the newest."""
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(eq=False)
class Artefacts:
    """All that an audit looks at. What is None or empty could not be read: `problems` says why."""

    folder: RunFolder
    problems: list[str] = field(default_factory=list)
    config: RunConfig | None = None
    rows: list[Row] | None = None
    """The history of the run."""
    checkpoints: dict[int, Saved] = field(default_factory=dict)
    first: Saved | None = None
    last: Saved | None = None
    model: Saved | None = None
    schema: Schema | None = None

    def of_kind(self, *kinds: str) -> list[Row]:
        return [row for row in self.rows or () if row["kind"] in kinds]

    @property
    def begun(self) -> bool:
        """A study writes the configs of its runs before their turn comes."""
        folder = self.folder
        files = (folder.records_file, folder.model_file, *folder.checkpoint_folder.glob("step-*"))
        return any(file.exists() for file in files)

    @property
    def step(self) -> int:
        """That the newest checkpoint has reached."""
        return max(self.checkpoints, default=0)

    @property
    def saved(self) -> list[Saved]:
        return [*self.checkpoints.values(), *([self.model] if self.model else [])]


def read_artefacts(path: Path) -> Artefacts:
    found = Artefacts(RunFolder(path))
    found.config = _tried(found, found.folder.read_config)
    found.rows = _tried(found, partial(_history, found.folder))
    steps = _tried(found, found.folder.checkpoint_steps) or []
    for step in steps:
        whole = step in (0, steps[-1])
        saved = _tried(found, partial(_checkpoint, found.folder, step, whole))
        if saved is not None:
            found.checkpoints[step] = saved
    found.first = found.checkpoints.get(0)
    if 0 not in steps:
        missing = found.folder.checkpoint_file(0)
        found.problems.append(f"{missing} must be the checkpoint of the start, got no such file")
    found.last = found.checkpoints.get(steps[-1]) if steps else None
    found.model = _tried(found, partial(_model, found.folder.model_file))
    if found.model is not None:
        fields = found.model.state["fields"]
        found.schema = _tried(found, partial(Schema.from_json, fields), "the fields of the model")
    return found


def _tried(found: Artefacts, read: Callable[[], Read], what: str = "") -> Read | None:
    """What was read, or None and one problem more."""
    try:
        return read()
    except (ValueError, OSError) as error:
        found.problems.append(f"{what}: {error}" if what else str(error))
    except (LookupError, TypeError, AttributeError) as error:  # a reader met what it never wrote
        found.problems.append(f"{what or found.folder.path} must be of schema 1, got {error!r}")
    return None


def _history(folder: RunFolder) -> list[Row]:
    if not folder.records_file.is_file():
        raise ValueError(f"{folder.records_file} must be the records of the run, got no such file")
    return folder.history()


def _checkpoint(folder: RunFolder, step: int, whole: bool) -> Saved:
    path = folder.checkpoint_file(step)
    read = read_checkpoint(path)
    check_fields(read.state, _CHECKPOINT, str(path))
    check_fields(read.state["loader"], _PLACE, f"{path}, loader")
    if read.step != step:
        raise ValueError(f"{path} must be of step {step}, got {read.step}")
    weights = read.part("model")
    return Saved(
        f"the checkpoint of step {step}",
        _config(read.state, path),
        read.state,
        weights_hash(weights),
        weights if whole else {},
        read.part("optimizer") if whole else {},
    )


def _model(path: Path) -> Saved:
    state, weights = read_tensors(path, "model")
    check_fields(state, _MODEL, str(path))
    return Saved("the model file", _config(state, path), state, weights_hash(weights), weights)


def _config(state: Mapping[str, Any], path: Path) -> RunConfig:
    try:
        return from_json(RunConfig, state.get("config"))
    except ValueError as error:
        raise ValueError(f"{path} must hold the config of a run: {error}") from None
