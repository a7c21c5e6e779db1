"""`slipstream report`: tables, figures and a page of a study. Bad input raises ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.reports.content import PAGE


def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="STUDY...", help="Folders of studies or runs.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the report; an older one is replaced.")],
    bench: Annotated[
        list[Path] | None, typer.Option(help="Records of `slipstream bench`; again for more.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Write report.html, one page that needs no network, and its tables and figures as files.

    It reads records and predictions only: evaluate and audit the study first. The report says what
    is missing. Several studies make one report: the same experiment with other numbers of slices
    or layers becomes a sweep.

    Example: slipstream report studies/poisson --out report
    """
    load_plugins(plugin)
    from slipstream.reports.write import write_report  # here: matplotlib takes a second to import

    written = write_report(paths, out, bench=bench or (), title=title)
    if as_json:
        files = sorted(str(file) for file in out.rglob("*") if file.is_file())
        output = {"conclusion": written.conclusion, "problems": written.problems, "files": files}
        print(json.dumps(output))
        return
    for problem in written.problems:
        say(f"Note: {problem}.")
    if written.conclusion:
        say(*written.conclusion.split("\n"))
    say(f"Report: {out / PAGE}")
