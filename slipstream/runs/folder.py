"""The folder of a run.

    RUN/config.json            the complete config, written once
    RUN/records.jsonl          appended, never rewritten: starts, losses, validations, checkpoints
    RUN/checkpoints/           step-<number>.safetensors: the first (step 0) and the newest
    RUN/model.safetensors      the best model so far, self-describing
    RUN/lock                   held by the process that trains

A run that crashed at step 130 and resumes from the checkpoint of step 100 takes 30 steps again, and
`records.jsonl` has their records twice: `history` leaves out the first ones.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from slipstream.core.files import json_text, naming, read_json, remove_partials, write_text
from slipstream.core.locks import is_at, is_locked, take_lock
from slipstream.core.schemas import parsed
from slipstream.data.store import MANIFEST_NAME
from slipstream.runs.config import RunConfig
from slipstream.runs.run_records import read_run_records

SCHEMA = 1


class RunFolder:
    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.records_file = self.path / "records.jsonl"
        self.checkpoint_folder = self.path / "checkpoints"
        self.model_file = self.path / "model.safetensors"
        self.lock_file = self.path / "lock"

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    def read_config(self) -> RunConfig:
        value = read_json(self.config_file)
        if value.get("schema") != SCHEMA:
            raise ValueError(
                f"{self.config_file}: schema must be {SCHEMA}, got {value.get('schema')!r}"
            )
        try:
            return parsed(RunConfig, value.get("config"), place="config")
        except ValueError as error:
            raise ValueError(f"{self.config_file} must be the config of a run: {error}") from None

    def check_free(self) -> None:
        """Raise ValueError unless the folder is a run, empty or absent, or a run that was killed
        before its config was written."""
        if not self.path.exists() or self.exists:
            return
        others = {name for name in _names(self.path) if not _MAY_PRECEDE.fullmatch(name)}
        if self.checkpoint_folder.is_dir() and not any(
            name for name in _names(self.checkpoint_folder) if not _PARTIAL.fullmatch(name)
        ):
            others.discard(self.checkpoint_folder.name)
        if others and not self.exists:  # another process may have begun the run meanwhile
            raise ValueError(
                f"{self.path} must be a run or an empty folder, got {min(others)} in it"
            )

    def begin(self, config: RunConfig) -> None:
        """Create the folder with its config; ValueError where it holds something else."""
        self.check_free()
        text = json_text({"schema": SCHEMA, "config": config.to_json()}, spread=("config",))
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config_file, text)
        self.checkpoint_folder.mkdir(exist_ok=True)

    def checkpoint_file(self, step: int) -> Path:
        return self.checkpoint_folder / f"step-{step:08d}.safetensors"

    def checkpoint_steps(self) -> list[int]:
        """The steps of the checkpoints there are, ascending."""
        matches = map(_CHECKPOINT.fullmatch, _names(self.checkpoint_folder))
        return sorted(int(match[1]) for match in matches if match)

    def prune_checkpoints(self, keep: int) -> None:
        """Remove all but the first and the newest ones."""
        for step in self.checkpoint_steps()[1:-keep]:
            self.checkpoint_file(step).unlink()

    def drop_partial_files(self) -> None:
        """Remove files that a killed process left unfinished, and no other ones."""
        remove_partials(self.path, self.config_file.name, self.model_file.name)
        remove_partials(self.checkpoint_folder, "step-*.safetensors")

    def records(self) -> list[dict[str, Any]]:
        return read_run_records(self.records_file) if self.records_file.is_file() else []

    def history(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records, without those of steps that a resumed run took again."""
        kept: list[dict[str, Any]] = []
        for row in self.records():
            if row["kind"] == "start":
                kept = [r for r in kept if r["kind"] == "start" or r["step"] <= row["step"]]
            kept.append(row)
        return [row for row in kept if kind is None or row["kind"] == kind]

    @property
    def in_use(self) -> bool:
        """Whether a live process trains this run now."""
        return is_locked(self.lock_file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run; ValueError where another live process holds it.

        The system releases the lock of a process that is killed.
        """
        with self._open_locked() as file:
            file.truncate(0)
            file.write(json.dumps({"process": os.getpid(), "host": platform.node()}))
            file.flush()
            try:
                yield
            finally:
                if not self.exists:  # the run never began: leave no trace of it
                    self.lock_file.unlink(missing_ok=True)
                    with suppress(OSError):  # the folder holds something else
                        self.path.rmdir()

    def _open_locked(self) -> IO[str]:
        """The lock file, locked; ValueError where another live process holds it.

        A process whose run never began removes file and folder. Another that opened the file just
        before locks one that is gone, while a third makes a new one: so its name is looked at
        again.
        """
        for _ in range(_TRIES):
            self.path.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack, suppress(FileNotFoundError):
                stack.enter_context(naming(self.lock_file))
                file = stack.enter_context(self.lock_file.open("a+"))
                if not take_lock(file, needed=True):
                    file.seek(0)
                    raise ValueError(
                        f"{self.path} must not be in use, got a live process that trains there:"
                        f" {file.read().strip() or 'unknown'}"
                    )
                if is_at(file, self.lock_file):
                    stack.pop_all()
                    return file
        raise ValueError(f"{self.lock_file} must stay where it is, got it removed {_TRIES} times")


def find_runs(path: Path) -> Iterator[RunFolder]:
    """The runs at or below a folder, sorted; runs and stores are not searched inside."""
    for folder, below, files in os.walk(path):
        here = RunFolder(folder)
        if here.exists and _is_run(here):
            below.clear()
            yield here
        elif MANIFEST_NAME in files:
            below.clear()
        below.sort()


def _is_run(folder: RunFolder) -> bool:
    """Whether config.json is that of a run; a damaged one counts beside records or checkpoints."""
    try:
        return {"schema", "config"} <= read_json(folder.config_file).keys()
    except (ValueError, OSError):
        return folder.records_file.is_file() or folder.checkpoint_folder.is_dir()


def _names(folder: Path) -> list[str]:
    """The names in a folder; none where it does not exist, or no longer does."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


_TRIES = 100
_CHECKPOINT = re.compile(r"step-([0-9]{8}|[1-9][0-9]{8,17})\.safetensors")
_PARTIAL = re.compile(r"\.step-[0-9]+\.safetensors(\.[0-9]+)?\.partial")
_MAY_PRECEDE = re.compile(r"lock|data|log\.txt|\.config\.json\.[0-9]+\.partial")
"""What a run's folder may hold before its config is written: built-in data, a study's log, what a
killed process left. So may an empty `checkpoints`, which older versions made first."""
