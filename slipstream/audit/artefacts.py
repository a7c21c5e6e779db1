"""The files of a run, read once; a file that cannot be read becomes a sentence in `problems`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from slipstream.core.files import naming_file
from slipstream.core.schemas import parsed
from slipstream.data.store import Schema
from slipstream.runs.checkpoint import read_checkpoint, read_tensors, weights_hash
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import parse_header

Record = dict[str, Any]
Read = TypeVar("Read")


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
    """All that an audit reads. `problems` says why a field that is None could not be read."""

    folder: RunFolder
    problems: list[str] = field(default_factory=list)
    config: RunConfig | None = None
    rows: list[Record] | None = None
    """The history of the run."""
    checkpoints: dict[int, Saved] = field(default_factory=dict)
    first: Saved | None = None
    last: Saved | None = None
    model: Saved | None = None
    schema: Schema | None = None

    def of_kind(self, *kinds: str) -> list[Record]:
        return [row for row in self.rows or () if row["kind"] in kinds]

    @property
    def begun(self) -> bool:
        """Whether the run has started: a study writes the configs of its runs beforehand."""
        folder = self.folder
        files = (folder.records_file, folder.model_file)
        return any(file.exists() for file in files) or bool(folder.checkpoint_steps())

    @property
    def step(self) -> int:
        """The step of the newest checkpoint."""
        return max(self.checkpoints, default=0)

    @property
    def saved(self) -> list[Saved]:
        return [*self.checkpoints.values(), *([self.model] if self.model else [])]


def read_artefacts(path: Path) -> Artefacts:
    """Read every file of a run that can be read."""
    run = Artefacts(RunFolder(path))
    run.config = _read_or_note(run, run.folder.read_config)
    run.rows = _read_or_note(run, partial(_history, run.folder))
    steps = _read_or_note(run, run.folder.checkpoint_steps) or []
    for step in steps:
        # Weights of the first and the newest checkpoint are compared; of the others, hashes do.
        whole = step in (0, steps[-1])
        saved = _read_or_note(run, partial(_checkpoint, run.folder, step, whole))
        if saved is not None:
            run.checkpoints[step] = saved
    run.first = run.checkpoints.get(0)
    if 0 not in steps:
        missing = run.folder.checkpoint_file(0)
        run.problems.append(f"{missing} must be the checkpoint of the start, got no such file")
    run.last = run.checkpoints.get(steps[-1]) if steps else None
    run.model = _read_or_note(run, partial(_model, run.folder.model_file))
    if run.model is not None:
        fields = run.model.state["fields"]
        schema = partial(Schema.from_json, fields)
        run.schema = _read_or_note(run, schema, "the fields of the model")
    return run


def _read_or_note(run: Artefacts, read: Callable[[], Read], what: str = "") -> Read | None:
    """What `read` returns; None if it raises, and the error is added to the run's problems."""
    try:
        return read()
    except (ValueError, OSError) as error:
        run.problems.append(f"{what}: {error}" if what else str(error))
    return None


def _history(folder: RunFolder) -> list[Record]:
    if not folder.records_file.is_file():
        raise ValueError(f"{folder.records_file} must be the records of the run, got no such file")
    return folder.history()


def _checkpoint(folder: RunFolder, step: int, whole: bool) -> Saved:
    path = folder.checkpoint_file(step)
    checkpoint = read_checkpoint(path)
    if checkpoint.step != step:
        raise ValueError(f"{path} must be of step {step}, got {checkpoint.step}")
    weights = checkpoint.part("model")
    return Saved(
        f"the checkpoint of step {step}",
        _config(checkpoint.state, path),
        checkpoint.state,
        weights_hash(weights),
        weights if whole else {},
        checkpoint.part("optimizer") if whole else {},
    )


def _model(path: Path) -> Saved:
    state, weights = read_tensors(path, "model")
    with naming_file(path):
        parse_header(state)
    return Saved("the model file", _config(state, path), state, weights_hash(weights), weights)


def _config(state: Mapping[str, Any], path: Path) -> RunConfig:
    with naming_file(path):
        return parsed(RunConfig, state["config"], place="config")
