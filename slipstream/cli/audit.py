"""`slipstream audit`: whether runs are what they claim to be. Bad input raises ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.audit.certificate import write_certificate
from slipstream.audit.study_audit import certify
from slipstream.cli.shared import Plugins, bar, load_plugins
from slipstream.cli.terminal import say


def audit(
    path: Annotated[
        Path, typer.Argument(metavar="RUN_OR_STUDY", help="Folder of a run, or of several.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the certificate; that of the runs if none.")
    ] = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Prove from its files alone that a run is the ablation it claims to be, or say why not.

    Parameters present and absent, initial values, every parameter trained, steps, learning rate,
    data, weights, kernels; for a study also that its runs differ in the variant only. Writes
    certificate.json and certificate.txt. Exit code 1 where something does not hold.

    Example: slipstream audit runs/no-token-attention
    """
    load_plugins(plugin)
    with bar("audit") as advance:
        certificate = certify(path, advance)
    folder = out or path
    folder.mkdir(parents=True, exist_ok=True)
    text_file = write_certificate(certificate, folder)
    if as_json:
        print(json.dumps(certificate.to_json(), indent=2))
    else:
        say(*f"{certificate.summary()} Details: {text_file}".split("\n"))
    if not certificate.holds:
        raise typer.Exit(1)
