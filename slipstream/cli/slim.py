"""`slipstream slim`: take the token attention out of a trained model. Bad input: ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.interop.fewer_slices import Limits
from slipstream.interop.slim import SlimRequest
from slipstream.interop.slim import slim as slim_model
from slipstream.interop.slim_folder import CERTIFICATE, MODEL


def slim(
    path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a run, or a model file.")
    ],
    store: Annotated[Path, typer.Option(help="Point store with the model's fields.")],
    out: Annotated[Path, typer.Option(help="Folder for the model and its certificate.")],
    steps: Annotated[int, typer.Option(help="Steps of fine-tuning; 0 for none.")] = 0,
    samples: Annotated[int, typer.Option(help="Training samples whose tokens are fitted.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Of the fine-tuning.")] = 3e-4,
    drop_unused: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Drop slices with less than this share of the points."),
    ] = None,
    merge_alike: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE", help="Merge slices whose weights have at least this cosine, as 0.99."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Replace the attention among tokens by the linear maps that fit it best, then fine-tune.

    Of a baseline comes a no-token-attention model, and so on: docs/slim.md. The certificate beside
    it, slim.json, has errors, parameters and times before and after.

    Example: slipstream slim runs/own --store stores/own --steps 2000 --out runs/own-slim
    """
    load_plugins(plugin)
    request = SlimRequest(
        steps=steps,
        samples=samples,
        learning_rate=learning_rate,
        limits=Limits(drop_unused=drop_unused, merge_alike=merge_alike),
        device=device,
    )
    certificate = slim_model(path, store, out, request)
    if as_json:
        print(json.dumps(certificate, indent=2))
        return
    say(*_text(certificate), f"{out / MODEL} and {out / CERTIFICATE}")


def _text(certificate: dict[str, Any]) -> list[str]:
    before, after = certificate["variant"]
    errors = ", ".join(
        f"{own['error']:.4f} {name}" for name, own in certificate["validation"].items()
    )
    numbers, times = certificate["parameters"], certificate["step_ms"]
    residuals = ", ".join(f"{fit['residual']:.2f}" for fit in certificate["fit"]["layers"])
    return [
        f"{before} -> {after}",
        f"Validation error: {errors}.",
        f"Parameters: {numbers[0]:,} -> {numbers[1]:,}. A forward and backward pass on"
        f" {certificate['device']}: {times[0]:.1f} -> {times[1]:.1f} ms.",
        *_slices_text(certificate["slices"]),
        f"What the maps leave of the attention's tokens, layer by layer: {residuals}.",
    ]


def _slices_text(slices: dict[str, Any]) -> Iterator[str]:
    """What became of the slices, where some were to go."""
    if not slices["layers"]:
        return
    before, after = slices["number"]
    yield f"Slices of every layer: {before} -> {after}."
    for own in slices["layers"]:
        share = f" ({100 * own['dropped_share']:.2g} % of the points)" if own["dropped"] else ""
        kept = own["kept_for_others"]
        stayed = f", {kept} more kept since all layers have as many" if kept else ""
        merged = f"{own['merged']} merged"
        yield f"  layer {own['layer']}: {own['dropped']} dropped{share}, {merged}{stayed}"
