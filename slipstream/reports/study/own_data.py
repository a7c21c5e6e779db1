"""What a report on a user's own data says of fields and forces: title, sentences, tables.

A report is on data, instead of on the paper's claims, where all of its runs are of the experiment
`own`, or where only one variant was trained: there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream.evaluation.against_yardsticks import (
    HEADINGS,
    NAMES,
    OF_FORCES,
    beside_text,
    copies,
    force_sentences,
    yardsticks_of,
)
from slipstream.evaluation.by_sample import variables_of, worst_first
from slipstream.evaluation.summary import Summary, summarise
from slipstream.reports.content import Cell, Table
from slipstream.reports.study.captions import where_measured
from slipstream.reports.study.cells import text_cell
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, main_groups
from slipstream.reports.study.study_tables import capital
from slipstream.runs.evaluation_file import Evaluation, Yardstick
from slipstream.runs.force_records import SHOWN, ForceSection

OWN = "own"
UNKNOWN = Cell(text="-", kind="text")


def is_on_data(runs: Sequence[RunData]) -> bool:
    """Whether the report is on the data rather than on the paper's claims."""
    return one_variant(runs) or all(run.config.experiment == OWN for run in runs)


def one_variant(runs: Sequence[RunData]) -> bool:
    return len({run.variant for run in runs}) == 1


def data_name(runs: Sequence[RunData]) -> str:
    """The names of the data: as evaluated, else of the folder of the store."""
    return ", ".join(dict.fromkeys(map(_name, runs)))


def _name(run: RunData) -> str:
    recorded = next((one.data for one in reversed(run.evaluations) if one.data), "")
    store = run.config.data.store if run.config.experiment == OWN else None
    return recorded or (Path(store).name if store else "") or run.config.experiment


def data_title(runs: Sequence[RunData]) -> str:
    """As "cars: predicted pressure, shear and forces"."""
    fields = dict.fromkeys(v for one in _evaluations(runs) for v in variables_of(one))
    names = [*fields, *(["forces"] if any(run.forces for run in runs) else [])]
    *others, last = names or ["fields"]
    return f"{data_name(runs)}: predicted {' and '.join([', '.join(others), last][not others :])}"


def _evaluations(runs: Sequence[RunData]) -> list[Evaluation]:
    return [run.evaluation for run in runs if run.evaluation]


def data_conclusion(runs: Sequence[RunData]) -> str:
    """What was predicted, on which data, how well, and what is not beaten; empty if unknown."""
    return "\n\n".join(text for group in main_groups(runs) if (text := _conclusion(group)))


def _conclusion(group: Group) -> str:
    evaluations = group.evaluations
    if not evaluations:
        return ""
    first, yardsticks = evaluations[0], yardsticks_of(evaluations)
    summaries = [s for s in summarise(evaluations) if s.variant == first.variant]
    errors = [beside_text(s, yardsticks) for s in summaries if s.measure == "L1"]
    samples = f"{len(first.samples)} {first.protocol.split} samples of {data_name(group.runs)}"
    paragraphs = [f"Relative L1 errors of {first.variant} on {samples}: {'. '.join(errors)}."]
    forces = next((run.forces for run in group.compared if run.forces), None)
    if forces is not None:
        paragraphs.append(" ".join(f"{_force_text(name, forces)}." for name in forces.errors))
    doubts = " ".join([*_not_beaten(summaries, yardsticks, forces), *copies(yardsticks)])
    return "\n\n".join([*paragraphs, *([doubts] if doubts else [])])


def _not_beaten(
    summaries: Sequence[Summary], yardsticks: Sequence[Yardstick], forces: ForceSection | None
) -> list[str]:
    """As "The nearest training sample is not beaten in p and Cl."; numbers are in the tables."""
    sentences = []
    for kind, name in NAMES.items():
        bounds = next((one.errors for one in yardsticks if one.kind == kind), {})
        pairs = [(s.variable, s.mean, bounds.get(s.name)) for s in summaries if s.measure == "L1"]
        for coefficient, own in (forces.errors if forces and kind in OF_FORCES else {}).items():
            pairs.append((coefficient.capitalize(), own.mean_absolute, getattr(own, kind)))
        worse = [str(what) for what, error, bound in pairs if bound is not None and error >= bound]
        if worse:
            sentences.append(f"{capital(name)} is not beaten in {', '.join(worse)}.")
    return sentences


def _force_text(name: str, forces: ForceSection) -> str:
    own = forces.errors[name]
    parts = [f"{name.capitalize()} is off by {own.mean_absolute:.3g} on average"]
    for kind, bound in zip(OF_FORCES, (own.mean, own.nearest), strict=True):
        parts += [f"{HEADINGS[kind]} {bound:.3g}"] if bound is not None else []
    parts += [f"correlation {own.correlation:.3f}"] if own.correlation is not None else []
    return "; ".join(parts)


def data_tables(runs: Sequence[RunData]) -> list[Table]:
    groups = main_groups(runs)
    tables = (forces_table(groups), samples_table(groups))
    return [table for table in tables if table is not None]


def samples_table(groups: Sequence[Group]) -> Table | None:
    """Every sample of the first run of each experiment, the worst first."""
    shown = [(group, run) for group in groups if (run := _first_run(group)) is not None]
    if not shown:
        return None
    evaluations = [run.evaluation for _, run in shown if run.evaluation]
    names = list(dict.fromkeys(name for one in evaluations for name in variables_of(one)))
    kinds = list(dict.fromkeys(y.kind for one in evaluations for y in one.yardsticks))
    forces = [run.forces for _, run in shown]
    coefficients = [n for n in SHOWN if any(own and n in own.errors for own in forces)]
    by_run = [
        (run.config.experiment, row)
        for _, run in shown
        for row in _sample_rows(run, names, kinds, coefficients)
    ]
    several = len(shown) > 1
    rows = [(*([text_cell(name)] if several else []), *row) for name, row in by_run]
    columns = [*(["experiment"] if several else []), "sample", "composite"]
    columns += [HEADINGS[kind] for kind in kinds]
    columns += [*(["which"] if "nearest" in kinds else []), *(f"L1 {name}" for name in names)]
    for name in coefficients:
        columns += [f"{name.capitalize()} predicted", f"{name.capitalize()} true"]
    who = ", ".join(run.name for _, run in shown)
    caption = (
        f"Of {who}, on the test split, {where_measured(groups, 'L1')}: composite error, that of the"
        " yardsticks, and relative L1 error of each variable in physical units; worst first."
    )
    return Table("samples", "Sample by sample", caption, tuple(columns), tuple(rows))


def _first_run(group: Group) -> RunData | None:
    """The run whose samples are shown: the first that was evaluated, with forces if one has."""
    evaluated = [run for run in group.compared if run.evaluation]
    same = [run for run in evaluated if run.variant == evaluated[0].variant]
    return next((run for run in same if run.forces), next(iter(same), None))


def _sample_rows(
    run: RunData, names: Sequence[str], kinds: Sequence[str], coefficients: Sequence[str]
) -> list[tuple[Cell, ...]]:
    assert run.evaluation is not None
    rows = []
    for row in worst_first(run.evaluation):
        yardsticks = {str(kind): error for kind, error in row.yardsticks.items()}
        cells = [text_cell(row.sample), _cell(row.composite)]
        cells += [_cell(yardsticks.get(kind)) for kind in kinds]
        cells += [text_cell(row.neighbour or "-")] if "nearest" in kinds else []
        cells += [_cell(row.errors.get(name)) for name in names]
        own = run.forces.samples.get(row.sample) if run.forces else None
        for name in coefficients:
            pair = (own.predicted.get(name), own.true.get(name)) if own else (None, None)
            cells += [_cell(value, digits=4) for value in pair]
        rows.append(tuple(cells))
    return rows


def _cell(value: float | None, digits: int = 3) -> Cell:
    return UNKNOWN if value is None else Cell(value, digits=digits)


def forces_table(groups: Sequence[Group]) -> Table | None:
    """Errors of the force coefficients of each variant's first seed, beside the yardsticks."""
    rows, notes, definitions = [], [], []
    for group in groups:
        first = {run.variant: run for run in reversed(group.compared) if run.forces}
        for variant, run in first.items():
            forces = run.forces
            assert forces is not None
            definitions.append(forces.definition)
            notes += [f"{variant}: {sentence}." for sentence in force_sentences(forces)]
            notes += [f"{sentence}." for sentence in forces.warnings]
            for name, own in forces.errors.items():
                numbers = (own.mean_absolute, own.mean, own.nearest, own.correlation, own.r2)
                names = (group.experiment, variant, name.capitalize())
                count = Cell(len(forces.samples), kind="count")
                rows.append((*map(text_cell, names), *map(_cell, numbers), count))
    if not rows:
        return None
    caption = (
        "Mean absolute error of coefficients from predicted fields against those from true fields,"
        " both as sums over all faces of the test samples, beside answering with the mean of"
        " training samples and with the nearest one. With"
        f" {'; '.join(dict.fromkeys(definitions))}."
    )
    columns = (
        "experiment", "variant", "coefficient", "mean absolute error",
        *(HEADINGS[kind] for kind in OF_FORCES), "correlation", "R2", "samples",
    )  # fmt: skip
    unique = tuple(dict.fromkeys(notes))
    return Table("forces", "Force coefficients", caption, columns, tuple(rows), unique)
