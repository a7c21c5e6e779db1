"""Checkpoints: one safetensors file that is complete or absent, read without executing code.

Schema 1. Tensors: `model.<parameter>`, `optimizer.<parameter>.<moment>`, `rng.<device>`. The header
holds one JSON object under "slipstream": schema, what ("checkpoint"), versions, and the rest of the
state: step, config, place in the data, best validation so far, skipped steps, hashes of the data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from slipstream.core.files import check_regular, naming, publish, sync_folder
from slipstream.core.runtime import versions

SCHEMA = 1
_HEADER = "slipstream"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    state: dict[str, Any]
    """Plain JSON."""
    tensors: dict[str, Tensor]

    @property
    def step(self) -> int:
        return int(self.state["step"])

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of "model", "optimizer" or "rng", by the rest of their names."""
        prefix = f"{name}."
        return {k.removeprefix(prefix): v for k, v in self.tensors.items() if k.startswith(prefix)}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    write_tensors(path, "checkpoint", checkpoint.state, checkpoint.tensors)


def read_checkpoint(path: Path) -> Checkpoint:
    """Raises ValueError where the file is not a whole checkpoint."""
    state, tensors = read_tensors(path, "checkpoint")
    if "step" not in state or "config" not in state:
        raise ValueError(
            f"{path} must say its step and config, got {', '.join(state) or 'nothing'}"
        )
    return Checkpoint(state, tensors)


def write_tensors(
    path: Path, what: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a file of this package; an older one stays until the new one is safe on disk."""
    header = {"schema": SCHEMA, "what": what, "versions": versions(), **state}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(plain, {_HEADER: json.dumps(header, allow_nan=False)})
    aside = path.with_name(f".{path.name}.partial")
    try:
        with naming(path):
            aside.write_bytes(content)
            publish(aside, path)
            sync_folder(path.parent)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def read_tensors(path: Path, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of this package; ValueError where it is something else."""
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a {what}, got no such file")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_HEADER, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} must be a {what}, got {error}") from None
    if not isinstance(header, dict) or header.get("what") != what:
        got = header.get("what") if isinstance(header, dict) else "a file of another program"
        raise ValueError(f"{path} must be a {what}, got {got}")
    if header.get("schema", 0) > SCHEMA:
        raise ValueError(
            f"{path}: schema must be at most {SCHEMA}, got {header['schema']}: a newer slipstream"
            " wrote it"
        )
    return header, tensors


def weights_hash(weights: Mapping[str, Tensor]) -> str:
    """A hash of a model's parameters: their names, dtypes, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(torch.uint8).numpy().data if tensor.ndim else _scalar(tensor))
    return digest.hexdigest()


def _scalar(tensor: Tensor) -> bytes:
    return tensor.reshape(1).view(torch.uint8).numpy().tobytes()
