"""`slipstream demo`: the whole story, and what it says. Bad input raises ValueError."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slipstream.cli.evaluate import errors_table
from slipstream.cli.study import exit_unless_finished, study_bar
from slipstream.core.runtime import pick_device
from slipstream.demo import Outcome, demo_config, run_demo
from slipstream.reports.content import PAGE


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all of it; what is there is kept.")] = Path(
        "out/demo"
    ),
    seed: Annotated[int, typer.Option(help="Of data, initial values and sample order.")] = 0,
    steps: Annotated[int, typer.Option(help="Training steps per run.")] = demo_config().steps,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Flow past random bodies, solved exactly; four variants trained, tested, audited, reported.

    A few minutes on two CPU cores. Ends with a page to open in a browser: tables, curves and the
    fields on a body in 3D.

    Example: slipstream demo --out out/demo
    """
    pick_device(device)
    config = demo_config(seed, steps)
    with study_bar(6) as watch:
        found = run_demo(config, out, device=device, watch=watch, say=_say)
    if as_json:
        print(json.dumps(_json(found, out), indent=2))
    else:
        _print(found, out)
    exit_unless_finished(found.endings)
    if found.certificate is not None and not found.certificate.holds:
        raise typer.Exit(1)


def _say(sentence: str) -> None:
    print(f"{sentence} ...", file=sys.stderr, flush=True)


def _print(found: Outcome, out: Path) -> None:
    for ending in found.endings:
        if ending.status != "finished":
            print(f"{ending.cell.name}: {ending.status}: {ending.reason or 'interrupted'}")
    if found.report is None or found.certificate is None:
        print("The same command goes on from here.")
        return
    errors = [summary for summary in found.summaries if summary.measure != "L2"]
    _wide(errors).print(errors_table("Potential flow past smooth bodies: test errors", errors))
    for problem in found.report.problems:
        print(f"Note: {problem}.")
    print(f"{found.certificate.verdict}.")
    print(found.report.conclusion)
    print(f"Report: {out / PAGE}")


def _wide(summaries: Sequence[object]) -> Console:
    return Console(width=max(Console().width, 116)) if summaries else Console()


def _json(found: Outcome, out: Path) -> dict[str, object]:
    return {
        "cells": [{"cell": e.cell.name, "status": e.status} for e in found.endings],
        "errors": [
            {**asdict(summary), "mean": summary.mean, "std": summary.std}
            for summary in found.summaries
        ],
        "conclusion": found.report and found.report.conclusion,
        "certificate": found.certificate and found.certificate.verdict,
        "report": str(out / PAGE) if found.report else None,
    }
