"""What the studies of some runs planned, compared with the runs that exist."""

from __future__ import annotations

from pathlib import Path

from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import NAME as STUDY
from slipstream.runs.study_file import PlannedCell, read_planned


def lost_variants(group: Group) -> set[str]:
    """Variants that the studies of the group plan for its experiment and that have no run."""
    studies: dict[Path, list[PlannedCell]] = {}
    for run in group.runs:
        studies |= _study(run)
    planned, begun = set(), set(group.variants)
    for study, cells in studies.items():
        own = [cell for cell in cells if cell.experiment == group.experiment]
        planned |= {cell.variant for cell in own}
        begun |= {cell.variant for cell in own if RunFolder(study / cell.path).exists}
    return planned - begun


def _study(run: RunData) -> dict[Path, list[PlannedCell]]:
    """The cells of the study that planned the run, by the study's folder; empty where none did.

    A study that cannot be read counts as none here: `gather` reports it already.
    """
    study = next((above for above in run.folder.path.parents if (above / STUDY).is_file()), None)
    if study is None:
        return {}
    try:
        cells = read_planned(study)
    except ValueError:
        return {}
    return {study: cells} if any(study / c.path == run.folder.path for c in cells) else {}
