"""`slipstream slim`: take the token attention out of a trained model. Bad input: ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.interop.slim import CERTIFICATE, MODEL, SlimRequest
from slipstream.interop.slim import slim as slim_model


def slim(
    path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a run, or a model file.")
    ],
    store: Annotated[Path, typer.Option(help="Point store with the model's fields.")],
    out: Annotated[Path, typer.Option(help="Folder for the model and its certificate.")],
    steps: Annotated[int, typer.Option(help="Steps of fine-tuning; 0 for none.")] = 0,
    samples: Annotated[int, typer.Option(help="Training samples whose tokens are fitted.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Of the fine-tuning.")] = 3e-4,
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
    request = SlimRequest(steps=steps, samples=samples, learning_rate=learning_rate, device=device)
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
        f"What the maps leave of the attention's tokens, layer by layer: {residuals}.",
    ]
