"""A model as weights of another program: the tables of the import read backwards."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch

from slipstream.core.files import write_bytes
from slipstream.interop.names import Naming, Tensors, scattered
from slipstream.interop.out_file import check_out
from slipstream.interop.sources import naming_to
from slipstream.models.transolver import Transolver
from slipstream.runs.model_file import TrainedModel

ENDINGS = (".pt", ".pth", ".mdlus")


def exported(model: Transolver, to: str) -> Tensors:
    """The parameters under the names of another program.

    Tensors that it keeps and never trains are zero. Where it has no placeholder, ours is added to
    the last bias of the lifting MLP, which is the same function. Raises ValueError where it does
    not have the variant, or computes with other constants.
    """
    naming, size = naming_to(to, model.variant.name), model.size
    _check_constants(model, naming)
    weights = {name: weight.detach().cpu() for name, weight in model.named_parameters()}
    if not naming.has_placeholder:
        placeholder = weights.pop("placeholder")
        if placeholder.any():
            weights["lift.contract.bias"] = weights["lift.contract.bias"] + placeholder
    theirs = scattered(naming, weights, size.layers)
    for dead in naming.dead_tensors(model.variant.name):
        for key, shape in (dead.shapes(size) if dead.shapes else {}).items():
            theirs[key] = torch.zeros(shape, dtype=model.placeholder.dtype)
    return {key: tensor.contiguous().clone() for key, tensor in theirs.items()}


def write_exported(model: Transolver, to: str, out: Path, *, overwrite: bool = False) -> None:
    """Write a state dict, or an archive of PhysicsNeMo's where the name ends in .mdlus.

    Raises ValueError where `exported` does, and for a file that exists, unless it is to be
    overwritten.
    """
    if out.suffix not in ENDINGS or (out.suffix == ".mdlus" and to != "physicsnemo"):
        raise ValueError(
            f"--out must end in .pt or .pth, or in .mdlus for physicsnemo, got {out.name!r}"
        )
    check_out(out, overwrite=overwrite)
    state = io.BytesIO()
    torch.save(exported(model, to), state)
    content = state.getvalue()
    write_bytes(out, content if out.suffix != ".mdlus" else _archive(model, content))


def normaliser_text(trained: TrainedModel) -> list[str]:
    """What a user must do by hand, since weights of another program have no normaliser."""
    own = trained.normaliser.rows
    if set(own.shift) == {0.0} and set(own.scale) == {1.0}:
        return ["No normaliser stays behind: the model takes and gives values as they are."]
    columns = zip(trained.schema.channels, own.shift, own.scale, strict=True)
    return [
        "The normaliser stays behind: the program must be given (value - shift) / scale of every"
        " input, and what it gives is such a value of every target.",
        *(f"  {name}: shift {shift:.9g}, scale {scale:.9g}" for name, shift, scale in columns),
    ]


def _check_constants(model: Transolver, naming: Naming) -> None:
    theirs, ours = naming.constants, model.constants
    for name, value in vars(theirs).items():
        if getattr(ours, name) != value:
            raise ValueError(
                f"{name} must be {value} for {naming.source}, which computes with that, got"
                f" {getattr(ours, name)}: with these weights it would be another function"
            )


def _archive(model: Transolver, state: bytes) -> bytes:
    size = model.size
    arguments: dict[str, Any] = {
        "functional_dim": model.feature_dim,
        "out_dim": model.out_dim,
        "embedding_dim": model.coord_dim,
        "n_layers": size.layers,
        "n_hidden": size.width,
        "n_head": size.heads,
        "mlp_ratio": size.mlp_ratio,
        "slice_num": size.slices,
        "use_te": False,
    }
    described = {
        "__name__": "Transolver",
        "__module__": "physicsnemo.models.transolver.transolver",
        "__args__": arguments,
    }
    about = {"physicsnemo_version": "2.2.2", "mdlus_file_version": "0.1.0"}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("model.pt", state)
        archive.writestr("args.json", json.dumps(described))
        archive.writestr("metadata.json", json.dumps(about))
    return out.getvalue()
