"""Variants that a study plans and that nothing is there of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.planned import lost_variants
from slipstream.reports.study.settings import main_groups
from slipstream.reports.study.study_tables import study_tables
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import PlannedCell, add_planned

from ..made_data import run


def cell(variant: str, seed: int = 0, experiment: str = "poisson") -> PlannedCell:
    return PlannedCell(experiment, variant, seed, f"runs/{variant}/seed-{seed}")


def placed(each: RunData, study: Path) -> RunData:
    """As if it lay there: a folder with a config."""
    path = study / cell(each.variant, each.config.seed).path
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return replace(each, folder=RunFolder(path))


def test_a_lost_variant_has_a_column(tmp_path: Path) -> None:
    add_planned(tmp_path, [cell("baseline"), cell("baseline", 1), cell("untied"), cell("mlp-only")])
    runs = [placed(run("baseline", 0.1), tmp_path), placed(run("untied", 0.2), tmp_path)]
    runs.append(run("slice-once", 0.2, name="other"))
    main = study_tables(runs)[0]
    assert main.columns == ("experiment", "baseline", "untied", "slice-once", "mlp-only")
    assert [[cell_text(cell) for cell in row] for row in main.rows] == [
        ["poisson", "0.100", "0.200", "not run", "missing"],
        ["other", "not run", "not run", "0.200", "not run"],
    ]


def test_what_is_not_lost(tmp_path: Path) -> None:
    own = placed(run("baseline", 0.1), tmp_path)
    (main,) = main_groups([own])
    assert lost_variants(main) == set(), "without a study"
    cells = [cell("baseline"), cell("untied"), cell("untied", 1), cell("mlp-only", 0, "other")]
    add_planned(tmp_path, cells)
    placed(run("untied", 0.1, 1), tmp_path)
    assert lost_variants(main) == set(), "another experiment, and one of which a cell is there"
    (tmp_path / "study.json").write_text("{}")
    assert lost_variants(main) == set(), "gather tells that it cannot be read"


def test_a_study_that_did_not_plan_the_run_says_nothing_of_it(tmp_path: Path) -> None:
    add_planned(tmp_path, [cell("mlp-only")])
    (main,) = main_groups([placed(run("baseline", 0.1), tmp_path)])
    assert lost_variants(main) == set()
