"""All that a report needs to know about runs, read from their folders.

A report never loads a model: it reads configs, records, evaluations, certificates and predictions.
What is missing or cannot be read becomes a sentence in `Gathered.problems`, and the report goes on
without it. `gather([Path("STUDY")])` reads:

    STUDY/study.json                            the cells that were planned
    STUDY/records.jsonl                         how each attempt at a cell ended
    STUDY/certificate.json                      what the audit says of each run
    STUDY/runs/<experiment>/.../seed-<seed>/    config, records, evaluations, predictions of a run
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from slipstream.runs.force_records import ForceSection
from slipstream.runs.run_records import seconds_taken
from slipstream.runs.study_file import NAME as STUDY
from slipstream.runs.study_file import planned_at, read_planned
from slipstream.runs.sweep import Swept, cell_name, short_name, value_of

_LEFT_OUT = "left out, as it cannot be read"
SIZES = ("slices", "layers")
"""The parts of a model's size that count as swept wherever studies differ in them."""


@dataclass(frozen=True)
class RunData:
    """What the files of one run say."""

    folder: RunFolder
    config: RunConfig
    curve: Curve
    finished: bool
    starts: tuple[Mapping[str, Any], ...]
    """A record of each start and resumption: time, device, kernels, data hash, ..."""
    evaluation: Evaluation | None
    """The one that the tables use: on the test split, of the newest weights. Of several, points
    drawn as in training go before whole samples, then more repeats before fewer, then the newest.
    So a later look at whole samples does not take the error bars out of the table."""
    checks: tuple[Finding, ...]
    """What the study's certificate says of the run; empty where there is no certificate."""
    outdated: bool = False
    """Whether all its evaluations on the test split are of older weights."""
    evaluations: tuple[Evaluation, ...] = ()
    """Every evaluation of the run, oldest first."""
    seconds: float | None = None
    """How long its training took, validations included, whatever else the machine did."""
    swept: Swept = field(default_factory=dict)
    """The values of the fields that its study sweeps and its variant depends on."""
    place: int = 0
    """Its place among the cells of its study."""
    swept_fields: tuple[str, ...] = ()
    """All fields that studies of the report sweep, the same in every run of a report."""

    @property
    def name(self) -> str:
        return cell_name(self.config.experiment, self.variant, self.config.seed, self.swept)

    @property
    def variant(self) -> str:
        return self.config.model.variant

    @property
    def size(self) -> Size:
        return self.config.model.size

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What its errors depend on besides data, variant, seed and length, by name.

        Runs are compared only where all of these are equal. `batch` counts all processes: 2 samples
        on each of 4 processes train like 8 on one, and like 4 on one where they share them by two.
        Parts of the size are named without `model.size.`.
        """
        config = self.config
        swept = {short_name(f): value_of(config, f) for f in self.swept_fields if f != "steps"}
        return {
            **swept,
            **vars(self.size),
            **{f"optim.{name}": value for name, value in asdict(config.optim).items()},
            "schedule": config.schedule,
            "batch": config.batch * self.processes // config.mesh.points,
            "precision": config.precision,
            "model.dots": config.model.dots,
            "data.points": config.data.points,
            "data.sampling": config.data.sampling,
            "data.coord_scale": config.data.coord_scale,
            "data.evaluation_seed": config.data.evaluation_seed,
        }

    @property
    def processes(self) -> int:
        """How many processes trained it. Older records do not say; then there was one."""
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

    @property
    def forces(self) -> ForceSection | None:
        """Force coefficients of its newest evaluation that has some, of the same weights."""
        if self.evaluation is None:
            return None
        own = [self.evaluation.forces]
        for one in self.evaluations:
            same_split = one.protocol.split == self.evaluation.protocol.split
            if same_split and one.weights == self.evaluation.weights:
                own.append(one.forces)
        return next((forces for forces in reversed(own) if forces is not None), None)

    def predictions(self) -> dict[str, Path]:
        """Files of predictions by sample: of `evaluation`, else of the newest other evaluation
        with the same weights at the same points."""
        if self.evaluation is None:
            return {}
        split = self.evaluation.protocol.split
        same_split = [one for one in self.evaluations if one.protocol.split == split]
        alike = [one for one in reversed(same_split) if predicts_alike(one, self.evaluation)]
        files: dict[str, Path] = {}
        for one in (self.evaluation, *alike):
            for sample, file in predictions_of(self.folder, one, self.evaluations).items():
                files.setdefault(sample, file)
        return files


@dataclass(frozen=True)
class Gathered:
    """The runs of a report, and what is wrong with them."""

    runs: tuple[RunData, ...]
    """In the order of `VARIANTS`, seeds ascending."""
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
        for audited, folders in _by_audited_folder(path).items():
            runs += _read_runs(audited, folders, problems)
    if not runs:
        folders_given = ", ".join(map(str, paths))
        unread = [problem for problem in problems if problem.startswith(_LEFT_OUT)]
        why = f": {unread[0]}" if unread else ""
        raise ValueError(f"{folders_given} must have runs that can be read, got none{why}")
    swept_fields = tuple(dict.fromkeys(field for run in runs for field in run.swept))
    runs = _newest([replace(run, swept_fields=swept_fields) for run in runs], problems)
    problems += [*_other_data(runs), *_other_settings(runs), *_absent_plugins(runs)]
    order = in_table_order(run.variant for run in runs)
    runs.sort(key=lambda run: (order.index(run.variant), run.config.seed, run.place))
    return Gathered(tuple(runs), tuple(problems))


def _by_audited_folder(path: Path) -> dict[Path, list[RunFolder]]:
    """The runs at or below a folder, by the folder whose certificate covers them.

    That is the study of each run, and `path` for runs outside a study. Where `path` itself has a
    certificate, all were audited together and `path` covers every run.
    """
    studies = [] if has_certificate(path) else list(_studies(path))
    runs: dict[Path, list[RunFolder]] = {study: [] for study in studies}
    for run in find_runs(path):
        audited = next((study for study in studies if run.path.is_relative_to(study)), path)
        runs.setdefault(audited, []).append(run)
    return runs or {path: []}


def _studies(path: Path) -> Iterator[Path]:
    """The studies at or below a folder, sorted; studies and stores are not searched inside."""
    for folder, below, files in os.walk(path):
        if STUDY in files:
            yield Path(folder)
        if {STUDY, MANIFEST_NAME} & set(files):
            below.clear()  # os.walk descends into what is left in this list, in its order
        below.sort()


def _read_runs(audited: Path, folders: Sequence[RunFolder], problems: list[str]) -> list[RunData]:
    """The runs of one audited folder; those that cannot be read become problems."""
    checks, runs = _read_checks(audited, problems), []
    for folder in folders:
        key = str(folder.path.relative_to(audited))
        try:
            runs.append(_read_run(folder, checks.get(key, ())))
        except (ValueError, OSError) as error:
            problems.append(f"{_LEFT_OUT}: {error}")
    problems += _unfinished(runs, audited)
    return runs


def _newest(runs: Sequence[RunData], problems: list[str]) -> list[RunData]:
    """Of several runs with one config on the same data, only the one that began last.

    A study that was copied, or trained again in another folder, is so not counted twice.
    """
    kept: list[RunData] = []
    for run in runs:
        same = [one for one in kept if _is_repetition(one, run)]
        if not same:
            kept.append(run)
            continue
        older, newer = sorted((same[0], run), key=lambda one: one.began)
        kept[kept.index(same[0])] = newer
        problems.append(
            f"{run.name} was run again: {newer.folder.path} counts, {older.folder.path} does not"
        )
    return kept


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
    """A sentence for each experiment whose runs were trained on different data."""
    for experiment in dict.fromkeys(run.config.experiment for run in runs):
        by_hash: dict[str, list[RunData]] = {}
        for run in runs:
            if run.config.experiment == experiment and run.data_hash is not None:
                by_hash.setdefault(run.data_hash, []).append(run)
        if len(by_hash) > 1:
            yield (
                f"{experiment}: runs are of {len(by_hash)} different data,"
                f" {'; '.join(map(_counted, by_hash.values()))}; only runs of the same data are"
                " compared"
            )


def _counted(runs: Sequence[RunData]) -> str:
    """As "4 runs of 60 steps in studies/flow"."""
    steps = ", ".join(f"{n:,}" for n in sorted({run.config.steps for run in runs}))
    folders = dict.fromkeys(study_of(run.folder) or run.folder.path for run in runs)
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    return f"{count} of {steps} steps in {listed(folders)}"


def _other_settings(runs: Sequence[RunData]) -> Iterator[str]:
    """A sentence for each experiment whose runs have different settings or sizes.

    As "poisson: runs differ in batch (4, 8), schedule (cosine, constant); only ...".
    """
    for experiment in dict.fromkeys(run.config.experiment for run in runs):
        settings = [_not_swept(run) for run in runs if run.config.experiment == experiment]
        values = {name: dict.fromkeys(str(one[name]) for one in settings) for name in settings[0]}
        differing = [
            f"{name} ({', '.join(texts)})" for name, texts in values.items() if len(texts) > 1
        ]
        if differing:
            yield (
                f"{experiment}: runs differ in {', '.join(differing)}; only runs of the same"
                " settings are compared"
            )


def _not_swept(run: RunData) -> dict[str, Any]:
    """The settings of a run without those that a sweep varies on purpose, by their full names."""
    swept, sizes = (*SIZES, *map(short_name, run.swept_fields)), vars(run.size)
    kept = {name: value for name, value in run.settings.items() if name not in swept}
    return {f"model.size.{n}" if n in sizes else n: value for n, value in kept.items()}


def _is_repetition(one: RunData, other: RunData) -> bool:
    """Whether two runs have the same data and, but for names and places, the same config."""
    if one.data_hash != other.data_hash:
        return False
    return not differences(one.config, other.config, ignored=FREE)


def _read_run(folder: RunFolder, checks: tuple[Finding, ...]) -> RunData:
    evaluations = read_evaluations(folder)
    tested = [one for one in evaluations if one.protocol.split == "test"]
    # Every validation that improved wrote the hash of the weights that it kept. An evaluation with
    # another hash than the last of these is of a model that was trained further since.
    best = [row["weights"] for row in folder.history("validation") if row["best"]]
    current = [one for one in tested if not best or one.weights == best[-1]]
    config = folder.read_config()
    place, swept = _planned(folder, config)
    return RunData(
        folder,
        config,
        read_curve(folder),
        any(row["reason"] == "finished" for row in folder.history("stop")),
        tuple(folder.history("start")),
        _counting(current),
        checks,
        outdated=bool(tested) and not current,
        evaluations=tuple(evaluations),
        seconds=seconds_taken(folder.records()),
        swept=swept,
        place=place,
    )


def _planned(folder: RunFolder, config: RunConfig) -> tuple[int, Swept]:
    """The place of a run in its study, and the swept values with which that lists it.

    A list that cannot be read, or has another run there, says nothing; the audit tells of it.
    """
    try:
        place, cell = planned_at(folder.path) or (0, None)
        return (place, cell.swept) if cell and cell.name_of(config) == cell.name else (0, {})
    except ValueError:
        return 0, {}


def _counting(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """The one that the tables use, see `RunData.evaluation`.

    Of 1 repeat on whole samples (newest), 4 repeats on drawn points and 1 repeat on drawn points,
    the second: the keys are (False, 1), (True, 4) and (True, 1). `max` keeps the first of equals.
    """
    newest_first = reversed(evaluations)
    return max(
        newest_first, key=lambda one: (not one.protocol.full, one.protocol.repeats), default=None
    )


def _read_checks(path: Path, problems: list[str]) -> Mapping[str, tuple[Finding, ...]]:
    """The checks of each run in the folder's certificate, by the run's path relative to it."""
    try:
        certificate = read_certificate(path)
    except ValueError as error:
        problems.append(str(error))
        return {}
    if certificate is None:
        problems.append(f"{path} was not audited (slipstream audit {path})")
        return {}
    if not certificate.holds:
        problems.append(f"the audit: {certificate.verdict}")
    return certificate.runs


def _missing_cells(study: Path) -> Iterator[str]:
    """A sentence for each cell that a study plans and that has no run."""
    try:
        planned = read_planned(study)
    except ValueError as error:
        yield str(error)
        return
    for cell in planned:
        if not RunFolder(study / cell.path).exists:
            yield f"{cell.name} is missing: no run at {study / cell.path}"


def _unfinished(runs: Sequence[RunData], path: Path) -> Iterator[str]:
    """Sentences on runs that have not finished, failed to train or lack an evaluation."""
    for run in runs:
        if not run.finished:
            yield f"{run.name} is {run.status}{_why_unfinished(run)}"
        elif run.curve.failure:
            yield f"{run.name}, in {path.name}: {run.curve.failure}"
    missing = [run for run in runs if run.finished and run.evaluation is None]
    not_evaluated = [run.name for run in missing if not run.outdated]
    if not_evaluated:
        yield f"not evaluated: {listed(not_evaluated)} (slipstream evaluate {path})"
    outdated = [run.name for run in runs if run.outdated]
    if outdated:
        yield (
            f"trained further since the evaluation, which is left out: {listed(outdated)}"
            f" (slipstream evaluate {path})"
        )


def _why_unfinished(run: RunData) -> str:
    """Why it has not finished: by its study's record of the last try, or by its own last stop.

    The study's record counts only where it is newer than the run's last record: a run that failed
    and was then resumed by hand is no longer a failed one.
    """
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
    """The study's last record of how a try at this run ended; empty where there is none."""
    study = study_of(run.folder)
    file = study / "records.jsonl" if study else None
    if file is None or not file.is_file():
        return {}
    cell = (run.config.experiment, run.variant, run.config.seed, run.swept)
    names = ("experiment", "variant", "seed")
    rows = read_records(file, "cell")
    tries = [r for r in rows if (*map(r.get, names), r.get("swept", {})) == cell]
    return tries[-1] if tries else {}


def study_of(folder: RunFolder) -> Path | None:
    """The folder of the study that a run lies in; None outside a study."""
    return next((above for above in folder.path.parents if (above / STUDY).is_file()), None)
