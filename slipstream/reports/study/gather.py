"""All that a report needs to know of runs, read from their folders. What cannot be read is said.

A report never loads a model: it reads configs, records, evaluations, certificates and predictions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slipstream.audit.certificate import Finding, has_certificate, listed, read_certificate
from slipstream.core.configs import differences
from slipstream.core.records import read_records
from slipstream.data.store import MANIFEST_NAME
from slipstream.evaluation.compare import Curve, read_curve
from slipstream.models.variants import VARIANTS, Size, in_table_order
from slipstream.runs.config import FREE, RunConfig
from slipstream.runs.evaluation_file import (
    Evaluation,
    predictions_of,
    predicts_alike,
    read_evaluations,
)
from slipstream.runs.folder import RunFolder, find_runs
from slipstream.runs.study_file import NAME as STUDY
from slipstream.runs.study_file import read_planned

_LEFT_OUT = "left out, as it cannot be read"
_SWEPT = ("slices", "layers")
"""What a sweep compares, of the size of a model."""


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
    """Of those on the test split of the model as it is now, the newest of the one protocol that
    counts: points drawn as in training go before whole samples, and of these the most repeats. So
    no look at something else takes the noise away."""
    checks: tuple[Finding, ...]
    """Of the study's certificate; empty where there is none."""
    outdated: bool = False
    """Whether it has evaluations on the test split, all of an older model."""
    evaluations: tuple[Evaluation, ...] = ()
    """All there are, oldest first."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def variant(self) -> str:
        return self.config.model.variant

    @property
    def size(self) -> Size:
        return self.config.model.size

    @cached_property
    def settings(self) -> dict[str, Any]:
        """By name, what its errors follow from besides data, variant, seed, size and length."""
        config = self.config
        return {
            **{f"optim.{name}": value for name, value in asdict(config.optim).items()},
            "schedule": config.schedule,
            "batch": config.batch * self.processes,
            "precision": config.precision,
            "model.dots": config.model.dots,
            "data.points": config.data.points,
            "data.sampling": config.data.sampling,
            "data.coord_scale": config.data.coord_scale,
            "data.evaluation_seed": config.data.evaluation_seed,
        }

    @property
    def processes(self) -> int:
        """Each draws a batch of its own. Older records do not say how many there were: one."""
        return self.starts[0].get("processes", 1) if self.starts else 1

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
        """By sample, those of the evaluation that are there; then those of others that predict
        with the same model at the same points, newest first."""
        if self.evaluation is None:
            return {}
        split = self.evaluation.protocol.split
        own = [one for one in self.evaluations if one.protocol.split == split]
        alike = [one for one in reversed(own) if predicts_alike(one, self.evaluation)]
        found: dict[str, Path] = {}
        for one in (self.evaluation, *alike):
            for sample, file in predictions_of(self.folder, one, self.evaluations).items():
                found.setdefault(sample, file)
        return found


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
        for study in _studies(path):
            problems += _missing_cells(study)
        for place, folders in _places(path).items():
            runs += _read_place(place, folders, problems)
    if not runs:
        named = ", ".join(map(str, paths))
        unread = [problem for problem in problems if problem.startswith(_LEFT_OUT)]
        why = f": {unread[0]}" if unread else ""
        raise ValueError(f"{named} must have runs that can be read, got none{why}")
    runs = _newest(runs, problems)
    problems += [*_other_data(runs), *_other_settings(runs), *_absent_plugins(runs)]
    order = in_table_order(run.variant for run in runs)
    runs.sort(key=lambda run: (order.index(run.variant), run.config.seed))
    return Gathered(tuple(runs), tuple(problems))


def _places(path: Path) -> dict[Path, list[RunFolder]]:
    """The studies at or below a folder with their runs, and the folder itself with any others."""
    audited_as_one = has_certificate(path)
    found: dict[Path, list[RunFolder]] = {} if audited_as_one else {s: [] for s in _studies(path)}
    studies = list(found)
    for run in find_runs(path):
        place = next((study for study in studies if run.path.is_relative_to(study)), path)
        found.setdefault(place, []).append(run)
    return found or {path: []}


def _studies(path: Path) -> Iterator[Path]:
    """At or below a folder, in order; none is looked for in a study or a store."""
    for folder, below, files in os.walk(path):
        if STUDY in files:
            yield Path(folder)
        if {STUDY, MANIFEST_NAME} & set(files):
            below.clear()
        below.sort()


def _read_place(place: Path, folders: Sequence[RunFolder], problems: list[str]) -> list[RunData]:
    """The runs of a study, or of another folder."""
    checks, runs = _read_checks(place, problems), []
    for folder in folders:
        key = str(folder.path.relative_to(place))
        try:
            runs.append(_read_run(folder, checks.get(key, ())))
        except (ValueError, OSError) as error:
            problems.append(f"{_LEFT_OUT}: {error}")
    problems += _unfinished(runs, place)
    return runs


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


def _absent_plugins(runs: Sequence[RunData]) -> Iterator[str]:
    """Variants of which a report knows the records, but neither label nor look nor budget."""
    for model in {run.variant: run.config.model for run in runs}.values():
        if model.variant not in VARIANTS:
            yield (
                f"{model.variant} is shown without its label, colour and budget: they are in"
                f" {(model.plugin and model.plugin.file) or 'a program'}, which was not loaded"
                " (--plugin FILE)"
            )


def _other_data(runs: Sequence[RunData]) -> Iterator[str]:
    """Where runs of one experiment were trained on different data."""
    for experiment in dict.fromkeys(run.config.experiment for run in runs):
        found: dict[str, list[RunData]] = {}
        for run in runs:
            if run.config.experiment == experiment and run.data_hash is not None:
                found.setdefault(run.data_hash, []).append(run)
        if len(found) > 1:
            yield (
                f"{experiment}: runs are of {len(found)} different data,"
                f" {'; '.join(map(_whose, found.values()))}; only runs of the same data are"
                " compared"
            )


def _whose(runs: Sequence[RunData]) -> str:
    """As "4 runs of 60 steps in studies/flow"."""
    steps = ", ".join(f"{n:,}" for n in sorted({run.config.steps for run in runs}))
    places = dict.fromkeys(_study_of(run.folder) or run.folder.path for run in runs)
    return f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} of {steps} steps in {listed(places)}"


def _other_settings(runs: Sequence[RunData]) -> Iterator[str]:
    """Where runs of one experiment were trained with different settings or sizes."""
    for experiment in dict.fromkeys(run.config.experiment for run in runs):
        own = [_told_settings(run) for run in runs if run.config.experiment == experiment]
        values = {name: dict.fromkeys(str(one[name]) for one in own) for name in own[0]}
        found = [f"{name} ({', '.join(had)})" for name, had in values.items() if len(had) > 1]
        if found:
            yield (
                f"{experiment}: runs differ in {', '.join(found)}; only runs of the same settings"
                " are compared"
            )


def _told_settings(run: RunData) -> dict[str, Any]:
    """With the size, but for what a sweep compares."""
    size = {name: value for name, value in vars(run.size).items() if name not in _SWEPT}
    return {**run.settings, **{f"model.size.{name}": value for name, value in size.items()}}


def _is_again(one: RunData, other: RunData) -> bool:
    if one.data_hash != other.data_hash:
        return False
    return not differences(one.config, other.config, ignored=FREE)


def _read_run(folder: RunFolder, checks: tuple[Finding, ...]) -> RunData:
    evaluations = read_evaluations(folder)
    tested = [one for one in evaluations if one.protocol.split == "test"]
    best = [row["weights"] for row in folder.history("validation") if row["best"]]
    current = [one for one in tested if not best or one.weights == best[-1]]
    return RunData(
        folder,
        folder.read_config(),
        read_curve(folder),
        any(row["reason"] == "finished" for row in folder.history("stop")),
        tuple(folder.history("start")),
        _counting(current),
        checks,
        outdated=bool(tested) and not current,
        evaluations=tuple(evaluations),
    )


def _counting(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """See `RunData.evaluation`."""
    newest_first = reversed(evaluations)
    return max(
        newest_first, key=lambda one: (not one.protocol.full, one.protocol.repeats), default=None
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
    missing = [run for run in runs if run.finished and run.evaluation is None]
    unknown = [run.name for run in missing if not run.outdated]
    if unknown:
        yield f"not evaluated: {listed(unknown)} (slipstream evaluate {path})"
    outdated = [run.name for run in runs if run.outdated]
    if outdated:
        yield (
            f"trained further since the evaluation, which is left out: {listed(outdated)}"
            f" (slipstream evaluate {path})"
        )


def _last_words(run: RunData) -> str:
    """Why it has not finished, by its study's record of the last try, or its own."""
    history = run.folder.history()
    try:
        ending = _last_ending(run)
    except ValueError as error:
        return f", for a reason that cannot be read: {error}"
    since = history[-1]["time"] if history else ""
    if ending.get("status") == "failed" and ending["time"] >= since:
        return f": it failed: {str(ending.get('reason')).removeprefix('slipstream: ')}"
    stops = [row["reason"] for row in history if row["kind"] == "stop"]
    return f": it was {stops[-1]}" if stops else ""


def _last_ending(run: RunData) -> Mapping[str, Any]:
    """How the last try at it ended, as its study wrote it down; empty where none did."""
    study = _study_of(run.folder)
    file = study / "records.jsonl" if study else None
    if file is None or not file.is_file():
        return {}
    cell = (run.config.experiment, run.variant, run.config.seed)
    rows = read_records(file, "cell")
    own = [r for r in rows if (r.get("experiment"), r.get("variant"), r.get("seed")) == cell]
    return own[-1] if own else {}


def _study_of(folder: RunFolder) -> Path | None:
    """The study that a run lies in."""
    return next((above for above in folder.path.parents if (above / STUDY).is_file()), None)
