"""A report in a folder: report.html, tables/ and figures/."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from slipstream.core.files import remove_partials
from slipstream.reports.content import PAGE, Report
from slipstream.reports.draw.pictures import NAMES
from slipstream.reports.page.html import write_page
from slipstream.reports.page.tables import write_tables
from slipstream.reports.story import TABLES, make_report, pictures_of, tables_of
from slipstream.reports.study.conclusion import conclude_all
from slipstream.reports.study.evidence import evidence_of
from slipstream.reports.study.gather import RunData, gather
from slipstream.reports.study.own_data import (
    data_conclusion,
    data_title,
    is_on_data,
    one_variant,
)
from slipstream.reports.study.system_tables import read_bench


def write_report(
    paths: Sequence[Path],
    out: Path,
    *,
    bench: Sequence[Path] = (),
    title: str = "",
    notice: str = "",
) -> Report:
    """Write the report of the studies or runs in some folders into `out`, and return it.

    `notice` is what the page says before all numbers.

    Raises ValueError where no run can be read.
    """
    gathered = gather(paths)
    _remove_partials(out)
    own_title, conclusion = _title_and_conclusion(gathered.runs)
    report = make_report(
        gathered,
        title=title or own_title,
        conclusion=conclusion,
        bench=read_bench(bench),
        folder=out / "figures",
        notice=notice,
    )
    write_tables(tables_of(report), out / "tables")
    write_page(report, out / PAGE)
    _drop_older(out / "tables", TABLES, (".md", ".tex"), {one.name for one in tables_of(report)})
    _drop_older(out / "figures", NAMES, (".svg", ".png"), {one.name for one in pictures_of(report)})
    return report


def _title_and_conclusion(runs: Sequence[RunData]) -> tuple[str, str]:
    """Of the data, where the report is on data; else of the paper's claims."""
    evidence = evidence_of(runs)
    claims = "" if one_variant(runs) else conclude_all(evidence)
    if is_on_data(runs):
        parts = (data_conclusion(runs), claims)
        return data_title(runs), "\n\n".join(part for part in parts if part)
    names = ", ".join(one.main.experiment for one in evidence)
    return f"What a Transolver needs: {names}", claims


def _remove_partials(out: Path) -> None:
    """Remove what a killed report left unfinished."""
    remove_partials(out, PAGE)
    remove_partials(out / "tables", *(name + end for name in TABLES for end in (".md", ".tex")))
    remove_partials(out / "figures", *(f"{name}.svg" for name in NAMES))


def _drop_older(
    folder: Path, patterns: Sequence[str], endings: Sequence[str], written: Collection[str]
) -> None:
    """Remove what an older report wrote and this one did not."""
    for pattern in patterns:
        for ending in endings:
            for file in folder.glob(pattern + ending):
                if file.stem not in written and file.is_file():
                    file.unlink()
