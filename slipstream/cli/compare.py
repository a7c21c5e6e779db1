"""`slipstream compare`: is design B better than design A? Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.evaluation_tables import print_whole
from slipstream.cli.shared import Json
from slipstream.cli.terminal import new_table, plain, say
from slipstream.evaluation.calibration import check_level, percent
from slipstream.inference.compare import (
    Comparison,
    calibration_for,
    parse_better,
)
from slipstream.inference.compare import (
    compare as differences_of,
)
from slipstream.inference.predicted_designs import find_design, read_designs


def compare(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="OUT...", help="Meshes that `slipstream predict --forces` wrote, or folders."
        ),
    ],
    baseline: Annotated[str, typer.Option(help="Name or file of the design to compare with.")],
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    better: Annotated[
        str | None,
        typer.Option(help="Which way is better: cd=lower (as without it), cl=higher, cd=any."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of the run that predicted, if it moved; again for several."),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="The predicted scalar on the page; the first one without it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the page; beside the baseline without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare predicted designs with a baseline: better, worse, or cannot be told.

    The intervals of differences come from pairs of calibration samples, in which common errors
    cancel: `slipstream calibrate RUN --meshes FOLDER` first. Several designs at once are corrected
    for. Writes compare.html, with both bodies and the difference of a field on them.

    Example: slipstream compare predicted/ --baseline car_01 --better cd=lower,cl=lower
    """
    check_level(level, "--level")
    wanted = parse_better(better)
    designs = read_designs(places)
    first = find_design(designs, baseline)
    others = [one for one in designs if one is not first]
    calibration = calibration_for(first, designs, run or ())
    comparison = differences_of(first, others, calibration, level, wanted)
    from slipstream.reports.compare import PAGE, conclusions, write_comparison  # matplotlib: 1 s

    folder = out or first.file.parent
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out must be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    report = write_comparison(comparison, folder / PAGE, field)
    if as_json:
        page = {"page": str(folder / PAGE), "problems": list(report.problems)}
        print(json.dumps({**to_json(comparison), **page}, indent=2))
        return
    _print(comparison)
    for sentence in conclusions(comparison):
        say(sentence)
    if comparison.promise:
        say(comparison.promise)
    for note in (*comparison.notes, *report.problems):
        say(f"Note: {note.rstrip('.')}.")
    say(f"Page: {folder / PAGE}")


def to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "baseline": comparison.baseline.name,
        "designs": [one.name for one in comparison.others],
        "compared": len(comparison.others),
        "level": comparison.level,
        "split": comparison.split,
        "samples": comparison.samples,
        "better": dict(comparison.better),
        "differences": [
            {**asdict(one), "difference": one.difference, "interval": one.interval}
            for one in comparison.differences
        ],
        "promise": comparison.promise,
        "notes": list(comparison.notes),
    }


def _print(comparison: Comparison) -> None:
    table = new_table(f"against {comparison.baseline.name}")
    headings = ("design", "coefficient", "baseline", "here", "difference",
                f"interval, {percent(comparison.level)}", "verdict")  # fmt: skip
    for heading in headings:
        table.add_column(plain(heading), justify="left" if heading in headings[:2] else "right")
    for one in comparison.differences:
        interval = one.interval
        text = "none" if interval is None else f"{interval[0]:+.4f} to {interval[1]:+.4f}"
        numbers = (f"{one.baseline:.4f}", f"{one.value:.4f}", f"{one.difference:+.4f}", text)
        cells = (one.design, one.coefficient.capitalize(), *numbers, one.verdict)
        table.add_row(*map(plain, cells))
    print_whole(table)
    for reason in dict.fromkeys(one.reason for one in comparison.differences if one.reason):
        say(f"No interval: {reason}.")
