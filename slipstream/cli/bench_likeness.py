"""`slipstream bench likeness`: whether designs of other families are told from the training's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.bench import likeness as bench
from slipstream.cli.evaluation_tables import print_whole
from slipstream.cli.terminal import new_table, plain
from slipstream.core.checks import check_whole
from slipstream.experiments import experiment


def likeness(
    work: Annotated[
        Path, typer.Option(help="Folder of the runs that are trained; those there are used.")
    ],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/likeness.jsonl"
    ),
    only: Annotated[str, typer.Option(help="Only settings whose name contains this.")] = "",
    samples: Annotated[int, typer.Option(help="Of each family.")] = 96,
    steps: Annotated[int, typer.Option(help="Of each training.")] = 2000,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
) -> None:
    """Compare views of a design and distances by how well they tell unseen families.

    Trains a small model for each setting, minutes each. Detection is at 5 % false alarms, by the
    score together with the plain checks of predict.

    Example: slipstream bench likeness --work out/likeness --only "one shape"
    """
    check_whole("samples", samples, 1)
    check_whole("steps", steps, 5)
    chosen = [setting for setting in bench.SETTINGS if only in setting]
    if not chosen:
        names = ", ".join(bench.SETTINGS)
        raise ValueError(f"only must be part of the name of a setting ({names}), got {only!r}")
    base = experiment(bench.PROBLEM)
    for setting in chosen:
        measured = bench.measure_setting(
            setting, base, work, out, samples=samples, steps=steps, device=device
        )
        _show(setting, list(measured))
    typer.echo(f"Records: {out}")


def _show(setting: str, rows: list[dict[str, Any]]) -> None:
    *compared, verdicts = rows
    table = new_table(f"{setting}: detection at 5 % false alarms")
    for heading in ("view", "distance", "worst family", "worst", "mean"):
        table.add_column(heading)
    best: dict[str, dict[str, Any]] = {}
    for row in sorted(compared, key=lambda row: (-row["worst"], -row["mean"])):
        best.setdefault(row["view"], row)
    chosen = next(r for r in compared if (r["view"], r["distance"]) == bench.CHOSEN)
    for row in [chosen, *(row for row in best.values() if row is not chosen)]:
        numbers = (f"{row['worst']:.3f}", f"{row['mean']:.3f}")
        table.add_row(*map(plain, (row["view"], row["distance"], row["worst_family"], *numbers)))
    print_whole(table)
    headings = ("samples", "by_score", "by_plain_checks", "by_both", "outside", "median_error")
    table = new_table(f"{setting}: verdicts by {verdicts['held_out']} held-out samples")
    for heading in ("family", *headings):
        table.add_column(heading.replace("_", " "))
    for family, own in verdicts["families"].items():
        table.add_row(plain(family), *(str(own[heading]) for heading in headings))
    print_whole(table)
