"""`slipstream variants` lists the variants, `slipstream doctor` says what this machine can run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import torch
import typer

from slipstream.bench.parity import quick_check
from slipstream.cli.shared import Plugins, load_plugins
from slipstream.cli.terminal import new_console, new_table, plain, say
from slipstream.core import runtime
from slipstream.kernels.api import operation_on
from slipstream.kernels.plan import make_plan
from slipstream.models.transolver import Transolver
from slipstream.models.variants import VARIANTS

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def variants(plugin: Plugins = None, as_json: Json = False) -> None:
    """List the variants with their parameter counts at the paper's size.

    Counted on models that were built, with 3 coordinates, 5 features and 4 outputs.

    Example: slipstream variants --json
    """
    load_plugins(plugin)
    rows = []
    for variant in VARIANTS.values():
        count = Transolver(3, 5, 4, variant=variant.name).parameter_count()
        facts = {name: value for name, value in asdict(variant).items() if not callable(value)}
        rows.append({**facts, "parameters": count})
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = new_table("Variants at the paper's size (3 coordinates, 5 features, 4 outputs)")
    table.add_column("variant", no_wrap=True)
    for title in ("parameters", "paper"):
        table.add_column(title, justify="right")
    table.add_column("what it is")
    for row in rows:
        paper = f"{row['paper_parameters']}M" if row["paper_parameters"] else ""
        table.add_row(*map(plain, (row["name"], f"{row['parameters']:,}", paper, row["summary"])))
    new_console().print(table)


def doctor(as_json: Json = False) -> None:
    """Say what this machine can run: versions, device, which kernels, and whether they are right.

    Exit code 1 where a kernel is further from fp64 than it may be.

    Example: slipstream doctor
    """
    device = runtime.pick_device()
    operation = operation_on(device, torch.float32, slices=32, head_width=32, value_width=32)
    facts: dict[str, str] = {
        **runtime.versions(),
        "device": runtime.device_name(device),
        "kernels": str(make_plan(operation)),
    }
    parity = quick_check(str(device))
    if as_json:
        print(json.dumps({**facts, "parity": parity}, indent=2))
    else:
        for name, value in facts.items():
            say(f"{name:12} {value}")
        for name, value in parity.items():
            say(f"{'parity':12} {name}: {value}")
    if any(value.startswith("RED") for value in parity.values()):
        raise typer.Exit(1)
