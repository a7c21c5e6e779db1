"""`slipstream demo`: a complete study on two CPU cores. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.evaluation_tables import errors_table, print_whole
from slipstream.cli.study import exit_unless_finished, study_bar
from slipstream.cli.terminal import say
from slipstream.core.runtime import pick_device
from slipstream.demo import DemoResult, Plan, demo_cells, demo_config, quick_plan, run_demo
from slipstream.reports.content import PAGE


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all files, out/demo (or out/demo-quick) if not given; results already"
            " in it are kept."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data, initial values, sample order.")] = 0,
    steps: Annotated[
        int | None,
        typer.Option(help=f"Training steps per run, {demo_config().steps} if not given."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Under a minute: fewer bodies and variants, a smaller model."),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Flow past random bodies, solved exactly; four variants trained, tested, audited, reported.

    A few minutes on two CPU cores, under one with --quick. Ends with a page to open in a browser: a
    body that no model has learned from, tables, curves and fields in 3D.

    Example: slipstream demo --out out/demo
    """
    pick_device(device)
    plan = _plan(seed, steps, quick)
    out = out or Path("out/demo-quick" if quick else "out/demo")
    if plan.notice:
        say(plan.notice, error=True)
    with study_bar(len(demo_cells(plan, out))) as watch:
        result = run_demo(plan, out, device=device, watch=watch, say=_say)
    if as_json:
        print(json.dumps({"quick": quick, **_json(result, out)}, indent=2))
    else:
        _print(result, out, plan.notice)
    exit_unless_finished(result.endings)
    if result.certificate is not None and not result.certificate.holds:
        raise typer.Exit(1)


def _plan(seed: int, steps: int | None, quick: bool) -> Plan:
    """ValueError for options that contradict each other."""
    if quick and steps is not None:
        raise ValueError(
            f"steps must not be given with --quick, which has its own, got --steps {steps}"
        )
    return quick_plan(seed) if quick else Plan(demo_config(seed, steps))


def _say(sentence: str) -> None:
    say(f"{sentence} ...", error=True)


def _print(result: DemoResult, out: Path, notice: str) -> None:
    for ending in result.endings:
        if ending.status != "finished":
            say(f"{ending.cell.name}: {ending.status}: {ending.reason or 'interrupted'}")
    if result.report is None or result.certificate is None:
        say("The same command continues from here.")
        return
    errors = [summary for summary in result.summaries if summary.measure != "L2"]
    title = "Potential flow past smooth bodies: test errors"
    print_whole(errors_table(title, errors, result.yardsticks))
    for problem in result.report.problems:
        say(f"Note: {problem}.")
    say(f"{result.certificate.verdict}.")
    say(*result.report.conclusion.split("\n"))
    if notice:
        say(notice)
    say(f"Report: {out / PAGE}")


def _json(result: DemoResult, out: Path) -> dict[str, object]:
    return {
        "cells": [{"cell": e.cell.name, "status": e.status} for e in result.endings],
        "errors": [
            {**asdict(summary), "mean": summary.mean, "std": summary.std}
            for summary in result.summaries
        ],
        "yardsticks": [{"kind": one.kind, "errors": one.errors} for one in result.yardsticks],
        "conclusion": result.report and result.report.conclusion,
        "certificate": result.certificate and result.certificate.verdict,
        "report": str(out / PAGE) if result.report else None,
    }
