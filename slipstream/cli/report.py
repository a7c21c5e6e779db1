"""`slipstream report`: tables, figures and a page of a study. Bad input raises ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Plugins, load_plugins
from slipstream.reports.content import PAGE


def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="STUDY...", help="Folders of studies or runs.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the report; an older one is replaced.")],
    bench: Annotated[
        list[Path] | None, typer.Option(help="Records of `slipstream bench`; again for more.")
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "",
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Write report.html, one page that needs no network, and its tables and figures as files.

    From records and predictions alone: evaluate and audit the study before. What is missing is said
    in the report. Several studies make one report: the same experiment with other numbers of
    slices or layers becomes a sweep.

    Example: slipstream report studies/poisson --out report
    """
    load_plugins(plugin)
    from slipstream.reports.write import write_report  # matplotlib: a second for no other command

    told = write_report(paths, out, bench=bench or (), title=title)
    if as_json:
        files = sorted(str(file) for file in out.rglob("*") if file.is_file())
        print(
            json.dumps({"conclusion": told.conclusion, "problems": told.problems, "files": files})
        )
        return
    for problem in told.problems:
        print(f"Note: {problem}.")
    if told.conclusion:
        print(told.conclusion)
    print(f"Report: {out / PAGE}")
