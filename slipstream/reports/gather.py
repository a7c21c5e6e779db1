"""All that a report needs to know of runs, read from their folders. What cannot be read is said.

A report never loads a model: it reads configs, records, evaluations, certificates and predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.core.configs import differences
from slipstream.evaluation.certificate import Finding, listed, read_certificate
from slipstream.evaluation.compare import Curve, read_curve
from slipstream.models.variants import VARIANTS, Size
from slipstream.runs.config import FREE, RunConfig
from slipstream.runs.evaluation_file import Evaluation, prediction_file, read_evaluations
from slipstream.runs.folder import RunFolder, find_runs
from slipstream.runs.study_file import NAME as STUDY
from slipstream.runs.study_file import read_planned

_LEFT_OUT = "left out, as it cannot be read"


@dataclass(frozen=True)
class RunData:
    """One run."""

    folder: RunFolder
    config: RunConfig
    curve: Curve
    finished: bool
    starts: tuple[Mapping[str, Any], ...]
    """Where and with what it ran."""
    evaluation: Evaluation | None
    """The newest."""
    checks: tuple[Finding, ...]
    """Of the study's certificate; empty where there is none."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def variant(self) -> str:
        return self.config.model.variant

    @property
    def size(self) -> Size:
        return self.config.model.size

    @property
    def began(self) -> str:
        return str(self.starts[0].get("time", "")) if self.starts else ""

    @property
    def data_hash(self) -> str | None:
        return self.starts[0].get("data_hash") if self.starts else None

    @property
    def parameters(self) -> int | None:
        return self.starts[-1]["parameters"] if self.starts else None

    @property
    def status(self) -> str:
        if self.finished:
            return "finished"
        reached = f"step {self.curve.reached} of {self.config.steps}"
        return f"not finished, {reached} validated" if self.starts else "not begun"

    def predictions(self) -> dict[str, Path]:
        """By sample, those of the newest evaluation that are there."""
        samples = self.evaluation.pictures if self.evaluation else []
        files = {sample: prediction_file(self.folder, sample) for sample in samples}
        return {sample: file for sample, file in files.items() if file.is_file()}


@dataclass(frozen=True)
class Gathered:
    runs: tuple[RunData, ...]
    """In the order of the variants' table, seeds ascending."""
    problems: tuple[str, ...]
    """What is missing, failed or unreadable, a sentence each."""


def gather(paths: Sequence[Path]) -> Gathered:
    """The runs at or below some folders. Raises ValueError where there are none at all."""
    runs: list[RunData] = []
    problems: list[str] = []
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path} must be the folder of a run or a study, got no such folder")
        checks = _read_checks(path, problems)
        own = []
        for folder in find_runs(path):
            key = str(folder.path.relative_to(path))
            try:
                own.append(_read_run(folder, checks.get(key, ())))
            except (ValueError, OSError) as error:
                problems.append(f"{_LEFT_OUT}: {error}")
        problems += [*_missing_cells(path), *_unfinished(own, path)]
        runs += own
    if not runs:
        named = ", ".join(map(str, paths))
        unread = [problem for problem in problems if problem.startswith(_LEFT_OUT)]
        why = f": {unread[0]}" if unread else ""
        raise ValueError(f"{named} must have runs that can be read, got none{why}")
    runs = _newest(runs, problems)
    problems += _other_data(runs)
    order = {name: place for place, name in enumerate(VARIANTS)}
    runs.sort(key=lambda run: (order[run.variant], run.config.seed))
    return Gathered(tuple(runs), tuple(problems))


def _newest(runs: Sequence[RunData], problems: list[str]) -> list[RunData]:
    """Of runs of one config on the same data, the one that began last."""
    found: list[RunData] = []
    for run in runs:
        same = [one for one in found if _is_again(one, run)]
        if not same:
            found.append(run)
            continue
        older, newer = sorted((same[0], run), key=lambda one: one.began)
        found[found.index(same[0])] = newer
        problems.append(
            f"{run.name} was run again: {newer.folder.path} counts, {older.folder.path} does not"
        )
    return found


def _other_data(runs: Sequence[RunData]) -> list[str]:
    """Where runs that would be compared were trained on different data."""
    found: dict[tuple[str, Size, int], set[str]] = {}
    for run in runs:
        if run.data_hash is not None:
            key = (run.config.experiment, run.size, run.config.steps)
            found.setdefault(key, set()).add(run.data_hash)
    return [
        f"{experiment}: runs of {steps:,} steps with G = {size.slices} and L = {size.layers} are of"
        f" {len(hashes)} different data; only runs of the same data are compared"
        for (experiment, size, steps), hashes in found.items()
        if len(hashes) > 1
    ]


def _is_again(one: RunData, other: RunData) -> bool:
    if one.data_hash != other.data_hash:
        return False
    return not differences(one.config, other.config, ignored=FREE)


def _read_run(folder: RunFolder, checks: tuple[Finding, ...]) -> RunData:
    evaluations = read_evaluations(folder)
    return RunData(
        folder,
        folder.read_config(),
        read_curve(folder),
        any(row["reason"] == "finished" for row in folder.history("stop")),
        tuple(folder.history("start")),
        evaluations[-1] if evaluations else None,
        checks,
    )


def _read_checks(path: Path, problems: list[str]) -> Mapping[str, tuple[Finding, ...]]:
    """The checks of each run by its path, of the certificate that is there."""
    try:
        found = read_certificate(path)
    except ValueError as error:
        problems.append(str(error))
        return {}
    if found is None:
        problems.append(f"{path} was not audited (slipstream audit {path})")
        return {}
    if not found.holds:
        problems.append(f"the audit: {found.verdict}")
    return found.runs


def _missing_cells(study: Path) -> Iterator[str]:
    """Cells that a study plans and that are not there."""
    if not (study / STUDY).is_file():
        return
    try:
        planned = read_planned(study)
    except ValueError as error:
        yield str(error)
        return
    for cell in planned:
        if not RunFolder(study / cell.path).exists:
            yield f"{cell.name} is missing: no run at {study / cell.path}"


def _unfinished(runs: Sequence[RunData], path: Path) -> Iterator[str]:
    for run in runs:
        if not run.finished:
            yield f"{run.name} is {run.status}{_last_words(run)}"
        elif run.curve.failure:
            yield f"{run.name}, in {path.name}: {run.curve.failure}"
    unknown = [run.name for run in runs if run.finished and run.evaluation is None]
    if unknown:
        yield f"not evaluated: {listed(unknown)} (slipstream evaluate {path})"


def _last_words(run: RunData) -> str:
    stops = [row["reason"] for row in run.folder.history("stop")]
    return f": it was {stops[-1]}" if stops else ""
