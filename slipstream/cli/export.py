"""`slipstream export`: a model for other programs. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import say


def export(
    path: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="Folder of a run, or a model file.")
    ],
    form: Annotated[str, typer.Option("--format", help="torch (a .pt2 file) or onnx.")],
    out: Annotated[Path, typer.Option(help="The file to write, NAME.pt2 or NAME.onnx.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that exists.")
    ] = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Write a trained model as one file that needs no Slipstream: torch.export or ONNX.

    Physical units go in and come out, for clouds of any number of points. The file is run beside
    the model on three sizes of cloud before it is kept, and says itself what it takes and gives.

    Example: slipstream export runs/own --format onnx --out own.onnx
    """
    from slipstream.interop.export import check_target, export_model
    from slipstream.interop.export_check import TOLERANCE
    from slipstream.interop.export_facts import facts_text
    from slipstream.runs.model_file import load_model

    check_target(out, form, overwrite=overwrite)
    load_plugins(plugin)
    made = export_model(load_model(path), out, form=form, overwrite=overwrite)
    if as_json:
        agreement = [asdict(one) for one in made.agreement]
        facts = {"path": str(out), "bytes": made.size, **made.facts, "agreement": agreement}
        print(json.dumps(facts))
        return
    say(*facts_text(made.facts))
    found = ", ".join(f"{one.difference:.1e} on {one.points:,} points" for one in made.agreement)
    say(
        f"Largest difference from the model, of the size of a field: {found} (at most {TOLERANCE})."
    )
    say(f"{out}: {form}, {made.size / 1e6:.1f} MB, written.")
