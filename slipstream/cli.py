"""The command line. Bad input ends with one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from slipstream.audit_commands import audit
from slipstream.bench.cli import app as bench
from slipstream.bench.parity import quick_check
from slipstream.core import runtime
from slipstream.core.version import VERSION
from slipstream.data_commands import app as data
from slipstream.demo_commands import demo
from slipstream.evaluate_commands import evaluate
from slipstream.kernels.api import describe
from slipstream.kernels.plan import make_plan
from slipstream.models.transolver import Transolver
from slipstream.models.variants import VARIANTS
from slipstream.report_commands import report
from slipstream.study_commands import study
from slipstream.train_commands import train
from slipstream.training.stopped import TrainingStopped

app = typer.Typer(
    name="slipstream",
    help="Transolver neural operators: ablations, fused slice/deslice, prediction on meshes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(bench)
app.add_typer(data)
app.command()(demo)
app.command()(train)
app.command()(study)
app.command()(audit)
app.command()(evaluate)
app.command()(report)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def main() -> None:
    try:
        app(prog_name="slipstream")
    except OSError as error:
        where = f"cannot use {str(error.filename)!r}: " if error.filename else ""
        print(f"slipstream: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except ValueError as error:
        print(f"slipstream: {error}", file=sys.stderr)
        sys.exit(2)
    except TrainingStopped as error:
        print(f"slipstream: {error}", file=sys.stderr)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"slipstream {VERSION}")
        raise typer.Exit


@app.command()
def variants(as_json: Json = False) -> None:
    """List the variants with their parameter counts at the paper's size.

    Counted on models that were built, with 3 coordinates, 5 features and 4 outputs.

    Example: slipstream variants --json
    """
    rows = []
    for variant in VARIANTS.values():
        count = Transolver(3, 5, 4, variant=variant.name).parameter_count()
        rows.append({**asdict(variant), "parameters": count})
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title="Variants at the paper's size (3 coordinates, 5 features, 4 outputs)")
    table.add_column("variant", no_wrap=True)
    for title in ("parameters", "paper"):
        table.add_column(title, justify="right")
    table.add_column("what it is")
    for row in rows:
        paper = f"{row['paper_parameters']}M" if row["paper_parameters"] else ""
        table.add_row(row["name"], f"{row['parameters']:,}", paper, row["summary"])
    Console().print(table)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine can run: versions, device, which kernels, and whether they are right.

    Exit code 1 where a kernel is further from fp64 than it may be.

    Example: slipstream doctor
    """
    device = runtime.pick_device()
    plan = make_plan(describe(torch.empty(32, device=device), slices=32, value_width=32))
    found: dict[str, str] = {
        **runtime.versions(),
        "device": runtime.device_name(device),
        "kernels": str(plan),
    }
    parity = quick_check(str(device))
    if as_json:
        print(json.dumps({**found, "parity": parity}, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:12} {value}")
        for name, value in (parity or {"": "not checked: no kernels run here"}).items():
            print(f"{'parity':12} {name + ': ' if name else ''}{value}")
    if any(value.startswith("RED") for value in parity.values()):
        raise typer.Exit(1)
