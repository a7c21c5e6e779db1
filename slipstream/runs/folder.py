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

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from slipstream.core.files import json_text, read_json, write_text
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
        """Raise ValueError unless the folder is a run, empty or absent."""
        if not self.path.exists() or self.exists:
            return
        others = [child.name for child in self.path.iterdir() if child.name not in _MAY_PRECEDE]
        if others:
            raise ValueError(
                f"{self.path} must be a run or an empty folder, got {min(others)} in it"
            )

    def begin(self, config: RunConfig) -> None:
        """Create the folder with its config; ValueError where it holds something else."""
        self.check_free()
        self.checkpoint_folder.mkdir(parents=True, exist_ok=True)
        text = json_text({"schema": SCHEMA, "config": config.to_json()}, spread=("config",))
        write_text(self.config_file, text)

    def checkpoint_file(self, step: int) -> Path:
        return self.checkpoint_folder / f"step-{step:08d}.safetensors"

    def checkpoint_steps(self) -> list[int]:
        """The steps of the checkpoints there are, ascending."""
        files = self.checkpoint_folder.glob("step-*.safetensors")
        return sorted(int(file.stem.removeprefix("step-")) for file in files)

    def prune_checkpoints(self, keep: int) -> None:
        """Remove all but the first and the newest ones."""
        for step in self.checkpoint_steps()[1:-keep]:
            self.checkpoint_file(step).unlink()

    def drop_partial_files(self) -> None:
        """Remove files that a killed process left unfinished. The caller must hold the lock."""
        for folder in (self.path, self.checkpoint_folder):
            for file in folder.glob(".*.partial"):
                file.unlink()

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
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run; ValueError where another live process holds it.

        The system releases the lock of a process that is killed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise ValueError(
                    f"{self.path} must not be in use, got a live process that trains there:"
                    f" {file.read().strip() or 'unknown'}"
                ) from None
            file.truncate(0)
            file.write(json.dumps({"process": os.getpid(), "host": platform.node()}))
            file.flush()
            try:
                yield
            finally:
                if not self.exists:  # the run never began: leave no trace of it
                    (self.path / "lock").unlink(missing_ok=True)
                    with suppress(OSError):  # the folder holds something else
                        self.path.rmdir()


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


_MAY_PRECEDE = ("lock", "data", "log.txt")
"""What a run's folder may hold before its config is written: built-in data, a study's log."""
