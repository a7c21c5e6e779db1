"""The audit of a study: each of its runs, and whether they differ in variant and seed only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from slipstream.audit.certificate import Certificate, Finding, RunAudit, finding_from, listed
from slipstream.audit.run_audit import audit_run
from slipstream.core.configs import differences
from slipstream.core.runtime import versions
from slipstream.runs.config import FREE, OWN, RunConfig
from slipstream.runs.folder import RunFolder, find_runs
from slipstream.runs.study_file import NAME as STUDY
from slipstream.runs.study_file import PlannedCell, read_planned
from slipstream.runs.sweep import value_of


def certify(path: Path, progress: Callable[[int, int], None] | None = None) -> Certificate:
    """Audit the run or study in a folder; `progress` is called with runs done and runs in all.

    Raises ValueError where the folder is neither.
    """
    if not path.is_dir():
        raise ValueError(f"{path} must be the folder of a run or a study, got no such folder")
    single = RunFolder(path).exists
    folders = [path] if single else [run.path for run in find_runs(path)]
    planned = not single and (path / STUDY).is_file()
    if not folders and not planned:
        raise ValueError(
            f"{path} must be a run, with a {RunFolder(path).config_file.name}, or a study, with"
            " runs below it, got neither"
        )
    runs = []
    for done, folder in enumerate(folders, start=1):
        runs.append(audit_run(folder, str(path if single else folder.relative_to(path))))
        if progress:
            progress(done, len(folders))
    across = {} if single else audit_across(runs, _swept(path) if planned else ())
    if planned:
        across["study"] = (check_cells(path, runs),)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Certificate(str(path), date, versions(), tuple(runs), across)


def _swept(study: Path) -> list[str]:
    """The fields that a study sweeps; none where its list cannot be read: `check_cells` says so."""
    try:
        return list(dict.fromkeys(field for cell in read_planned(study) for field in cell.swept))
    except (ValueError, OSError):
        return []


def audit_across(
    runs: Iterable[RunAudit], swept: Collection[str] = ()
) -> dict[str, tuple[Finding, ...]]:
    """The checks of what must be equal in all runs of an experiment, by experiment.

    `swept` fields may differ; `check_cells` compares them with what the study lists.
    """
    groups: dict[str, list[RunAudit]] = {}
    for run in runs:
        if run.config is not None:
            groups.setdefault(run.config.experiment, []).append(run)
    return {
        name: (
            _check_configs(group, swept),
            _check_data(group),
            _check_steps(group, swept),
            _check_starts(group),
            _check_means(group, swept),
        )
        for name, group in groups.items()
    }


def _check_configs(runs: Sequence[RunAudit], swept: Collection[str]) -> Finding:
    """All runs have one config, except for variant, seed, swept fields and those in `FREE`."""
    wrong = []
    *others, last = ("variant", "seed", *swept)
    free = f"{', '.join(others)} and {last}"
    for run in runs[1:]:
        differing = differences(runs[0].config, run.config, ignored=(*FREE, *OWN, *swept))
        if differing:
            wrong.append(
                f"{run.path} must have the config of {runs[0].path} but for {free}, got"
                f" other values (there, here) of {'; '.join(differing)}"
            )
    seen = f"{len(runs)} runs differ in {free} alone"
    return finding_from("configs", wrong, seen, _without_partner(runs))


def _without_partner(runs: Sequence[RunAudit]) -> list[str]:
    """A note on seeds that one variant has and another lacks."""
    cells = {(run.config.model.variant, run.config.seed) for run in runs if run.config}
    variants, seeds = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    absent = [f"{v} seed {s}" for v in variants for s in seeds if (v, s) not in cells]
    return [f"no run of {listed(absent)}"] if absent else []


def _check_data(runs: Sequence[RunAudit]) -> Finding:
    wrong = []
    for key in ("data_hash", "split_hash"):
        by_hash = _grouped(runs, partial(_hash, key))
        if len(by_hash) > 1:
            wrong.append(f"{key} must be the same in all runs, got {_several(by_hash)}")
    data, splits = (_hash(key, runs[0]) for key in ("data_hash", "split_hash"))
    return finding_from("same data", wrong, f"all runs have data {data} and splits {splits}")


def _hash(key: str, run: RunAudit) -> str:
    return (getattr(run, key) or "unknown")[:12]


def _check_steps(runs: Sequence[RunAudit], swept: Collection[str]) -> Finding:
    wrong, taken = [], []
    for own in _with_one_value(runs, "steps", swept):
        by_step = _grouped(own, lambda run: str(run.step))
        if len(by_step) > 1:
            wrong.append(f"all runs must have reached the same step, got {_several(by_step)}")
        taken.append(str(own[0].step))
    return finding_from("same steps", wrong, f"all runs have taken {' or '.join(taken)} steps")


def _with_one_value(
    runs: Sequence[RunAudit], field: str, swept: Collection[str]
) -> list[Sequence[RunAudit]]:
    """The runs by their value of a field, if it is swept; else all together."""
    groups: dict[object, list[RunAudit]] = {}
    for run in runs:
        assert run.config
        groups.setdefault(value_of(run.config, field) if field in swept else None, []).append(run)
    return list(groups.values())


def _check_starts(runs: Sequence[RunAudit]) -> Finding:
    """For each seed, parameters of the same name and shape had equal initial values."""
    known: dict[tuple[int, str], tuple[str, str]] = {}  # hash, and the run that has it
    wrong, compared = [], 0
    for run in runs:
        assert run.config
        other: dict[str, list[str]] = {}
        for name, (shape, bits) in run.initial.items():
            key = (run.config.seed, f"{name} {shape}")
            before, where = known.setdefault(key, (bits, run.path))
            compared += where != run.path
            if bits != before:
                other.setdefault(where, []).append(name)
        wrong += [
            f"{run.path} must have started as {where} where they share parameters, got others of"
            f" {listed(names)}"
            for where, names in other.items()
        ]
    return finding_from(
        "shared start", wrong, f"{compared} shared parameters started bitwise equal"
    )


def _check_means(runs: Sequence[RunAudit], swept: Collection[str]) -> Finding:
    """All runs have one precision and number of processes; a note says where device, kernels,
    threads, commit or versions differ."""
    runs = [run for run in runs if run.spans] or runs
    wrong, notes = [], []
    for what in ("precision", "processes"):
        for own in _with_one_value(runs, "precision", swept):
            by_value = _grouped(own, partial(_of_spans, what))
            if len(by_value) > 1:
                wrong.append(f"{what} must be the same in all runs, got {_several(by_value)}")
    coupled = [run for run in runs if not _of_spans("kernels", run).startswith("none:")]
    for what in ("device", "kernels", "threads", "commit", "versions"):
        by_value = _grouped(coupled if what == "kernels" else runs, partial(_of_spans, what))
        if len(by_value) > 1:
            notes.append(f"{what} not the same in all runs: {_several(by_value)}")
    precision, processes = (_of_spans(what, runs[0]) for what in ("precision", "processes"))
    seen = f"all runs in {precision} with processes: {processes}"
    return finding_from("same means", wrong, seen, notes)


def _of_spans(what: str, run: RunAudit) -> str:
    values = dict.fromkeys(str(getattr(span, what)) for span in run.spans)
    return " then ".join(values) or "nothing recorded"


def _grouped(runs: Sequence[RunAudit], value: Callable[[RunAudit], str]) -> dict[str, list[str]]:
    """The paths of the runs, grouped by a value that each has."""
    paths: dict[str, list[str]] = {}
    for run in runs:
        paths.setdefault(value(run), []).append(run.path)
    return paths


def _several(groups: Mapping[str, Sequence[str]]) -> str:
    """As "100 (a, b) and 50 (c)"."""
    return " and ".join(f"{value} ({listed(paths)})" for value, paths in groups.items())


def check_cells(study: Path, runs: Sequence[RunAudit]) -> Finding:
    """Every cell that the study lists has a finished run of its experiment, variant, seed and
    swept values."""
    try:
        cells = read_planned(study)
    except (ValueError, OSError) as error:
        return finding_from("cells", [str(error)], "")
    by_path = {run.path: run for run in runs}
    wrong = [sentence for cell in cells for sentence in _wrong_cell(cell, by_path)]
    extra = sorted(by_path.keys() - {_plain(cell.path) for cell in cells})
    notes = [f"runs that the study does not list: {listed(extra)}"] if extra else []
    return finding_from("cells", wrong, f"all {len(cells)} cells are there and finished", notes)


def _wrong_cell(cell: PlannedCell, runs: Mapping[str, RunAudit]) -> Iterator[str]:
    run = runs.get(_plain(cell.path))
    if run is None:
        yield f"finished: {cell.path} must be the run {cell.name}, got no run there"
    elif run.config is not None and (name := _name_in_place(cell, run.config)) != cell.name:
        yield f"{cell.path} must be the run {cell.name}, got {name}"
    elif run.config is None or not _finished(run):
        yield f"finished: {cell.path} must have finished, got step {run.step}"


def _name_in_place(cell: PlannedCell, config: RunConfig) -> str:
    """The name of the run as the cell names its own; where a swept field is none, which."""
    try:
        return cell.name_of(config)
    except ValueError as error:
        return f"no such run: {error}"


def _finished(run: RunAudit) -> bool:
    return any(finding.check == "finished" and finding.holds for finding in run.findings)


def _plain(path: str) -> str:
    return str(Path(path))
