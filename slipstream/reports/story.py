"""The report of a study: which tables and figures it has, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from slipstream.core.runtime import versions
from slipstream.evaluation.summary import definition_of
from slipstream.reports.content import Definition, Picture, Report, RunCard, Section, Table
from slipstream.reports.draw import pictures
from slipstream.reports.draw.opening import make_opening
from slipstream.reports.draw.pictures import Gallery
from slipstream.reports.draw.scenes import read_scenes
from slipstream.reports.study.claims_table import claims_tables
from slipstream.reports.study.gather import Gathered, RunData
from slipstream.reports.study.insight_tables import insight_tables
from slipstream.reports.study.own_data import data_tables, is_on_data, one_variant
from slipstream.reports.study.settings import main_groups
from slipstream.reports.study.study_tables import study_tables
from slipstream.reports.study.system_tables import system_tables

_SECTIONS = {
    "Claims": ("claims", "numbers"),
    "Errors": ("main", "ratio"),
    "Each variable": ("variables-l1", "variables-l2", "noise"),
    "Fields": (),
    "Slices": ("slices",),
    "Controls": ("grid", "sweep-slices", "capacity", "sweep-layers", "sweep-steps", "sweep-*"),
    "Theory": ("budgets", "locality"),
    "Speed and memory": ("systems-model", "systems-layer"),
}
"""The sections of a report on variants and the tables in each, in order; `sweep-*` stands for those
of fields that studies swept."""
_FIRST = ("variables-l1", "forces", "samples", "variables-l2", "noise")
"""The tables of the section on fields and forces, with which a report on data begins."""
_DATA = "Fields and forces"
TABLES = tuple(dict.fromkeys([*_FIRST, *(name for own in _SECTIONS.values() for name in own)]))
_OF_VARIANTS = ("claims", "numbers", "ratio", "grid", "capacity", "budgets")
"""Tables that say nothing where there is only one variant."""


def make_report(
    gathered: Gathered,
    *,
    title: str,
    conclusion: str,
    bench: Sequence[Mapping[str, Any]] = (),
    folder: Path | None = None,
    notice: str = "",
) -> Report:
    """The report of a study; figures are also written into `folder`, as SVG and PNG."""
    runs, problems = gathered.runs, list(gathered.problems)
    gallery = Gallery(folder)
    compared = [run for group in main_groups(runs) for run in group.compared]
    scenes = read_scenes(compared, problems)
    opening = make_opening(compared, scenes, problems)
    all_tables = [*study_tables(runs), *insight_tables(runs), *system_tables(bench)]
    all_tables += [*data_tables(runs), *claims_tables(runs)]
    left_out = _OF_VARIANTS if one_variant(runs) else ()
    tables = {table.name: table for table in all_tables if table.name not in left_out}
    fields = pictures.field_pictures(scenes, gallery)
    figures = {
        _DATA: [*pictures.force_pictures(runs, gallery), *fields] if is_on_data(runs) else [],
        "Claims": [],
        "Errors": pictures.error_pictures(runs, gallery),
        "Each variable": [],
        "Fields": fields,
        "Slices": pictures.slice_pictures(compared, gallery),
        "Controls": pictures.control_pictures(runs, gallery),
        "Theory": pictures.locality_pictures(runs, gallery),
        "Speed and memory": pictures.system_pictures(bench, gallery),
    }
    sections = [
        Section(_title(name, runs), items=(*_matching(names, tables), *figures[name]))
        for name, names in _sections(runs).items()
    ]
    return Report(
        title=title,
        subtitle=_subtitle(runs),
        conclusion=conclusion,
        sections=tuple(section for section in sections if section.items),
        scenes=tuple(scenes),
        runs=tuple(_card(run) for run in runs),
        definitions=tuple(_definitions(runs)),
        problems=tuple(problems),
        opening=opening,
        notice=notice,
    )


def _matching(patterns: Sequence[str], tables: Mapping[str, Table]) -> list[Table]:
    """The tables whose names match, each once, in the order of the patterns."""
    names = (name for pattern in patterns for name in tables if fnmatchcase(name, pattern))
    return [tables[name] for name in dict.fromkeys(names)]


def _title(section: str, runs: Sequence[RunData]) -> str:
    """The errors of a single variant are those of its training."""
    return "Training" if section == "Errors" and one_variant(runs) else section


def _sections(runs: Sequence[RunData]) -> dict[str, tuple[str, ...]]:
    """The sections and their tables. A report on data begins with fields and forces."""
    if not is_on_data(runs):
        return _SECTIONS
    others = {
        name: tuple(table for table in tables if table not in _FIRST)
        for name, tables in _SECTIONS.items()
        if name != "Fields"
    }
    return {_DATA: _FIRST, **others}


def tables_of(report: Report) -> list[Table]:
    return [item for part in report.sections for item in part.items if isinstance(item, Table)]


def pictures_of(report: Report) -> list[Picture]:
    return [item for part in report.sections for item in part.items if isinstance(item, Picture)]


def _subtitle(runs: Sequence[RunData]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    devices = dict.fromkeys(start["device"] for run in runs for start in run.starts)
    where = f" on {', '.join(devices)}" if devices else ""
    date = datetime.now(UTC).date().isoformat()
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    return f"{date}. {count}{where}. Read by {packages}."


def _card(run: RunData) -> RunCard:
    facts = {"steps": f"{run.curve.reached:,} of {run.config.steps:,}"}
    if run.parameters is not None:
        facts["parameters"] = f"{run.parameters:,}"
    if run.starts:
        start = run.starts[-1]
        for name in ("device", "kernels", "launches", "precision", "processes", "commit"):
            facts[name] = str(start.get(name) or "not recorded")
    if run.curve.errors:
        facts["best validation error"] = f"{min(run.curve.errors.values()):.4g}"
    facts["folder"] = str(run.folder.path)
    return RunCard(run.name, run.status, facts, run.config.to_json(), run.checks)


def _definitions(runs: Sequence[RunData]) -> list[Definition]:
    definitions = [
        Definition(
            "validation error",
            "relative L1 error on normalised targets, sum |prediction - truth| / sum |truth| over"
            " the points of a sample and the channels of a group; mean over groups and samples of"
            " the validation split; the best of a run up to the last step that all finished runs of"
            " the experiment reached (all runs, where none is finished)",
        ),
        Definition("ratio", "the error of a variant over that of the baseline of the same size"),
        Definition(
            "±",
            "standard deviation over seeds (n - 1); in the table of noise, over draws of points",
        ),
        Definition(
            "entropy",
            "of a point's slice weights, in nats, mean over points and heads; ln G where uniform",
        ),
        Definition(
            "effective number of slices",
            "exponential of the entropy of the mean weights of the slices, mean over heads",
        ),
    ]
    texts: dict[str, str] = {}
    for one in (run.evaluation for run in runs if run.evaluation):
        for measure in one.definitions:
            texts.setdefault(measure, definition_of(one, measure))
    return definitions + [Definition(f"test {measure}", text) for measure, text in texts.items()]
