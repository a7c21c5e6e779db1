"""`slipstream import` and `slipstream export-weights`. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.core.checks import check_choice
from slipstream.data.store import Schema, open_store
from slipstream.interop.certificate import certify
from slipstream.interop.export_weights import normaliser_text, write_exported
from slipstream.interop.import_weights import import_weights
from slipstream.interop.imported_model import as_trained, write_imported
from slipstream.interop.out_file import check_out
from slipstream.runs.model_file import load_model

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")]
SOURCES = ("auto", "thuml", "flashslice", "physicsnemo", "linearno")


def import_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .pt, .pth or .mdlus file.")],
    out: Annotated[Path, typer.Option(help="The model file to write, model.safetensors.")],
    source: Annotated[
        str, typer.Option("--from", metavar="SOURCE", help=f"The program: {', '.join(SOURCES)}.")
    ] = "auto",
    variant: Annotated[
        str | None, typer.Option(help="The variant, where the keys of several are the same.")
    ] = None,
    coord_dim: Annotated[
        int | None, typer.Option(help="How many inputs are coordinates, which keys do not tell.")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Heads of slice-once, which keys do not tell.")
    ] = None,
    inputs: Annotated[
        str, typer.Option(help="Names of the inputs, as x=m,y=m,speed=m/s; coordinates first.")
    ] = "",
    outputs: Annotated[str, typer.Option(help="Names of the outputs, as pressure=Pa.")] = "",
    store: Annotated[
        Path | None,
        typer.Option(help="Point store whose fields the model takes and gives, in their order."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make a model file of weights that another program trained.

    Nothing in the file is executed. Where the program is installed, both models are compared on
    seeded inputs in fp64; the certificate is written beside the model.

    Example: slipstream import transolver.pt --from thuml --coord-dim 3 --out model.safetensors
    """
    check_choice("--from", source, SOURCES)
    if out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors, got {out.name!r}")
    check_out(out, overwrite=overwrite)
    fields = _fields(store, inputs, outputs)
    if fields is not None and coord_dim is None:
        coord_dim = fields.coord_dim
    imported = import_weights(
        path, source, variant=variant, coord_dim=coord_dim, heads=heads,  # type: ignore[arg-type]
    )  # fmt: skip
    trained = as_trained(imported, _names(inputs), _names(outputs), fields=fields)
    parity = certify(imported)
    certificate = write_imported(out, trained, imported, parity)
    if as_json:
        print(json.dumps({"path": str(out), **json.loads(certificate.read_text("utf-8"))}))
        return
    say(f"{out}: {imported.variant} of {imported.naming.title}")
    for sentence in imported.dropped:
        say(f"  dropped {sentence}")
    for name, value in imported.constants.differing().items():
        say(f"  {name} {value}")
    say(f"  parity {parity}")
    say(f"  certificate in {certificate}")


def export_command(
    path: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="Folder of a run, or a model file.")
    ],
    out: Annotated[Path, typer.Option(help="The .pt, .pth or .mdlus file to write.")],
    to: Annotated[
        str, typer.Option(metavar="PROGRAM", help=f"The program: {', '.join(SOURCES[1:])}.")
    ],
    overwrite: Overwrite = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Write the weights of a model under the names of another program.

    Refused where that program computes with other constants. The normaliser is not written but
    printed: what the program is given must be normalised by it, and what it gives turned back.

    Example: slipstream export-weights runs/own --to thuml --out transolver.pt
    """
    check_choice("--to", to, SOURCES[1:])
    load_plugins(plugin)
    trained = load_model(path)
    write_exported(trained.model, to, out, overwrite=overwrite)
    variant = trained.config.model.variant
    if as_json:
        normaliser = {"columns": trained.schema.channels, **asdict(trained.normaliser.rows)}
        facts = {"path": str(out), "to": to, "variant": variant, "normaliser": normaliser}
        print(json.dumps(facts))
        return
    say(f"{out}: {variant} under the names of {to}", *normaliser_text(trained))


def _fields(store: Path | None, inputs: str, outputs: str) -> Schema | None:
    if store is None:
        return None
    if inputs or outputs:
        raise ValueError("--inputs and --outputs must not be given beside --store, which has them")
    return open_store(store).schema


def _names(text: str) -> list[str]:
    return text.split(",") if text else []
